"""Sends and receives JSON messages over stdio, for the mock agent."""

from __future__ import annotations

import json
import os
import select
import time

from .mcp_client import McpClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Message = dict[str, Any]

CHUNK = 1 << 20


class StdinClosed(Exception):
    """Stdin is closed while the mock waits for a message."""


class StdioPeer:
    def __init__(self, settings: dict[str, str]) -> None:
        self.servers = McpClient(json.loads(settings.pop("servers", "{}")))
        self.settings = settings
        self.prompts: list[Message] = []
        self.answers: dict[str, Message] = {}
        self.interrupted = False
        self._interrupted_prompts = 0  # received before the interrupt
        self.deaf = False
        self._open = True
        self._rest = b""

    @property
    def hung_up(self) -> bool:
        return not (self._open or self.deaf)

    def take_interrupt(self) -> bool:
        """Drops the prompts that came before the interrupt; returns whether there were any."""
        dropped = self.prompts[: self._interrupted_prompts]
        del self.prompts[: self._interrupted_prompts]
        self.interrupted = False
        return bool(dropped)

    def say(self, type: str, **fields: object) -> None:
        self.write(json.dumps({"type": type, **fields}, separators=(",", ":")).encode() + b"\n")

    def write(self, data: bytes, fd: int = 1) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def listen(
        self, seconds: float | None, until: Callable[[], bool], also: Sequence[int] = ()
    ) -> None:
        """Receives messages until the timeout, the condition holds or one of `also` is readable."""
        end = None if seconds is None else time.monotonic() + seconds
        while not until():
            left = None if end is None else max(0.0, end - time.monotonic())
            if self.hung_up and left is None and not also:
                raise StdinClosed
            ready = select.select([*also, *([0] if self._open else [])], [], [], left)[0]
            if 0 in ready:
                self._receive()
            if not ready or ready != [0]:
                return

    def _receive(self) -> None:
        data = os.read(0, CHUNK)
        self._open = bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, message: Message) -> None:
        match message:
            case {"type": "prompt"}:
                self.prompts.append(message)
            case {"type": "answer", "id": id}:
                self.answers[id] = message
            case {"type": "interrupt"}:
                self.interrupted = not self.deaf
                self._interrupted_prompts = len(self.prompts)
            case {"type": "configure"}:
                fields = {key: message[key] for key in ("model", "mode") if message.get(key)}
                self.settings.update(fields)
                self.say("settings", **fields)
