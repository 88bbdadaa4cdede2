"""Tracks the current model reply and withdraws its messages when the model is called again."""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.core.events import (
    Event,
    MessageChunk,
    MessageWithdrawn,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)


class ModelReply:
    """Receives the events of one conversation in order.

    Messages are not withdrawn if nothing replaces them: the turn failed or was cancelled.
    """

    def __init__(self) -> None:
        self._emitted: list[str] = []  # ids of the reply's messages and thoughts
        self._abandoned: list[str] = []

    def asked_again(self) -> None:
        """The reply was interrupted: the next one replaces it."""
        self._abandoned += self._emitted
        self._emitted = []

    def receive(self, event: Event) -> Iterator[MessageWithdrawn]:
        """Yields the withdrawals to emit before this event."""
        match event:
            case MessageChunk(message_id=id) | ThoughtChunk(message_id=id):
                yield from self._replaced()
                if id not in self._emitted:
                    self._emitted.append(id)
            case ToolStarted():
                yield from self._replaced()
                self._emitted = []
            case ToolFinished():
                self._emitted = []
            case TurnEnded(reason=reason):
                if reason == "completed":
                    yield from self._replaced()
                self._emitted, self._abandoned = [], []

    def _replaced(self) -> Iterator[MessageWithdrawn]:
        abandoned, self._abandoned = self._abandoned, []
        for id in abandoned:
            yield MessageWithdrawn(message_id=id)
