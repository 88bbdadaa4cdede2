"""What `run` and `follow` show a session through: JSON lines, plain text, or a live screen."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tillerman.core.events import Answer, Entry
from tillerman.core.session_options import Preset
from tillerman.surfaces.rendering.turn_outcome import Outcomes


class View(Protocol):
    @property
    def outcomes(self) -> Outcomes: ...
    async def show(self, page: Sequence[Entry]) -> None: ...
    async def tell(self, text: str) -> None: ...  # a word of our own, beside the session
    async def close(self) -> None: ...


@dataclass(frozen=True)
class ViewContext:
    """What a view knows of its session beforehand."""

    folder: Path  # where its agent works
    resumable: bool  # it can be gone on with later
    prompts: bool = False  # show them too, because somebody else wrote them
    approve: str = "ask"  # the preset when it begins


class ReachableSession(Protocol):
    """A session that can be answered, whoever runs it."""

    @property
    def id(self) -> str: ...
    def answer(
        self, request_id: str, answer: Answer, *, surface: str = ...
    ) -> Awaitable[None] | None: ...
    async def cancel(self) -> None: ...
    async def configure(self, *, approve: Preset | None = ...) -> None: ...
