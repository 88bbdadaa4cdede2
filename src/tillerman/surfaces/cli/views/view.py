"""View protocol of `run` and `follow`: implemented by JSON lines, plain text and live screen."""

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
    async def report(self, text: str) -> None: ...  # a message from tillerman
    async def close(self) -> None: ...


@dataclass(frozen=True)
class ViewContext:
    """What a view knows about its session in advance."""

    folder: Path  # the agent's working directory
    resumable: bool  # the session can be resumed later
    prompts: bool = False  # show prompts too, since they were typed elsewhere
    approve: str = "ask"  # the preset at the start


class ReachableSession(Protocol):
    """A session that can be answered, in this process or another."""

    @property
    def id(self) -> str: ...
    def answer(
        self, request_id: str, answer: Answer, *, surface: str = ...
    ) -> Awaitable[None] | None: ...
    async def cancel(self) -> None: ...
    async def configure(self, *, approve: Preset | None = ...) -> None: ...
