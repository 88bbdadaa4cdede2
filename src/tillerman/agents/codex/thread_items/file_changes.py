"""Decodes the file changes of a patch: one call per file, with its diff."""

from __future__ import annotations

from typing import NamedTuple

from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.core.events import Diff


class CodexFileChange(NamedTuple):
    tool: str
    path: str
    moved_to: str
    diff: Diff | None  # None if Codex sends none

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, self.moved_to) if self.moved_to else (self.path,)

    @property
    def input(self) -> Table:
        input: Table = {"file_path": self.path}
        if self.moved_to:
            input["new_path"] = self.moved_to
        if self.diff and self.diff.patch:
            input["patch"] = self.diff.patch
        if self.tool == "Write" and self.diff and self.diff.new is not None:
            input["content"] = self.diff.new
        return input


def changes(item: Table) -> list[CodexFileChange]:
    return [_change(change) for change in tables(item, "changes")]


def _change(change: Table) -> CodexFileChange:
    path, diff = text(change, "path"), change.get("diff")
    kind = table(change, "kind")
    word = text(kind, "type") or text(change, "kind")  # `exec` sends a plain string
    reported = diff if isinstance(diff, str) else None
    match word:
        case "add":
            return CodexFileChange("Write", path, "", _whole(path, new=reported))
        case "delete":
            return CodexFileChange("Delete", path, "", _whole(path, old=reported))
    moved_to = text(kind, "move_path")
    patch = (
        reported.removesuffix(f"\n\nMoved to: {moved_to}") if reported and moved_to else reported
    )
    tool = "Rename" if moved_to else "Edit"
    return CodexFileChange(
        tool, path, moved_to, Diff(moved_to or path, patch=patch) if patch else None
    )


def _whole(path: str, *, old: str | None = None, new: str | None = None) -> Diff | None:
    """The diff of an added or deleted file, which is its whole text."""
    return None if old is None and new is None else Diff(path, old=old, new=new)
