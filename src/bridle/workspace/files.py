"""The file tools of a workspace, by the names that models call them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bridle.workspace import edits, listing, reading, searching, transfers
from bridle.workspace.confined import Root
from bridle.workspace.edits import Edit
from bridle.workspace.listing import Listing
from bridle.workspace.reading import Binary, FileText
from bridle.workspace.searching import Matches, SearchKind
from bridle.workspace.transfers import Exported, Imported
from bridle.workspace.unpacking import Unpacked


class Files:
    """`exports` is the folder that copies for the user go to. May be used by several threads."""

    def __init__(self, root: Root, exports: Path) -> None:
        self.root = root
        self.exports = exports

    def read_file(
        self, path: str, offset: int = 1, limit: int = reading.LINES, binary: Binary = "refuse"
    ) -> FileText:
        return reading.read_file(self.root, path, offset, limit, binary)

    def write_file(
        self,
        path: str,
        content: str,
        expected_hash: str | None = None,
        create_parents: bool = True,
    ) -> Edit:
        return edits.write_file(self.root, path, content, expected_hash, create_parents)

    def list_directory(
        self, path: str = ".", depth: int = 1, ignored: bool = False, limit: int = 500
    ) -> Listing:
        return listing.list_directory(self.root, path, depth, ignored, limit)

    def replace_lines_in_file(
        self, path: str, start: int, end: int, new_text: str, expected_old_text: str
    ) -> Edit:
        return edits.replace_lines_in_file(self.root, path, start, end, new_text, expected_old_text)

    def import_file(self, source: str, path: str, unpack: bool = False) -> Imported | Unpacked:
        return transfers.import_file(self.root, source, path, unpack)

    def export_file(self, path: str, name: str | None = None) -> Exported:
        return transfers.export_file(self.root, self.exports, path, name)

    def export_zip(self, paths: Sequence[str], name: str) -> Exported:
        return transfers.export_zip(self.root, self.exports, paths, name)

    def search_files(
        self,
        pattern: str,
        path: str = ".",
        kind: SearchKind = "text",
        limit: int = 100,
        context: int = 0,
    ) -> Matches:
        return searching.search_files(self.root, pattern, path, kind, limit, context)
