"""The file tools of a workspace, by their tool names."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files import editing, import_export, listing, moving, reading, searching
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.editing import AppliedEdit
from tillerman.workspace.files.import_export import Closed, Exported, Imported
from tillerman.workspace.files.listing import DirectoryListing
from tillerman.workspace.files.moving import MadeFolder, Moved, Removed
from tillerman.workspace.files.reading import Binary, FileText, ImageFile
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.files.searching import FileMatches, SearchKind
from tillerman.workspace.files.unpacking import Unpacked


class Files:
    """File tools; may be used from several threads.

    `exports` is the folder for copies for the user; `secrets` are not shown to models; `closed`
    returns why a file outside may not be imported.
    """

    def __init__(
        self,
        root: ConfinedRoot,
        exports: Path,
        secrets: Secrets | None = None,
        closed: Closed = import_export.open_to_all,
    ) -> None:
        self.root = root
        self.exports = exports
        self.secrets = secrets or Secrets()
        self._closed = closed

    def read_file(
        self, path: str, offset: int = 1, limit: int = reading.LINES, binary: Binary = "refuse"
    ) -> FileText | ImageFile:
        return reading.read_file(self.root, self.secrets, path, offset, limit, binary)

    def write_file(
        self,
        path: str,
        content: str,
        expected_hash: str | None = None,
        create_parents: bool = True,
    ) -> AppliedEdit:
        return editing.write_file(
            self.root, self.secrets, path, content, expected_hash, create_parents
        )

    def list_directory(
        self,
        path: str = ".",
        depth: int = 1,
        ignored: bool = False,
        limit: int = 500,
        sizes: bool = False,
        at_once: bool = False,
    ) -> DirectoryListing:
        return listing.list_directory(self.root, path, depth, ignored, limit, sizes, at_once)

    def size_of_folder(self, path: str) -> int:
        """Returns the size of the directory itself, as its file system reports it; 0 if absent."""
        try:
            folder = self.root.open_folder(path)
        except Refused:
            return 0
        try:
            return os.fstat(folder).st_size
        finally:
            os.close(folder)

    def replace_lines_in_file(
        self, path: str, start: int, end: int, new_text: str, expected_old_text: str
    ) -> AppliedEdit:
        return editing.replace_lines_in_file(
            self.root, self.secrets, path, start, end, new_text, expected_old_text
        )

    def replace_text_in_file(
        self, path: str, old_text: str, new_text: str, count: int = 1
    ) -> AppliedEdit:
        return editing.replace_text_in_file(
            self.root, self.secrets, path, old_text, new_text, count
        )

    def move_file(self, source: str, destination: str) -> Moved:
        return moving.move(self.root, source, destination)

    def delete_file(self, path: str, recursive: bool = False) -> Removed:
        return moving.remove(self.root, self.secrets, path, recursive)

    def create_directory(self, path: str) -> MadeFolder:
        return moving.make_folder(self.root, path)

    def import_file(
        self,
        source: str,
        path: str,
        unpack: bool = False,
        members: Collection[str] | None = None,
    ) -> Imported | Unpacked:
        """Imports a file. `members`: those of an archive that may be unpacked, None for all."""
        return import_export.import_file(self.root, source, path, unpack, members, self._closed)

    def archive_members(self, source: str) -> list[str]:
        return import_export.archive_members(source, self._closed)

    def export_file(self, path: str, name: str | None = None) -> Exported:
        return import_export.export_file(self.root, self.exports, path, name)

    def export_zip(self, paths: Sequence[str], name: str) -> Exported:
        return import_export.export_zip(self.root, self.exports, paths, name)

    def search_files(
        self,
        pattern: str,
        path: str = ".",
        kind: SearchKind = "text",
        limit: int = 100,
        context: int = 0,
    ) -> FileMatches:
        return searching.search_files(
            self.root, pattern, path, kind, limit, context, secrets=self.secrets
        )
