"""Desktop notification and terminal bell when an agent waits for an answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tillerman.surfaces.rendering import formatting

if TYPE_CHECKING:
    from textual.app import App

LONGEST = 120
_BELL = "\a"


def call(app: App[int], how: str, text: str) -> None:
    """Notifies the user. `how` is `screen.notify`; `desktop` also rings the bell as a fallback."""
    driver = app._driver
    if how == "none" or driver is None or app.is_headless:
        return
    if how == "desktop":
        driver.write(_wrapped(f"\x1b]9;tillerman: {formatting.one_line(text, LONGEST)}{_BELL}"))
    driver.write(_BELL)
    driver.flush()


def _wrapped(sequence: str) -> str:
    """Wraps the sequence for tmux, which passes it through if configured to."""
    if "TMUX" not in os.environ:
        return sequence
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"
