"""Fits the breadcrumb into the available width by shortening and dropping parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, set_cell_size

from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.bars.branch_refresh import ASKING, RepositorySnapshot
from tillerman.workspace.branch.pull_request import PullRequestUnavailable
from tillerman.workspace.branch.status import Breadcrumb
from tillerman.workspace.files.file_names import shown

Kind = Literal["name", "branch", "status", "number", "action", "note", "between"]
READABLE = 12  # minimum cells of a recognizable branch name
LEAST = 6
_USUAL = ("no_remote", "not_github", "no_branch")  # normal states without a message
_BRIEF = {"no_gh": "gh is not installed", "signed_out": "gh auth login"}
_NEXT = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


@dataclass(frozen=True)
class Part:
    kind: Kind
    text: str

    @property
    def cells(self) -> int:
        return cell_len(self.text)


def in_line(seen: RepositorySnapshot, room: int, doing: str = "") -> list[Part]:
    """Parts of a single line that fits the width; `doing` replaces the next action."""
    if seen.crumb is None:
        return [Part("note", shortened(seen.problem, room))] if seen.problem else []
    line: list[Part] = []
    reported = [] if doing else notes(seen)
    for line in _lines(_parts(seen.crumb, doing), reported, room):
        if sum(part.cells for part in line) <= room:
            return line
    return [Part(part.kind, shortened(part.text, room)) for part in line]


def stacked(seen: RepositorySnapshot, room: int, doing: str = "") -> list[Part]:
    """One part per line, for a column."""
    if seen.crumb is None:
        return in_line(seen, room)
    parts = [part for part in _parts(seen.crumb, doing) if part.kind != "between"]
    parts = [Part(part.kind, part.text.strip(" ()")) for part in parts]
    reported = [note for note in notes(seen) if cell_len(note) <= room] or notes(seen)[-1:]
    parts += [Part("note", note) for note in reported[:1]]
    return [Part(part.kind, shortened(part.text, room)) for part in parts]


def notes(seen: RepositorySnapshot) -> list[str]:
    """Why GitHub data is missing and what to do, from the longest text to the shortest."""
    pull_error = seen.doubt or (seen.crumb.unavailable if seen.crumb else None)
    if pull_error is None or pull_error.why in _USUAL:
        return []
    if pull_error is ASKING:
        return ["querying GitHub…"]
    return [formatting.one_line(note) for note in _error_notes(pull_error) if note]


def _error_notes(pull_error: PullRequestUnavailable) -> Iterator[str]:
    yield f"{pull_error.text}: {pull_error.hint}" if pull_error.hint else pull_error.text
    if pull_error.why in _BRIEF:
        yield f"{_BRIEF['no_gh']}: https://cli.github.com" if pull_error.why == "no_gh" else ""
        yield _BRIEF[pull_error.why]
    else:
        yield pull_error.text


def _lines(whole: list[Part], notes: list[str], room: int) -> Iterator[list[Part]]:
    """Candidate lines, from the complete one to the status alone."""
    for note in notes:
        yield [*whole, Part("note", f"  {note}")]
    yield whole
    yield _with_branch(whole, room, READABLE)
    nameless = whole[2:]
    yield nameless
    yield _with_branch(nameless, room, READABLE)
    brief = [
        Part("number", f" {part.text.strip(' ()').removeprefix('PR ')}")
        if part.kind == "number"
        else part
        for part in nameless
    ]
    yield _with_branch(brief, room, LEAST)
    yield brief[2:]
    yield [part for part in brief[2:] if part.kind != "number"]
    yield [part for part in brief[2:] if part.kind == "status"]


def _parts(crumb: Breadcrumb, doing: str) -> list[Part]:
    status = crumb.status
    between = Part("between", f" {_NEXT} ")
    parts = [
        Part("name", formatting.one_line(shown(crumb.repository.name)) or "?"),
        between,
        Part("branch", formatting.one_line(crumb.branch) or "?"),
        between,
        Part("status", status.label),
    ]
    if crumb.pull_request:
        parts.append(Part("number", f" (PR #{crumb.pull_request.number})"))
    step = Part("note", doing) if doing else Part("action", f"[{status.action}]")
    return [*parts, Part("between", " "), step]


def _with_branch(parts: list[Part], room: int, least: int) -> list[Part]:
    others = sum(part.cells for part in parts if part.kind != "branch")
    left = max(least, room - others)
    return [
        Part("branch", shortened(part.text, left)) if part.kind == "branch" else part
        for part in parts
    ]


def shortened(text: str, room: int) -> str:
    """Truncates in the middle, since branch names with a common prefix differ at the end."""
    if cell_len(text) <= room:
        return text
    if room < 3:
        return set_cell_size(text, max(0, room))
    tail = ""
    for character in reversed(text):
        if cell_len(tail + character) > (room - 1) // 3:
            break
        tail = character + tail
    return f"{set_cell_size(text, room - 1 - cell_len(tail)).rstrip()}…{tail}"
