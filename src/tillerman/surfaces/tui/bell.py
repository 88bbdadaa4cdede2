"""Calls a person who does not look: an agent waits for an answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tillerman.surfaces.rendering import formatting

if TYPE_CHECKING:
    from textual.app import App

LONGEST = 120
_BELL = "\a"


def call(app: App[int], how: str, text: str) -> None:
    """`how` as config `screen.notify` has it: `desktop` rings the bell too, for those without."""
    driver = app._driver
    if how == "none" or driver is None or app.is_headless:
        return
    if how == "desktop":
        driver.write(_wrapped(f"\x1b]9;tillerman: {formatting.one_line(text, LONGEST)}{_BELL}"))
    driver.write(_BELL)
    driver.flush()


def _wrapped(sequence: str) -> str:
    """tmux hands on what is wrapped for it, where that is allowed."""
    if "TMUX" not in os.environ:
        return sequence
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"
