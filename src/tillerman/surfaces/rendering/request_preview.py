"""Previews what a permission request would change: diffs of files, or the plan as Markdown."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from tillerman.core.events import Diff, PermissionRequested, QuestionAsked
from tillerman.sessions.export.patch import hunks
from tillerman.surfaces.rendering import formatting, transcript_blocks
from tillerman.surfaces.rendering.diff import difference
from tillerman.surfaces.rendering.markdown import Markdown
from tillerman.surfaces.rendering.proposed_edits import (
    FileEdit,
    Hunk,
    Insertion,
    Replacement,
    Whole,
    edits_of,
)

READ_CAP = 2 * 1024 * 1024  # bytes; a larger file is not compared
LINES = 2_000  # maximum lines per file diff
CONTEXT = 3


class _Unreadable(Exception):
    """Why a file cannot be compared; the message is shown to the user."""


class Preview:
    """Preview of a request. Files are read once, so that the user approves what was shown."""

    def __init__(self, request: PermissionRequested, folder: Path | None) -> None:
        self._request = request
        edits = edits_of(request.tool, request.input, request.paths)
        self._files = [_File(edit, folder, alone=len(edits) == 1) for edit in edits]
        self.plan = plan_of(request)

    def draw(self, dark: bool | None) -> Iterator[RenderableType]:
        if self.plan:
            yield Markdown(formatting.revealed(self.plan))
        for file in self._files:
            yield from file.draw(dark)
        command = self._request.input.get("command")
        if not self._files and isinstance(command, str) and ("\n" in command or len(command) > 72):
            yield Text(formatting.revealed(command), style="dim")


def plan_of(request: PermissionRequested | QuestionAsked) -> str:
    """The plan to approve; empty for other requests."""
    if isinstance(request, QuestionAsked) or request.tool != "ExitPlanMode":
        return ""
    plan = request.input.get("plan")
    return plan.strip() if isinstance(plan, str) else ""


class _File:
    def __init__(self, edit: FileEdit, folder: Path | None, *, alone: bool) -> None:
        self._edit = edit
        self._alone = alone
        self._note = ""
        self._hunks: list[str] | None = None  # None: no diff against the file is possible
        if folder is not None:
            try:
                self._compare(_standing(folder / edit.path))
            except _Unreadable as error:
                self._note = str(error)
            except ValueError as error:
                self._note = f"does not match the current file: {error}"

    def _compare(self, before: str | None) -> None:
        try:
            after = self._edit.applied(before)
        except ValueError:
            if before is None or "\r\n" not in before:
                raise
            before = before.replace("\r\n", "\n")
            after = self._edit.applied(before)
        if before is not None and any(isinstance(step, Whole) for step in self._edit.steps):
            count = len(before.splitlines())
            self._note = f"replaces a file of {count} line{'s' if count != 1 else ''}"
        if after is None:
            self._note = "deletes the file" if before is not None else "the file does not exist"
        self._hunks = hunks(Diff(self._edit.path, old=before or "", new=after or ""), CONTEXT)
        if before is not None and after is not None and before != after and not self._hunks:
            self._note = "changes only the newline at the end"

    def draw(self, dark: bool | None) -> Iterator[RenderableType]:
        path = formatting.one_line(formatting.revealed(self._edit.path))
        if not self._alone:
            yield Text(path, style="bold")
        if self._edit.moved:
            yield Text(f"moves to {formatting.one_line(formatting.revealed(self._edit.moved))}")
        if self._note:
            yield Text(self._note, style="yellow")
        if self._hunks is not None:
            lines = "\n".join(map(formatting.revealed, self._hunks))
            yield _Lines(Diff(self._edit.path, lines), dark)
        else:
            yield from self._unplaced()

    def _unplaced(self) -> Iterator[RenderableType]:
        """Diffs without line numbers, which are unknown here."""
        for step in self._edit.steps:
            match step:
                case Replacement(old=old, new=new):
                    pass
                case Whole(text=new) | Insertion(text=new):
                    old = ""
                case Hunk():
                    old, new = "\n".join(step.old), "\n".join(step.new)
                case _:
                    continue
            change = Diff("", old=formatting.revealed(old), new=formatting.revealed(new))
            yield transcript_blocks.diff(change, LINES, heads=False)


class _Lines:
    """Renders a diff for the available width."""

    def __init__(self, change: Diff, dark: bool | None) -> None:
        self._change = change
        self._dark = dark

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._change.patch:
            yield difference(self._change, options.max_width, LINES, dark=self._dark, whole=True)


def _standing(path: Path) -> str | None:
    """Text of the existing file; None if there is no file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading a pipe could block forever
            raise _Unreadable("the path exists and is not a regular file")
        if found.st_size > READ_CAP:
            raise _Unreadable(f"a file of {formatting.size(found.st_size)}, too large to compare")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise _Unreadable("the existing file cannot be shown") from None
