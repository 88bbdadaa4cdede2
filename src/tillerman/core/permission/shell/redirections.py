"""Evaluates redirections of a command: the files that they open, and its standard input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.core.permission.shell.expansion.word_expansion import Expansion
from tillerman.core.permission.shell.parsed_script import HOLE, FileAccess, is_open
from tillerman.core.permission.shell.parsing.syntax import Redirection
from tillerman.core.permission.shell.programs.invocation import StdinSource
from tillerman.core.permission.shell.shell_state import NO_STDIN, ShellState

if TYPE_CHECKING:
    from tillerman.core.permission.shell.evaluation import Evaluator

_COPIES = frozenset("0123456789-")


def redirect(
    shell: Evaluator,
    redirections: tuple[Redirection, ...],
    state: ShellState,
    text: str | None = None,
) -> ShellState:
    """The state with the redirected standard input; `text` is what the command prints."""
    expansion = Expansion(shell, state)
    stdin = state.stdin
    for one in redirections:
        if one.descriptor.startswith("{"):
            _assign_descriptor(shell, one.descriptor, expansion)
        is_stdin = one.descriptor in ("", "0")
        if one.document is not None:
            body = expansion.text(one.document.body)
            stdin = StdinSource(body, certain=not is_open(body)) if is_stdin else stdin
        elif one.operator == "<<<":
            body = expansion.text(one.target)
            stdin = StdinSource(body + "\n", not is_open(body)) if is_stdin else stdin
        else:
            if one.operator in ("<", "<&", "<>") and is_stdin:
                stdin = NO_STDIN
            _open_file(shell, one, expansion, text)
    return expansion.state.changed(stdin=stdin) if redirections else state


def _assign_descriptor(shell: Evaluator, descriptor: str, expansion: Expansion) -> None:
    """`{name}>` assigns a descriptor number to a variable, or to an element of an array."""
    name, _, subscript = descriptor.strip("{}").partition("[")
    if "$" in subscript or "`" in subscript:
        shell.unread("a descriptor whose variable is computed")
    shell.arithmetic.count(subscript.removesuffix("]"))
    expansion.state = shell.assign(expansion.state, name, HOLE)


def _open_file(shell: Evaluator, one: Redirection, expansion: Expansion, text: str | None) -> None:
    whole = expansion.text(one.target)  # a POSIX shell neither splits nor globs it
    split = expansion.fields(one.target) if shell.bash else []
    for path in dict.fromkeys([*split, whole]):
        if one.operator in (">&", "<&") and path and set(path) <= _COPIES:
            continue
        access = FileAccess(
            path,
            "read" if one.operator in ("<", "<&") else "write",
            directories=expansion.state.directories,
        )
        known = text if one.operator in (">", ">|") and one.descriptor in ("", "1") else None
        if path:
            shell.findings.access(access, known)
