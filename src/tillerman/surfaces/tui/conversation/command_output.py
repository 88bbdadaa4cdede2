"""Output of slash commands: lines, tables, and pending results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from rich.table import Table
from rich.text import Text

from tillerman.core.errors import TillermanError
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.conversation.blocks import CommandBlock

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tillerman.surfaces.tui.session_pane import SessionPane

E = TypeVar("E", bound=Exception)


def lines(*message: str, style: str = "") -> Text:
    """Sanitized, one line each."""
    return Text("\n".join(map(formatting.one_line, message)), style=style)


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, folded: Sequence[str] = ()
) -> Table:
    """Formats a table; the last column and those in `folded` wrap."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", collapse_padding=True)
    for name in head:
        if name in (head[-1], *folded):
            made.add_column(name, overflow="fold", min_width=min(len(name), 10))
        else:
            made.add_column(name, overflow="ellipsis", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(formatting.one_line(cell)) for cell in row))
    return made


class PendingOutput:
    """Command block that shows a waiting text until there is a result or an error."""

    def __init__(self, pane: SessionPane, title: str, waiting: str) -> None:
        self._pane = pane
        self._title = title
        self._piece = pane.report(CommandBlock(title, lines(f"{waiting}…", style="dim")))

    def report(self, body: RenderableType) -> None:
        self._pane.report(CommandBlock(self._title, body), instead=self._piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        if isinstance(error, Exception):
            self._pane.complain(worded(error), instead=self._piece)
            return True
        return False


_OURS = re.compile(r"\btillerman (?=(?:login|logout|models|status)\b)")


def worded(error: E) -> E:
    """Replaces `tillerman COMMAND` in hints with the slash command."""
    if isinstance(error, TillermanError):
        error.hint = _OURS.sub("/", error.hint)
    return error


def error_block(error: Exception) -> CommandBlock:
    if isinstance(error, TillermanError):
        message, hint = error.message, error.hint
    else:
        message, hint = _unexpected(error)
    body = Text().append(formatting.one_line(message), style="red")
    if hint:
        body.append(f"\n{formatting.one_line(hint)}")
    return CommandBlock("Error", body)


def _unexpected(error: Exception) -> tuple[str, str]:
    """Message of an error of the machine; message and code location of an internal error."""
    from pathlib import Path
    from traceback import extract_tb

    from tillerman.surfaces.machine_errors import machine_error

    if reported := machine_error(error):
        return reported
    place = extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}"
    return f"{type(error).__name__}: {error}", f"this is a bug in tillerman, at {where}"
