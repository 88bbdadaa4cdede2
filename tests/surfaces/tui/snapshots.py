"""Screens as text, compared with stored snapshots: their lines and styles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from textual.widgets import Input

from tests.surfaces.tui.desk import Desk
from tillerman.surfaces.tui.app import TillermanApp
from tillerman.surfaces.tui.conversation.block_styles import SPINNER

KEPT = Path(__file__).with_name("snapshots")
ACCEPT = "TILLERMAN_SNAPSHOTS"  # `accept` stores the current screens
PICTURES = "TILLERMAN_PICTURES"  # a folder that gets an SVG of each
SIZES = ((80, 24), (120, 40))
LOOKS = 40  # until the screen must have come to rest
_TURNS = re.compile(f"[{SPINNER}]")
_FOLDER = re.compile(r"(?<=desk-)[a-z0-9_]{1,8}")
_ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse", "strike")


@dataclass(frozen=True)
class Difference:
    name: str
    lines: tuple[str, ...]


class Album:
    """The snapshots of one run; at its end all differences are reported at once."""

    def __init__(self, who: Desk) -> None:
        self._who = who
        self._masked: list[tuple[str, str]] = []
        self._differs: list[Difference] = []

    def mask(self, word: str) -> None:
        """Replaces text that differs between runs, such as a session's id."""
        self._masked.append((word, "0" * len(word)))

    async def take(
        self, name: str, *, sizes: Sequence[tuple[int, int]] = SIZES, theme: str = ""
    ) -> None:
        """The screen at each size, starting with its current one; later snapshots continue with the
        last."""
        app = self._who.app
        before = app.theme
        app.theme = theme or before
        parts = {}
        for size in sorted(sizes, key=lambda size: size != self._size):
            parts[size] = await self._part(name, size)
        app.theme = before
        if self._size not in SIZES:
            await self._resized(SIZES[0])
        self._compare(name, "\n".join(parts[size] for size in sizes))

    def check(self) -> None:
        reported = [f"{one.name}:\n" + "\n".join(one.lines) for one in self._differs]
        tests = os.path.relpath(Path(__file__).with_name("test_snapshots.py"))
        again = f"{ACCEPT}=accept .venv/bin/pytest {tests}"
        assert not reported, "\n\n".join(
            [*reported, f"what was seen is beside; to keep it: {again}"]
        )

    # -- one picture -------------------------------------------------------------------------------

    @property
    def _size(self) -> tuple[int, int]:
        return self._who.app.size.width, self._who.app.size.height

    async def _part(self, name: str, size: tuple[int, int]) -> str:
        for field in self._who.app.screen.query(Input):
            field.cursor_blink = False
        await self._resized(size)
        reported = await self._at_rest()
        if folder := os.environ.get(PICTURES):
            file = Path(folder) / f"{name}.{size[0]}x{size[1]}.svg"
            file.write_text(drawn(self._who.app))
        return f"== {size[0]}x{size[1]} {self._who.app.theme}\n{reported}"

    async def _resized(self, size: tuple[int, int]) -> None:
        if self._size != size:
            await self._who.pilot.resize_terminal(*size)

    async def _at_rest(self) -> str:
        """Waits until several snapshots in a row are equal."""
        seen: list[str] = []
        before: list[Strip] = []
        for _ in range(LOOKS):
            await self._who.pilot.pause(0.012)
            now = strips(self._who.app)
            seen.append(seen[-1] if now == before else self._stable(as_text(now)))
            before = now
            if len(seen) > 2 and len({*seen[-3:]}) == 1:
                break
        return seen[-1]

    def _stable(self, text: str) -> str:
        text = _TURNS.sub(SPINNER[0], text)
        text = _FOLDER.sub(lambda found: "x" * len(found[0]), text)
        for word, instead in self._masked:
            text = text.replace(word, instead)
        return text

    # -- stored snapshots --------------------------------------------------------------------------

    def _compare(self, name: str, text: str) -> None:
        file, fresh = KEPT / f"{name}.txt", KEPT / f"{name}.new.txt"
        stored = file.read_text() if file.exists() else ""
        if stored == text:
            fresh.unlink(missing_ok=True)
        elif os.environ.get(ACCEPT) == "accept":
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            fresh.unlink(missing_ok=True)
        else:
            fresh.write_text(text)
            self._differs.append(Difference(name, tuple(_apart(stored, text))))


def strips(app: TillermanApp) -> list[Strip]:
    """All that is on the screen, including what a dialog covers."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    return [Strip.join(line) for line in update.strips]  # type: ignore[union-attr]


def drawn(app: TillermanApp) -> str:
    """As a picture that keeps its blanks."""
    svg = app.export_screenshot(simplify=True)
    return svg.replace("<text ", '<text xml:space="preserve" ')


def as_text(lines: Iterable[Strip]) -> str:
    """The text; then the styles by a letter each, with the number of cells in each line."""
    names: dict[str, str] = {}
    text, runs = [], []
    for strip in lines:
        text.append(f"│{strip.text}│")
        cells = [(_name(names, style), cell_len(part)) for part, style, _ in strip]
        runs.append(" ".join(
            f"{name}{sum(count for _, count in found)}"
            for name, found in groupby(cells, key=lambda cell: cell[0])
        ))  # fmt: skip
    styles = [f"{name} {style}" for style, name in names.items()]
    return "\n".join([*text, *styles, *_together(runs)]) + "\n"


def _name(names: dict[str, str], style: Style | None) -> str:
    return names.setdefault(_words(style), _letter(len(names)))


def _words(style: Style | None) -> str:
    if style is None:
        return "plain"
    words = [name for name in _ATTRIBUTES if getattr(style, name)]
    if style.color:
        words.append(style.color.name)
    if style.bgcolor:
        words.append(f"on {style.bgcolor.name}")
    return " ".join(words) or "plain"


def _letter(number: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    first, second = divmod(number, len(letters))
    return (letters[first - 1] if first else "") + letters[second]


def _together(runs: Sequence[str]) -> Iterator[str]:
    """Lines with equal styles are listed once."""
    number = 1
    for run, same in groupby(runs):
        count = len(list(same))
        which = f"{number}" if count == 1 else f"{number}-{number + count - 1}"
        yield f"{which}: {run}"
        number += count


def _apart(stored: str, seen: str) -> Iterator[str]:
    if not stored:
        yield "  there is none yet"
        return
    pairs = zip_longest(stored.splitlines(), seen.splitlines(), fillvalue="")
    differ = [(before, now) for before, now in pairs if before != now]
    for before, now in differ[:12]:
        yield f"  - {before}"
        yield f"  + {now}"
    if len(differ) > 12:
        yield f"  and {len(differ) - 12} more lines"
