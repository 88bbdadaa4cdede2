"""Program table: shells, with a script as argument or a file of commands.

The evaluator handles calls of Bourne shells itself, with their options and standard input; this
describes them for a program that runs them.
"""

from __future__ import annotations

from tillerman.core.permission.shell.parsed_script import HOLE
from tillerman.core.permission.shell.programs.roles import suffixes
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row


def _shell(draft: InvocationDraft) -> None:
    words = draft.words
    for at, word in enumerate(words[1:], 1):
        if word[:1] == "-" and word[:2] != "--" and "c" in word:
            for text in words[at + 1 : at + 2]:
                draft.script(text.replace(HOLE, "$_"), "inner")
            return
    operands = [word for word in words[1:] if not word.startswith(("-", "+"))]
    for path in operands[:1]:
        draft.access(path, "read")
    draft.mention(operands[1:])


def _other_shell(draft: InvocationDraft) -> None:
    """A shell with another language."""
    draft.doubt(f"{draft.program} runs commands that cannot be analyzed")
    for at, word in enumerate(draft.words):
        if word in ("-c", "--commands", "-e"):
            for text in draft.words[at + 1 : at + 2]:
                draft.script(text.replace(HOLE, "$_"))
    draft.mention(draft.words[1:])
    draft.others += suffixes(draft.words)


ROWS = (
    Row("sh|bash|dash|zsh|ksh|mksh|ash|rbash|fish|yash|oksh|lksh|posh|static-sh", own=True,
        refine=_shell),
    Row("csh|tcsh|rc|elvish|nu|xonsh|sash|pwsh|powershell", own=True, refine=_other_shell),
)  # fmt: skip
