"""Replays a recording of Qwen Code's stream into a wire.

A recording is a folder with `wire.jsonl`: the CLI's lines as written, or both directions as
`{"dir": "out" | "in", "msg": …}`, where out is what the host sent, which is passed to the wire too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tillerman.agents.qwen.json_wire import QwenStreamWire
from tillerman.core.agent import Prompt
from tillerman.core.events import Answer, Event
from tillerman.core.session_options import session_spec
from tillerman.core.wire import WireReply

RECORDINGS = Path(__file__).parents[2] / "recordings" / "qwen"
SPEC = session_spec(cwd=Path("/proj"))

Said = Event | WireReply


def recordings() -> list[Path]:
    return sorted(path.parent for path in RECORDINGS.glob("*/*/wire.jsonl"))


def name(recording: Path) -> str:
    return f"{recording.parent.name}/{recording.name}"


def lines(recording: Path) -> list[dict[str, Any]]:
    """Both directions; a recording of stdout alone begins with a prompt."""
    found = [json.loads(line) for line in (recording / "wire.jsonl").read_bytes().splitlines()]
    if set(found[0]) == {"dir", "msg"}:
        return found
    prompt = {"type": "user", "message": {"content": "go"}}
    return [{"dir": "out", "msg": prompt}, *({"dir": "in", "msg": msg} for msg in found)]


def play(recording: Path, resume: str | None = None) -> list[Said]:
    wire = QwenStreamWire(session_spec(cwd=SPEC.cwd, resume=resume))
    list(wire.greet())
    ids: dict[str, str] = {}  # of the recorded host's requests -> of the wire's own
    received: list[Said] = []
    for one in lines(recording):
        msg = one["msg"]
        if one["dir"] == "out":
            _report(wire, msg, ids)
        else:
            if msg["type"] == "control_response":
                theirs = msg["response"]["request_id"]
                response = {**msg["response"], "request_id": ids.get(theirs, theirs)}
                msg = {**msg, "response": response}
            received += wire.decode(json.dumps(msg).encode())
    return received


def encoded(received: Iterable[Said]) -> str:
    return "".join(
        msgspec.json.encode({"reply": one.message} if isinstance(one, WireReply) else one).decode()
        + "\n"
        for one in received
    )


def _report(wire: QwenStreamWire, msg: dict[str, Any], ids: dict[str, str]) -> None:
    sent: Iterable[dict[str, Any]] = []
    match msg:
        case {"type": "user", "message": {"content": content}}:
            list(wire.prompt(Prompt(content)))
        case {"type": "control_response", "response": {"request_id": asked, **response}}:
            list(wire.answer(asked, _answer(response.get("response", {}))))
        case {"type": "control_request", "request": {"subtype": "interrupt"}}:
            sent = wire.cancel()
        case {"type": "control_request", "request": {"subtype": "set_model", "model": model}}:
            sent = wire.configure(model, None)
        case {"type": "control_request", "request": {"subtype": "set_permission_mode"}}:
            sent = wire.configure(None, "agent")
    for ours in sent:
        ids[msg["request_id"]] = ours["request_id"]


def _answer(response: dict[str, Any]) -> Answer:
    if response.get("behavior") == "allow":
        return Answer("allow")
    return Answer("deny", note=response.get("message"))
