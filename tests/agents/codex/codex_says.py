"""Messages as Codex's app-server writes them, for tests of what no recording contains."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tillerman.agents.codex.wire import CodexWire
from tillerman.core.agent import Prompt
from tillerman.core.events import Event
from tillerman.core.session_options import session_spec
from tillerman.core.wire import AttachmentBytes, WireReply

Message = dict[str, Any]
THREAD, TURN = "thread-1", "turn-1"


class Talk:
    """A wire and all that it sent; the far side answers the initial requests."""

    def __init__(self, **spec: Any) -> None:
        self.wire = CodexWire(session_spec(cwd=Path("/proj"), **spec), clock=lambda: 1000.0)
        self.sent: list[Message] = []
        self.send(self.wire.greet())

    def send(self, messages: Iterable[Message]) -> None:
        self.sent += messages

    def receive(self, *messages: Message) -> list[Event | AttachmentBytes]:
        """The decoded events; replies are appended to what was sent."""
        lines = [one for message in messages for one in self.wire.decode(encode(message))]
        self.send(one.message for one in lines if isinstance(one, WireReply))
        return [one for one in lines if not isinstance(one, WireReply)]

    def open(self) -> list[Event | AttachmentBytes]:
        return self.receive(
            answer(self.last("initialize"), {}),
            answer(self.last(self._opening), {"thread": {"id": THREAD}, "model": "gpt-5.5"}),
        )

    def prompt(self, text: str = "go") -> None:
        self.send(self.wire.prompt(Prompt(text)))

    def begin(self) -> None:
        """Opens and prompts, and starts the turn."""
        self.open()
        self.prompt()
        self.receive(answer(self.last("turn/start"), {"turn": {"id": TURN}}))
        self.receive(report("turn/started", turn={"id": TURN}))

    def last(self, method: str) -> Message:
        return [message for message in self.sent if message.get("method") == method][-1]

    def methods(self) -> list[str]:
        return [message.get("method", "answer") for message in self.sent]

    @property
    def _opening(self) -> str:
        return next(name for name in reversed(self.methods()) if name.startswith("thread/"))


def encode(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def answer(request: Message, result: Message) -> Message:
    return {"id": request["id"], "result": result}


def refuse(request: Message, message: str) -> Message:
    return {"id": request["id"], "error": {"code": -32600, "message": message}}


def report(method: str, thread: str = THREAD, **params: Any) -> Message:
    return {"method": method, "params": {"threadId": thread, "turnId": TURN, **params}}


def ask(id: int | str, method: str, thread: str = THREAD, **params: Any) -> Message:
    return {"id": id, **report(method, thread, **params)}


def begun(kind: str, id: str, thread: str = THREAD, /, **item: Any) -> Message:
    return report("item/started", thread, item={"type": kind, "id": id, **item})


def done(kind: str, id: str, thread: str = THREAD, /, **item: Any) -> Message:
    return report("item/completed", thread, item={"type": kind, "id": id, **item})


def delta(id: str, words: str, thread: str = THREAD) -> Message:
    return report("item/agentMessage/delta", thread, itemId=id, delta=words)


def completed(status: str = "completed", thread: str = THREAD, turn: str = TURN, **more: Any) -> (
    Message
):  # fmt: skip
    return report("turn/completed", thread, turn={"id": turn, "status": status, **more})
