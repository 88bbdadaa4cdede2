"""Replays a recording of Codex into a wire.

A recording of the app-server has both directions, `{"dir": "out" | "in", "msg": …}`, where out is
what the host sent: it is passed to the wire too. A request of the recorded host is matched with the
wire's own request of the same method; answers to requests that the wire never sends are skipped. A
recording of `exec` has its stdout.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tillerman.agents.codex.exec.exec_wire import CodexExecWire
from tillerman.agents.codex.wire import CodexWire
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.events import Answer, Event
from tillerman.core.session_options import session_spec
from tillerman.core.wire import AttachmentBytes, WireReply

RECORDINGS = Path(__file__).parents[2] / "recordings" / "codex"
NOW = 1_794_700_000.0
GO = Prompt("go")

Said = Event | WireReply | AttachmentBytes
Line = dict[str, Any]


def recordings(surface: str) -> list[Path]:
    return sorted(path.parent for path in RECORDINGS.glob(f"{surface}*/*/wire.jsonl"))


def name(recording: Path) -> str:
    return recording.name


def lines(recording: Path) -> list[Line]:
    return [json.loads(line) for line in (recording / "wire.jsonl").read_text().splitlines()]


def received(recording: Path) -> list[Said]:
    if recording.parent.name.startswith("exec"):
        return play_exec(recording)
    return Player(lines(recording)).play()


def play_exec(recording: Path) -> list[Said]:
    spec = session_spec(cwd=Path("/proj"))
    wire = CodexExecWire(spec)
    wire.launch(spec, GO)
    messages = (recording / "wire.jsonl").read_bytes().splitlines()
    return [one for line in messages for one in wire.decode(line)]


class Player:
    def __init__(self, messages: list[Line]) -> None:
        self._said = messages
        self._wire = CodexWire(_spec(messages), clock=lambda: NOW)
        self._asked: list[Line] = []  # requests of the wire's that no recorded one was matched with
        self._ids: dict[int, int] = {}  # of the recorded host's requests -> of the wire's own
        self._answered = 0

    def play(self) -> list[Said]:
        self._send(self._wire.greet())
        received: list[Said] = []
        for one in self._said:
            if one["dir"] == "out":
                self._report(one["msg"])
            elif (msg := self._renamed(one["msg"])) is not None:
                now = list(self._wire.decode(compact(msg)))
                self._send(reply.message for reply in now if isinstance(reply, WireReply))
                received += now
        return received

    def _send(self, messages: Iterable[Line]) -> None:
        self._asked += [msg for msg in messages if "method" in msg and "id" in msg]

    def _report(self, msg: Line) -> None:
        if "method" not in msg:
            if "result" in msg:
                self._send(self._wire.answer(json.dumps(msg["id"]), _answer(msg["result"])))
            return
        if "id" in msg and not self._match(msg):
            self._do(msg)
            self._match(msg)

    def _match(self, msg: Line) -> bool:
        same = {"turn/start": {"turn/start", "turn/steer"}}
        for ours in self._asked:
            if ours["method"] in same.get(msg["method"], {msg["method"]}):
                self._asked.remove(ours)
                self._ids[msg["id"]] = ours["id"]
                return True
        return False

    def _do(self, msg: Line) -> None:
        match msg["method"]:
            case "turn/start" | "turn/steer":
                self._send(self._wire.prompt(GO))
            case "turn/interrupt":
                self._send(self._wire.cancel())

    def _renamed(self, msg: Line) -> Line | None:
        if "method" in msg or not isinstance(msg.get("id"), int):
            return msg
        return {**msg, "id": self._ids[msg["id"]]} if msg["id"] in self._ids else None


def encoded(received: Iterable[Said]) -> str:
    """As in a golden file: an event or a reply on each line."""
    return "".join(line + "\n" for line in _encoded(received))


def _encoded(received: Iterable[Said]) -> Iterator[str]:
    for one in received:
        match one:
            case WireReply(message):
                yield msgspec.json.encode({"reply": message}).decode()
            case AttachmentBytes(data):
                yield msgspec.json.encode({"keep": len(data)}).decode()
            case _:
                yield msgspec.json.encode(one).decode()


def compact(msg: Any) -> bytes:
    return json.dumps(msg, separators=(",", ":"), ensure_ascii=False).encode()


def _spec(messages: list[Line]) -> SessionSpec:
    """The spec with which the recorded host opened the session."""
    sent = [one["msg"] for one in messages if one["dir"] == "out"]
    resume, mode = None, "agent"
    for msg in sent:
        params = msg.get("params", {})
        if msg.get("method") == "thread/resume":
            resume = params["threadId"]
        if params.get("collaborationMode", {}).get("mode") == "plan":
            mode = "plan"
    return session_spec(cwd=Path("/proj"), resume=resume, mode=mode)  # type: ignore[arg-type]


def _answer(result: Line) -> Answer:
    match result:
        case {"decision": "accept"} | {"action": "accept"}:
            return Answer("allow")
        case {"decision": "acceptForSession"}:
            return Answer("always")
        case {"answers": answers}:
            chosen = [each["answers"][0] for each in answers.values()]
            return Answer("allow", answers={"Which color?": chosen[0]})
    return Answer("deny")
