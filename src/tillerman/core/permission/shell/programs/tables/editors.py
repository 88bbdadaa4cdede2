"""Program table: editors and pagers, which can run shell commands."""

from __future__ import annotations

import re

from tillerman.core.patch_text import patched_files as changed_by_patch
from tillerman.core.permission.shell.parsed_script import HOLE
from tillerman.core.permission.shell.programs.git_arguments import patched_files
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_SHELL_ESCAPE = re.compile("!(.*)", re.DOTALL)
_SAVES = re.compile(r"\b(?:w|wq|x|sav|saveas|write|wri|up|update|redir)\b!?\s*>*\s*([^\s|!>]+)")

_OPENS = re.compile(
    r"(?m)(?:^|[|:\s])(?:r|re|read|e|ed|edit|so|source|sp|vs|tabe|vi)!?(?!\w)\s*([^\s|!]+)"
)


def _plus(draft: InvocationDraft) -> None:
    """`+command` runs when the file is opened."""
    for word in draft.parsed.operands:
        if word.startswith("+"):
            draft.doubt(f"{word} of {draft.program} can run any program")
            _editor_command(draft, word[1:])


def _vi(draft: InvocationDraft) -> None:
    _plus(draft)
    for option, value in draft.parsed.values:
        if option.name in ("-c", "--cmd"):
            _editor_command(draft, value)
    if "script" in draft.parsed.marks or draft.program == "ex":
        draft.doubt(f"commands that {draft.program} reads from its input")
        _editor_command(draft, draft.stdin.text or "")


def _editor_command(draft: InvocationDraft, text: str) -> None:
    """Records the shell command and the file that an editor command names."""
    for script in _SHELL_ESCAPE.findall(text):
        draft.script(script.replace(HOLE, "$_"))
    for path in _SAVES.findall(text):
        draft.access(path, "write")
    draft.mention(_OPENS.findall(text))
    draft.code(text)


def _patch(draft: InvocationDraft) -> None:
    for path, kind in zip(draft.parsed.operands, ("write", "read"), strict=False):
        draft.access(path, "write" if kind == "write" else "read")
    if not draft.parsed.operands and "dry" not in draft.parsed.marks:
        patched_files(draft)


def _apply_patch(draft: InvocationDraft) -> None:
    """It has the patch as its argument, or reads it."""
    text = draft.words[1] if len(draft.words) > 1 else draft.stdin.text
    if text is None or HOLE in text:
        draft.some_below(".")
    for file in changed_by_patch(text or ""):
        draft.access(file.path, "remove" if file.change == "delete" else "write")


ROWS = (
    Row("vim|vi|nvim|ex|view|gvim|vimdiff|rvim", "runs", "write*",
        "-bCdDFghHlLmMnNoOpRrvVxXyZA -e|-E|-s:script -c=code --cmd=code -S?=code -u=code -U=code "
        "-i=write -T=text -w=write -W=write -t=text -q?=read --clean --noplugin --headless "
        "--embed --remote --startuptime=write",
        refine=_vi),
    Row("nano|pico|micro|joe|mcedit|kak|hx|helix", "runs", "write*", "", refine=_plus),
    Row("emacs|emacsclient", "runs", "write*",
        "-nw -q -c -Q -l|-load|--load=code -eval|--eval=code -f|--funcall=code --execute=code "
        "--script=code -batch|--batch:doubt -t=text -a=program", style="single", refine=_plus),
    Row("code|cursor|subl|zed|idea|open|xdg-open", "runs", "mention*", ""),
    Row("less|more|most|bat|batcat", "runs", "read*",
        "-aABcCdeEfFgGiIJKLmMnNqQrRsSuUvVwWX -b=text -h=text -j=text -k=code -o|-O=write -p=text "
        "-P=text -t=text -T=read -x=text -y=text -z=text -D=text --pager=program --paging=text "
        "--style=text --language=text -l=text --color=text --line-range=text --plain -H=text "
        "--theme=text -#",
        refine=_plus),
    Row("man|info|apropos|whatis", "runs", "mention*",
        "-adDfiIkKlwWtuZ7 -P|--pager=program -H?=program --html?=program -C|--config-file=code "
        "-M|--manpath=read -S|-s=text -e=text -L=text -m=text -p=code -r=text -E=text -T?=text "
        "-X?=text"),
    Row("apply_patch|applypatch", "runs", own=True, refine=_apply_patch),
    Row("patch", "runs", "",
        "-lcenuNREZTbtfsv -p=text -F=text -i|--input=read -o|--output=write "
        "-r|--reject-file=write -D=text -V=text -B|--prefix=write -Y=text -z=text -g=text "
        "-d|--directory=dir -x=text --dry-run:dry --strip=text --merge?=text --quoting-style=text "
        "--backup-if-mismatch --no-backup-if-mismatch --verbose --posix --binary --read-only=text "
        "--reject-format=text --forward --reverse --backup --batch --force --fuzz=text --quiet "
        "--silent",
        refine=_patch),
)  # fmt: skip
