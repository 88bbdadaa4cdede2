"""Formats results of the file tools: text for models, data for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from tillerman.core.events import Diff
from tillerman.workspace.files.editing import AppliedEdit
from tillerman.workspace.files.import_export import Exported, Imported
from tillerman.workspace.files.listing import DirectoryEntry, DirectoryListing
from tillerman.workspace.files.moving import MadeFolder, Moved, Removed
from tillerman.workspace.files.reading import FileText, ImageFile
from tillerman.workspace.files.searching import FileMatches
from tillerman.workspace.files.unpacking import Unpacked
from tillerman.workspace.tools.tool_results import ShownImage, ToolResult, with_notes


def file(read: FileText | ImageFile) -> ToolResult:
    data = msgspec.to_builtins(read)
    if isinstance(read, ImageFile):
        del data["data"]
        text = f"{read.path}: {read.mime}, {read.width} x {read.height} pixels, {read.size} bytes"
        return ToolResult(text, data, image=ShownImage(read.mime, read.data))
    if read.encoding == "base64":
        head = f"{read.path}: {read.size} bytes, base64"
    else:
        of = f" of {read.lines}" if read.lines is not None else ""
        head = f"{read.path}: lines {read.first} to {read.last}{of}, {read.encoding}"
    if read.hash:
        head += f", hash {read.hash}"
    if read.next:
        head += f"; read on with offset={read.next}"
    return with_notes(ToolResult(f"{head}\n{read.text}", data), read.notes)


def edit(edited: AppliedEdit) -> ToolResult:
    what = "created" if edited.created else "changed" if edited.changed else "unchanged"
    counted = "" if edited.added is None else f" +{edited.added} -{edited.removed},"
    text = f"{edited.path} {what}:{counted} {edited.size} bytes, hash {edited.hash}"
    if edited.diff:
        text += f"\n{edited.diff}"
    diff = Diff(path=edited.path, patch=edited.diff) if edited.diff else None
    return with_notes(ToolResult(text, msgspec.to_builtins(edited), diff), edited.notes)


def tree(listing: DirectoryListing) -> ToolResult:
    """Formats a listing. Programs get paths by kind, a third of the size of one value per entry."""
    entries = listing.entries
    files = [one.path for one in entries if one.kind == "file"]
    rest = [one for one in entries if one.kind != "file"] if len(files) < len(entries) else []
    data: dict[str, Any] = {
        "path": listing.path,
        "files": files,
        "folders": [one.path for one in rest if one.kind == "folder"],
        "links": {one.path: one.target for one in rest if one.kind == "link"},
        "others": [one.path for one in rest if one.kind == "other"],
        "notes": list(listing.notes),
    }
    if sized := [one for one in entries if one.size is not None] if listing.sizes else []:
        data["sizes"] = {one.path: one.size for one in sized}
        data["executables"] = [one.path for one in sized if one.executable]
    lines = files if not rest and not sized else [_line(one) for one in entries]
    lines = [f"{listing.path}:", *(lines or ["(nothing)"])]
    return with_notes(ToolResult("\n".join(lines), data), listing.notes)


def _line(one: DirectoryEntry) -> str:
    match one.kind:
        case "file":
            return one.path if one.size is None else f"{one.path}  {one.size}"
        case "folder":
            return f"{one.path}/"
        case "link":
            return f"{one.path} -> {one.target}"
        case _:
            return f"{one.path}  (not a regular file)"


def matches(found: FileMatches) -> ToolResult:
    lines = [f"{len(found.matches)} matches, {found.files} files searched"]
    for one in found.matches:
        if not one.line:
            lines.append(one.path)
            continue
        first = one.line - len(one.before)
        around = (*one.before, one.text, *one.after)
        for number, text in enumerate(around, first):
            lines.append(f"{one.path}:{number}{':' if number == one.line else '-'} {text}")
        if len(around) > 1:
            lines.append("--")
    return with_notes(ToolResult("\n".join(lines), msgspec.to_builtins(found)), found.notes)


def imported(brought: Imported | Unpacked) -> ToolResult:
    data = msgspec.to_builtins(brought)
    if isinstance(brought, Imported):
        return ToolResult(f"{brought.path}: {brought.size} bytes, hash {brought.hash}", data)
    notes = [f"{one.name} was left out: {one.why}" for one in brought.skipped]
    if brought.more_skipped:
        notes.append(f"{brought.more_skipped} more were left out")
    if brought.stopped:
        notes.append(brought.stopped)
    text = f"{brought.files} files, {brought.size} bytes, in {brought.path}"
    return with_notes(ToolResult(text, data, failed=bool(brought.stopped)), notes)


def exported(copy: Exported) -> ToolResult:
    text = f"{copy.path}: {copy.size} bytes"
    if copy.files != 1:
        text += f", {copy.files} files"
    return with_notes(ToolResult(text, msgspec.to_builtins(copy)), copy.notes)


def moved(done: Moved) -> ToolResult:
    return ToolResult(f"{done.path} moved to {done.destination}", msgspec.to_builtins(done))


def removed(done: Removed) -> ToolResult:
    data = msgspec.to_builtins(done)
    diff = Diff(path=done.path, patch=done.diff) if done.diff else None
    if done.stopped:
        text = f"{done.path} was only partly deleted ({done.entries} entries): {done.stopped}"
        return ToolResult(text, data, failed=True)
    inside = f", {done.entries} entries" if done.entries > 1 else ""
    return ToolResult(f"{done.path} deleted ({done.kind}{inside})", data, diff)


def made_folder(done: MadeFolder) -> ToolResult:
    what = "created" if done.created else "already existed"
    return ToolResult(f"{done.path}/ {what}", msgspec.to_builtins(done))
