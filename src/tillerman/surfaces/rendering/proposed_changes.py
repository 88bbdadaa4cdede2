"""What a request would change: diffs against the files as they are now, or the plan."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tillerman.core.events import Diff, PermissionRequested, QuestionAsked
from tillerman.sessions.export.patch import hunks
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.proposed_edits import (
    FileEdit,
    Hunk,
    Insertion,
    Replacement,
    Whole,
)

READ_CAP = 2 * 1024 * 1024  # bytes; a larger file is not compared
CONTEXT = 3


class Unreadable(Exception):
    """Why a file cannot be compared; the message is shown to the user."""


@dataclass(frozen=True)
class ProposedChange:
    """The change of one file. `hunks` is None if no diff against the file is possible."""

    edit: FileEdit
    note: str = ""
    hunks: tuple[str, ...] | None = None

    @classmethod
    def against_file(cls, edit: FileEdit, folder: Path | None) -> ProposedChange:
        """Reads the file once, so that the user approves what was shown."""
        if folder is None:
            return cls(edit)
        try:
            return _compared(edit, current_text(folder / edit.path))
        except Unreadable as error:
            return cls(edit, str(error))
        except ValueError as error:
            return cls(edit, f"does not match the current file: {error}")

    def texts(self) -> Iterator[tuple[str, str]]:
        """Old and new text of each step, for a diff without line numbers."""
        for step in self.edit.steps:
            match step:
                case Replacement(old=old, new=new):
                    yield old, new
                case Whole(text=new) | Insertion(text=new):
                    yield "", new
                case Hunk():
                    yield "\n".join(step.old), "\n".join(step.new)


def plan_of(request: PermissionRequested | QuestionAsked) -> str:
    """The plan to approve; empty for other requests."""
    if isinstance(request, QuestionAsked) or request.tool != "ExitPlanMode":
        return ""
    plan = request.input.get("plan")
    return plan.strip() if isinstance(plan, str) else ""


def _compared(edit: FileEdit, before: str | None) -> ProposedChange:
    try:
        after = edit.applied(before)
    except ValueError:
        if before is None or "\r\n" not in before:
            raise
        before = before.replace("\r\n", "\n")
        after = edit.applied(before)
    note = ""
    if before is not None and any(isinstance(step, Whole) for step in edit.steps):
        count = len(before.splitlines())
        note = f"replaces a file of {count} line{'s' if count != 1 else ''}"
    if after is None:
        note = "deletes the file" if before is not None else "the file does not exist"
    found = tuple(hunks(Diff(edit.path, old=before or "", new=after or ""), CONTEXT))
    if before is not None and after is not None and before != after and not found:
        note = "changes only the newline at the end"
    return ProposedChange(edit, note, found)


def current_text(path: Path) -> str | None:
    """Text of the existing file; None if there is no file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading a pipe could block forever
            raise Unreadable("the path exists and is not a regular file")
        if found.st_size > READ_CAP:
            raise Unreadable(f"a file of {formatting.size(found.st_size)}, too large to compare")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise Unreadable("the existing file cannot be shown") from None
