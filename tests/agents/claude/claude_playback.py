"""Replays a recording of Claude Code into a wire.

A recording is a folder with `wire.jsonl`: the CLI's lines as written, or both directions as
`{"dir": "out" | "in", "msg": …}`, where out is what the host sent. What the host sent is passed to
the wire too, so that it has the prompts, answers and settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tillerman.agents.claude.wire import ClaudeWire
from tillerman.core.agent import Prompt
from tillerman.core.events import Answer, Event
from tillerman.core.session_options import session_spec
from tillerman.core.wire import WireReply

RECORDINGS = Path(__file__).parents[2] / "recordings" / "claude"
SPEC = session_spec(cwd=Path("/proj"))
NOW = 1_794_700_000.0

Said = Event | WireReply


def recordings() -> list[Path]:
    return sorted(path.parent for path in RECORDINGS.glob("*/*/wire.jsonl"))


def name(recording: Path) -> str:
    return f"{recording.parent.name}/{recording.name}"


def lines(recording: Path) -> list[dict[str, Any]]:
    """Both directions; a recording of stdout alone begins with a prompt."""
    found = [json.loads(line) for line in (recording / "wire.jsonl").read_text().splitlines()]
    if found and set(found[0]) == {"dir", "msg"}:
        return found
    prompt = {"type": "user", "message": {"content": "go"}}
    return [{"dir": "out", "msg": prompt}, *({"dir": "in", "msg": msg} for msg in found)]


def play(messages: Iterable[dict[str, Any]]) -> list[Said]:
    wire = ClaudeWire(SPEC, clock=lambda: NOW)
    list(wire.greet())
    ids: dict[str, str] = {}  # of the recorded host's requests -> of the wire's own
    received: list[Said] = []
    for one in messages:
        msg = one["msg"]
        if one["dir"] == "out":
            _report(wire, msg, ids)
        else:
            received += wire.decode(_renamed(msg, ids))
    return received


def encoded(received: Iterable[Said]) -> str:
    """As in a golden file: an event or a reply on each line."""
    return "".join(
        msgspec.json.encode({"reply": one.message} if isinstance(one, WireReply) else one).decode()
        + "\n"
        for one in received
    )


def compact(msg: Any) -> bytes:
    return json.dumps(msg, separators=(",", ":"), ensure_ascii=False).encode()


def _report(wire: ClaudeWire, msg: dict[str, Any], ids: dict[str, str]) -> None:
    match msg:
        case {"type": "user", "message": {"content": content}}:
            list(wire.prompt(Prompt(content if isinstance(content, str) else "go")))
        case {"type": "control_response", "response": response}:
            list(wire.answer(response["request_id"], _answer(response.get("response", {}))))
        case {"type": "control_request", "request_id": theirs, "request": request}:
            match request:
                case {"subtype": "interrupt"}:
                    sent = wire.cancel()
                case {"subtype": "set_model", "model": model}:
                    sent = wire.configure(model, None)
                case {"subtype": "set_permission_mode", "mode": "plan"}:
                    sent = wire.configure(None, "plan")
                case {"subtype": "set_permission_mode"}:
                    sent = wire.configure(None, "agent")
                case _:
                    sent = []
            for ours in sent:
                ids[theirs] = ours["request_id"]


def _answer(response: dict[str, Any]) -> Answer:
    output = response.get("hookSpecificOutput", {})
    decision = output.get("permissionDecision") or response.get("behavior") or "deny"
    note = output.get("permissionDecisionReason") or response.get("message")
    changed = output.get("updatedInput") or response.get("updatedInput")
    answers = changed.get("answers") if changed else None
    if decision == "deny":
        return Answer("deny", note=note)
    return Answer("allow", input=changed, answers=answers)


def _renamed(msg: Any, ids: dict[str, str]) -> bytes:
    match msg:
        case {"type": "control_response", "response": {"request_id": str(theirs)}}:
            response = {**msg["response"], "request_id": ids.get(theirs, theirs)}
            msg = {**msg, "response": response}
    return compact(msg)
