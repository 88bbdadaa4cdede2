"""Attachments of the next prompt: pasted, dropped or from the clipboard, shown as chips."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rich.style import Style
from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from tillerman.core.errors import UsageError
from tillerman.surfaces.prompt_files import ATTACHMENT_CAP
from tillerman.surfaces.rendering import formatting

if TYPE_CHECKING:
    from tillerman.core.agent import File

LONGEST_PATHS = 8_000  # characters; a longer paste is not checked for paths
MAX_WAIT = 3.0  # seconds; timeout of clipboard programs


class Attachments(Widget):
    DEFAULT_CSS = """
    Attachments {
        height: auto; max-height: 3; display: none; padding: 0 1;
        link-style: none; link-style-hover: bold;
    }
    Attachments.-some { display: block; }
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__()
        self._files: list[File] = []
        self._changed = changed

    @property
    def files(self) -> Sequence[File]:
        return tuple(self._files)

    def add(self, files: Sequence[File]) -> None:
        if files:
            self._files += files
            self._show()

    def drop(self, number: int = -1) -> bool:
        """Removes one, by default the last; False if there is none."""
        if not self._files:
            return False
        del self._files[number]
        self._show()
        return True

    def take(self) -> Sequence[File]:
        """Returns all files and clears the list."""
        taken, self._files = tuple(self._files), []
        if taken:
            self._show()
        return taken

    def action_drop(self, number: int) -> None:
        if number < len(self._files):
            self.drop(number)

    def _show(self) -> None:
        self.set_class(bool(self._files), "-some")
        self.refresh(layout=True)
        self._changed()

    def render(self) -> RenderResult:
        line = Text()
        for number, file in enumerate(self._files):
            chip = f" 📎 {formatting.one_line(file.name, 40)} {formatting.size(len(file.data))} ✕ "
            meta = Style(meta={"@click": f"drop({number})"})
            line.append(chip.replace(" ", "\u00a0"), Style(reverse=True) + meta).append(" ")
        return line.append("backspace removes the last one", style="dim")


# -- dropped files, which terminals paste as paths
# --------------------------------------------------


def dropped(text: str) -> list[Path]:
    """The files that the text consists of; empty for any other text."""
    text = text.strip()
    if not text or len(text) > LONGEST_PATHS or "\0" in text:
        return []
    for words in _readings(text):
        paths = [_path(word) for word in words]
        found = [path for path in paths if path is not None and _is_file(path)]
        if found and len(found) == len(paths):
            return found
    return []


def _readings(text: str) -> list[list[str]]:
    """Splits the text by lines, and by shell quoting rules."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    readings = [lines]
    with suppress(ValueError):
        readings.append(shlex.split(text))
    return readings


def _path(word: str) -> Path | None:
    """Accepts only absolute paths; a relative one may be ordinary text."""
    if word.startswith("file://"):
        parts = urlsplit(word)
        word = unquote(parts.path) if parts.netloc in ("", "localhost", os.uname().nodename) else ""
    if word.startswith("~/"):
        word = os.path.expanduser(word)  # noqa: PTH111 -- unchanged if there is no home
    return Path(word) if word.startswith("/") else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


# -- clipboard -------------------------------------------------------------------------------------

# Program, arguments to list types, arguments to read an image, required display variable. The first
# available program is used.
_CLIPBOARDS: Sequence[tuple[str, Sequence[str], Sequence[str], str]] = (
    ("wl-paste", ("--list-types",), ("--no-newline", "--type", "image/png"), "WAYLAND_DISPLAY"),
    (
        "xclip",
        ("-selection", "clipboard", "-t", "TARGETS", "-o"),
        ("-selection", "clipboard", "-t", "image/png", "-o"),
        "DISPLAY",
    ),
    ("pngpaste", (), ("-",), ""),
)


async def clipboard_image(folder: Path) -> File | None:
    """The image on the clipboard; None if there is none, or no clipboard program."""
    from tillerman.core.agent import File
    from tillerman.harness.agent_admin import DESKTOP
    from tillerman.supervision.environment import child_environment
    from tillerman.supervision.linux.which import find_program
    from tillerman.workspace.git import bounded_command

    env = child_environment(os.environ, DESKTOP).variables
    for name, kinds, image, display in _CLIPBOARDS:
        program = find_program(name, env.get("PATH"))
        if program is None or (display and display not in env):
            continue
        try:
            if kinds:
                report = await bounded_command.query(
                    [program, *kinds], cwd=folder, env=env, seconds=MAX_WAIT
                )
                if b"image/png" not in report.out.split():
                    return None
            reported = await bounded_command.query(
                [program, *image], cwd=folder, env=env, seconds=MAX_WAIT, most=ATTACHMENT_CAP
            )
        except (bounded_command.CommandMissing, bounded_command.CommandTimeout):
            return None
        if reported.cut:
            raise UsageError(
                f"the image is larger than {ATTACHMENT_CAP // 2**20} MB",
                hint="attach a smaller one",
            )
        if reported.code == 0 and reported.out:
            return File("clipboard.png", "image/png", reported.out)
        return None
    return None
