"""Evaluates arguments of git commands, where an option grammar is not enough."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from msgspec.structs import replace

from tillerman.core.permission.shell.parsed_script import HOLE, joined
from tillerman.core.permission.shell.programs.row import InvocationDraft

# Settings of a repository that name no program, no file and no other source to fetch from.
_RUNS_NOTHING = re.compile(
    r"user\.(name|email)|init\.defaultbranch|pull\.(rebase|ff)|push\.(default|autosetupremote)"
    r"|fetch\.(prune|prunetags)|rebase\.(autosquash|autostash|updaterefs)|merge\.(ff|conflictstyle)"
    r"|rerere\.\w+|color\.[\w.]+|advice\.\w+|core\.(autocrlf|eol|filemode|ignorecase|quotepath)"
    r"|branch\.[^\n]+\.(remote|merge|rebase)|commit\.(verbose|status)"
)


def shows(draft: InvocationDraft) -> None:
    """`log` prints file contents only on request; each named file counts all the same."""
    shows = "patch" in draft.parsed.marks
    named = any(one.kind == "read" for one in draft.accesses)
    if shows and not (named and draft.parsed.plain):
        draft.access(".", "read", recursive=True)
    for option, value in draft.parsed.values:
        if option.name == "-L":
            draft.access(value.rpartition(":")[2], "read")


def diff(draft: InvocationDraft) -> None:
    if "untracked" in draft.parsed.marks:
        return
    if not draft.parsed.plain:  # the arguments may all be revisions
        draft.access(".", "read", recursive=True)


def show(draft: InvocationDraft) -> None:
    words = draft.parsed.operands
    if not words or (any(":" not in word.lstrip(":") for word in words) and not draft.parsed.plain):
        draft.access(".", "read", recursive=True)


def cat_file(draft: InvocationDraft) -> None:
    if any(word.startswith("--batch") for word in draft.words[1:]):
        draft.access(".", "read", recursive=True)


def grep(draft: InvocationDraft) -> None:
    """Arguments after the pattern may be revisions as well as files."""
    operands = draft.parsed.operands
    files = operands if "given" in draft.parsed.marks else operands[1:]
    if not files:
        draft.access(".", "read", recursive=True)


def lists(draft: InvocationDraft) -> None:
    """The listing forms of branch and tag; a name among the operands creates or changes one."""
    marks = draft.parsed.marks
    if (draft.parsed.operands and "lists" not in marks) or "changes" in marks:
        draft.at_least("runs")


def config(draft: InvocationDraft) -> None:
    """A git setting can start programs: writing one counts as writing the config file."""
    marks, operands = draft.parsed.marks, draft.parsed.operands
    if draft.parsed.unknown:
        draft.at_least("runs")
    reads = "gets" in marks or operands[:1] in (["get"], ["list"]) or not operands
    edits = "changes" in marks or operands[:1] in (["set"], ["unset"], ["edit"], ["rename-section"])
    if reads and not edits:
        return
    if not edits and len(operands) < 2 and not draft.parsed.open:
        return
    file = draft.parsed.value("--file")
    if operands[:1] == ["set"]:
        operands = operands[1:]
    own = not marks & {"global", "system", "runs"} and file is None
    if own and operands and _RUNS_NOTHING.fullmatch(operands[0].lower()):
        draft.at_least("runs")
        return
    if "global" in marks:
        file = "~/.gitconfig"
    elif "system" in marks:
        file = "/etc/gitconfig"
    draft.access(file or ".git/config", "write")


def init(draft: InvocationDraft) -> None:
    """Creates a repository, or adds the content of a template to one, including hooks."""
    folder = next(iter(draft.parsed.operands), ".")
    draft.access(folder, "write")
    if draft.parsed.value("--template"):
        draft.access(posixpath.join(folder, ".git/hooks"), "write")


def pathspecs(draft: InvocationDraft) -> None:
    """Files that git writes from its object store: the named ones, and all tracked ones below."""
    for path in draft.parsed.operands:
        plain = re.sub(r"^:(\(.*?\)|[/!^]+)?", "", path)
        draft.some_below(plain or ".")


def checkout_index(draft: InvocationDraft) -> None:
    if "all" in draft.parsed.marks and draft.parsed.value("--prefix") is None:
        draft.some_below(".")


def add(draft: InvocationDraft) -> None:
    """Reads the new files below a folder, and with -f the ignored ones."""
    marks = draft.parsed.marks
    if "dry" in marks:
        return
    for path in draft.parsed.operands or (["."] if "all" in marks else []):
        plain = re.sub(r"^:(\(.*?\)|[/!^]+)?", "", path) or "."
        if "forced" in marks:
            draft.access(plain, "read", recursive=True)
        else:
            draft.added(plain)


def stash(draft: InvocationDraft) -> None:
    """Removes what it stores; with -u also new files, with -a the ignored ones, too."""
    if "ignored" in draft.parsed.marks:
        draft.some_below(".", "remove")
    elif "new" in draft.parsed.marks:
        draft.added(".", "remove")
        draft.accesses[-1] = replace(draft.accesses[-1], possible=True)


def clean(draft: InvocationDraft) -> None:
    if "dry" in draft.parsed.marks:
        draft.effect = "reads"
        draft.accesses.clear()
    elif not draft.parsed.operands:
        draft.some_below(".", "remove")


def patched_files(draft: InvocationDraft) -> None:
    """The files that a patch changes, if the line itself contains the patch."""
    text = draft.stdin.text
    if text is None or draft.parsed.operands or draft.parsed.value("--input") is not None:
        draft.some_below(".")
        return
    for line in text.splitlines():
        head, _, rest = line.partition(" ")
        if head in ("+++", "---", "***") or line.startswith(("rename to ", "copy to ")):
            path = rest.partition("\t")[0].removeprefix("to ").strip()
            if path and path != "/dev/null":
                draft.access(path, "write")
                draft.access(path.partition("/")[2], "write")


def bisect(draft: InvocationDraft) -> None:
    operands = draft.words[1:]
    if operands[:1] == ["run"]:
        draft.doubt("git bisect can run any program")
        draft.run(operands[1:], "whole")


def submodule(draft: InvocationDraft) -> None:
    words = [word for word in draft.words[1:] if word not in ("--quiet", "-q", "--recursive")]
    if words[:1] == ["foreach"]:
        draft.doubt("git submodule can run any program")
        draft.script(_shell_text(words[1:]))
    elif words[:1] == ["add"]:
        operands = [word for word in words[1:] if not word.startswith("-")]
        for path in operands[1:] or [posixpath.basename(operands[0])] if operands else []:
            draft.access(path.removesuffix(".git"), "write", recursive=True)
        draft.access(".gitmodules", "write")


def _shell_text(words: Sequence[str]) -> str:
    text = words[0] if len(words) == 1 else joined(words)
    return text.replace(HOLE, "$_")


def clone(draft: InvocationDraft) -> None:
    operands = draft.parsed.operands
    if len(operands) == 1:
        name = posixpath.basename(operands[0].rstrip("/")).removesuffix(".git")
        draft.access(name.rpartition(":")[2], "write", recursive=True)
    for word in operands[:1]:
        if "ext::" in word:
            draft.doubt("ext:: of git can run any program")


def remote_helper(draft: InvocationDraft) -> None:
    if any("ext::" in word for word in draft.words[1:]):
        draft.doubt("ext:: of git can run any program")


def listed(draft: InvocationDraft) -> None:
    """Reads the files that standard input names."""
    if "listed" in draft.parsed.marks:
        draft.access(HOLE, "read")


def maintenance(draft: InvocationDraft) -> None:
    """Except for single runs, changes the user's settings."""
    if draft.words[1:2] != ["run"]:
        draft.access("~/.gitconfig", "write")


def push(draft: InvocationDraft) -> None:
    """A repository that is named by its path is written."""
    remote_helper(draft)
    operands = draft.parsed.operands or [word for word in draft.words[1:] if word[:1] != "-"]
    repository = draft.parsed.value("--repo") or next(iter(operands), "")
    if repository.startswith((".", "/", "~", "file://")):
        draft.access(repository.removeprefix("file://"), "write")


def filters(draft: InvocationDraft) -> None:
    draft.doubt(f"{draft.program} can run any program")
    draft.mention(draft.words[1:])
    for at, word in enumerate(draft.words):
        if word in ("-x", "--extcmd", "--tree-filter", "--index-filter", "--msg-filter",
                    "--env-filter", "--commit-filter", "--tag-name-filter"):  # fmt: skip
            draft.script(_shell_text(draft.words[at + 1 : at + 2] or [""]))
        elif word.startswith("--extcmd="):
            draft.script(word.partition("=")[2])


def mv(draft: InvocationDraft) -> None:
    operands = draft.parsed.operands
    for path in operands[:-1]:
        draft.access(posixpath.join(operands[-1], posixpath.basename(path.rstrip("/"))), "write",
                     recursive=True)  # fmt: skip
