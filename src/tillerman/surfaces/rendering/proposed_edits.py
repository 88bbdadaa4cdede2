"""Extracts the file edits of a tool call from any agent's field names, and applies them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tillerman.core.tools import paths_of

_OLD = ("old_string", "oldString", "old_str", "old_text", "oldText", "old")
_NEW = ("new_string", "newString", "new_str", "new_text", "newText", "new")
_WHOLE = ("content", "contents", "file_text", "text")
_ALL = ("replace_all", "replaceAll", "allow_multiple")
_PATCHES = ("patch", "patchText", "diff", "input", "command")
_PATHS = ("file_path", "filePath", "path", "notebook_path", "target_file")
_FILE = re.compile(r"\*\*\*\s*(Add|Update|Delete) File:\s*(\S.*)")
_MOVE = re.compile(r"\*\*\*\s*Move to:\s*(\S.*)")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


class Replacement(Struct, frozen=True):
    old: str
    new: str
    everywhere: bool = False


class Hunk(Struct, frozen=True):
    """Lines that replace others; `line` is their position according to the agent, from 1."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    line: int = 0


class Insertion(Struct, frozen=True):
    line: int  # inserted after this line
    text: str


class Whole(Struct, frozen=True):
    text: str


class Deletion(Struct, frozen=True):
    pass


Step = Replacement | Hunk | Insertion | Whole | Deletion


class FileEdit(Struct, frozen=True):
    """The edits of one file; `moved` is its new path after a rename."""

    path: str
    steps: tuple[Step, ...]
    moved: str | None = None

    def applied(self, text: str | None) -> str | None:
        """The file's new content; `None` means no file. `ValueError`: the edit does not match."""
        for step in self.steps:
            text = _applied(step, text)
        return text


def edits_of(tool: str, input: Mapping[str, Any], paths: Sequence[str] = ()) -> list[FileEdit]:
    """The edits of a call; empty if the call does not show what it changes."""
    named = next((input[key] for key in _PATHS if isinstance(input.get(key), str)), "")
    path = named or next(iter((*paths, *paths_of(input))), "")
    patch = _text(input, _PATCHES)
    if patch is not None and "*** Begin Patch" in patch:
        return list(_of_patch(patch))
    if patch is not None and (first := _HUNK.search(patch)):
        lines = patch[first.start() :].split("\n")
        return [FileEdit(path, tuple(_hunks(lines)))] if path else []
    if isinstance(listed := input.get("edits"), list):
        return _of_list(listed, path)
    step = _step(tool, input)
    return [FileEdit(path, (step,))] if step and path else []


def _step(tool: str, input: Mapping[str, Any]) -> Step | None:
    old, new = _text(input, _OLD), _text(input, (*_NEW, "insert_text"))
    if old is not None and new is not None:
        many = input.get("expected_replacements")
        everywhere = any(input.get(key) is True for key in _ALL)
        return Replacement(old, new, everywhere or (isinstance(many, int) and many > 1))
    line = input.get("insert_line")
    if isinstance(line, int) and new is not None:
        return Insertion(line, new)
    if tool == "Write" and (whole := _text(input, _WHOLE)) is not None:
        return Whole(whole)
    return Deletion() if tool == "Delete" else None


def _of_list(listed: list[Any], path: str) -> list[FileEdit]:
    """Several edits in one call, of one file or with one file each."""
    steps: dict[str, list[Step]] = {}
    for one in listed:
        if not isinstance(one, dict) or (step := _step("Edit", one)) is None:
            return []
        steps.setdefault(str(_text(one, _PATHS) or path), []).append(step)
    return [FileEdit(name, tuple(found)) for name, found in steps.items() if name]


def _text(input: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((input[key] for key in keys if isinstance(input.get(key), str)), None)


# -- patches ---------------------------------------------------------------------------------------


def _of_patch(patch: str) -> Iterator[FileEdit]:
    """Parses the format that begins with `*** Begin Patch` and names a file before its changes."""
    kind, path, moved, lines = "", "", None, list[str]()
    for line in [*patch.split("\n"), "*** End Patch"]:
        # a blank before it is accepted, but for one in an update: it is a line of the file
        found = _FILE.fullmatch(line.rstrip() if kind == "Update" else line.strip())
        if (found or line.startswith("*** End Patch")) and kind:
            yield FileEdit(path, _of_section(kind, lines), moved)
            kind = ""
        if found:
            kind, path, moved, lines = found[1], found[2], None, []
        elif move := _MOVE.fullmatch(line.strip() if not lines else line.rstrip()):
            moved = move[1]
        elif not line.startswith("*** "):
            lines.append(line)


def _of_section(kind: str, lines: Sequence[str]) -> tuple[Step, ...]:
    match kind:
        case "Add":
            return (Whole("".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))),)
        case "Delete":
            return (Deletion(),)
        case _:
            return tuple(_hunks(lines))


def _hunks(lines: Sequence[str]) -> Iterator[Hunk]:
    old, new, at, changed = list[str](), list[str](), 0, False
    for line in [*lines, "@@"]:
        if line.startswith("@@"):
            if changed:
                yield Hunk(tuple(old), tuple(new), at)
            found = _HUNK.match(line)
            old, new, at, changed = [], [], int(found[1]) if found else 0, False
        elif line[:1] in ("-", "+"):
            (old if line[0] == "-" else new).append(line[1:])
            changed = True
        elif line.startswith(" ") or (not line and (old or new)):
            old.append(line[1:])
            new.append(line[1:])


# -- files -----------------------------------------------------------------------------------------


def _applied(step: Step, text: str | None) -> str | None:
    match step:
        case Whole(text=whole):
            return whole
        case Deletion():
            return None
        case Replacement(old=old, new=new, everywhere=everywhere):
            if not old and not text:
                return new
            if not old or text is None or old not in text:
                raise ValueError("the text was not found")
            return text.replace(old, new) if everywhere else text.replace(old, new, 1)
        case Insertion(line=line, text=inserted):
            lines = _lines(text or "")
            if not 0 <= line <= len(lines):
                raise ValueError("the line does not exist")
            return "".join([*lines[:line], inserted.rstrip("\n") + "\n", *lines[line:]])
        case Hunk():
            return _with_hunk(step, text or "")


def _with_hunk(hunk: Hunk, text: str) -> str:
    """Applies the hunk at the match nearest to its line; trailing blank lines are optional."""
    lines = text.split("\n")
    if not hunk.old:  # inserted after the line it names, or at the end
        at = min(hunk.line, len(lines) - 1) if hunk.line else len(lines) - 1
        return "\n".join([*lines[:at], *hunk.new, *lines[at:]])
    for spare in range(_blanks(hunk) + 1):
        old, new = (list(one[: len(one) - spare]) for one in (hunk.old, hunk.new))
        places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
        if places:
            at = min(places, key=lambda place: abs(place + 1 - hunk.line) if hunk.line else place)
            return "\n".join([*lines[:at], *new, *lines[at + len(old) :]])
    raise ValueError("the lines were not found")


def _blanks(hunk: Hunk) -> int:
    count = 0
    for old, new in zip(reversed(hunk.old), reversed(hunk.new), strict=False):
        if old or new:
            break
        count += 1
    return count


def _lines(text: str) -> list[str]:
    """The lines with their line ends; only a newline ends a line, as in editors and git."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
