"""Base wire for programs that get all input at start, one process per turn, and no messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from tillerman.core.agent import Mode, Prompt
    from tillerman.core.events import Answer


class OneWayWire:
    """Subclasses add `launch` and `decode`; a signal ends a cancelled turn."""

    lifetime: ClassVar[Literal["session", "turn"]] = "turn"

    def greet(self) -> Iterable[dict[str, Any]]:
        return ()

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        return ()

    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]:
        return ()

    def cancel(self) -> Iterable[dict[str, Any]]:
        return ()

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]:
        return ()  # applied at the next launch
