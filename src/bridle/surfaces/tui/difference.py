"""A file's change: both sides side by side where there is room, else one below the other."""

from __future__ import annotations

from rich.console import RenderableType

from bridle.core.events import Diff
from bridle.surfaces.drawn import pieces


def difference(change: Diff, width: int, limit: int) -> RenderableType:
    return pieces.diff(change, limit)
