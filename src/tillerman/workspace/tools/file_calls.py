"""Runs calls of the file tools and returns their results."""

from __future__ import annotations

from collections.abc import Collection

from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.tools import file_results, tool_schemas
from tillerman.workspace.tools.tool_results import ToolResult
from tillerman.workspace.tools.tool_schemas import ToolCallArguments

FEW_NAMES = 40 << 10  # bytes of a directory, some thousand names


def run_at_once(files: Files, call: ToolCallArguments) -> ToolResult | None:
    """Runs a call that takes less time than starting a thread: a small listing.

    Returns None for all other calls, and if it takes longer, as with many .gitignore rules.
    """
    match call:
        case tool_schemas.ListDirectory(
            path=path, depth=1, ignored=ignored, limit=limit, sizes=False
        ):
            if files.size_of_folder(path) <= FEW_NAMES:
                listing = files.list_directory(path, 1, ignored, limit, at_once=True)
                return None if listing.late else file_results.tree(listing)
    return None


def run_file_call(
    files: Files, call: ToolCallArguments, members: Collection[str] | None = None
) -> ToolResult:
    """Runs a call. `members`: those of an archive that may be unpacked."""
    match call:
        case tool_schemas.ReadFile(path=path, offset=offset, limit=limit, binary=binary):
            return file_results.file(files.read_file(path, offset, limit, binary))
        case tool_schemas.WriteFile(path=path, content=content, expected_hash=known):
            return file_results.edit(files.write_file(path, content, known or None))
        case tool_schemas.ReplaceLinesInFile(path=path, start=start, end=end):
            return file_results.edit(
                files.replace_lines_in_file(path, start, end, call.new_text, call.expected_old_text)
            )
        case tool_schemas.ReplaceTextInFile(path=path, old_text=old, new_text=new, count=count):
            return file_results.edit(files.replace_text_in_file(path, old, new, count))
        case tool_schemas.MoveFile(source=source, destination=destination):
            return file_results.moved(files.move_file(source, destination))
        case tool_schemas.DeleteFile(path=path, recursive=recursive):
            return file_results.removed(files.delete_file(path, recursive))
        case tool_schemas.CreateDirectory(path=path):
            return file_results.made_folder(files.create_directory(path))
        case tool_schemas.ListDirectory(path=path, depth=depth, ignored=ignored, limit=limit):
            listing = files.list_directory(path, depth, ignored, limit, call.sizes)
            return file_results.tree(listing)
        case tool_schemas.SearchFiles(pattern=pattern, path=path, kind=kind):
            return file_results.matches(
                files.search_files(pattern, path, kind, call.limit, call.context)
            )
        case tool_schemas.ImportFile(source=source, path=path, unpack=unpack):
            return file_results.imported(files.import_file(source, path, unpack, members))
        case tool_schemas.ExportFile(path=path, export_as=name):
            return file_results.exported(files.export_file(path, name or None))
        case tool_schemas.ExportZip(paths=paths, export_as=name):
            return file_results.exported(files.export_zip(paths, name))
    raise AssertionError(call)
