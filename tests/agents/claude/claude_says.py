"""Lines as Claude Code writes them, for tests of what no recording contains."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tillerman.agents.claude.wire import ClaudeWire
from tillerman.core.agent import Mode, Prompt
from tillerman.core.events import Event
from tillerman.core.session_options import session_spec
from tillerman.core.wire import WireReply

Line = dict[str, Any]
_messages = itertools.count(1)


def wire(mode: Mode = "agent", now: float = 0.0) -> ClaudeWire:
    return ClaudeWire(session_spec(cwd=Path("/proj"), mode=mode), clock=lambda: now)


def prompted(mode: Mode = "agent", now: float = 0.0) -> ClaudeWire:
    """A wire whose agent has received a prompt."""
    claude = wire(mode, now)
    list(claude.prompt(Prompt("go")))
    return claude


def receive(claude: ClaudeWire, *lines: Line) -> list[Event | WireReply]:
    return [one for line in lines for one in claude.decode(encode(line))]


def encode(line: Any) -> bytes:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode()


def init(session_id: str = "s1", model: str = "opus", **more: Any) -> Line:
    return system("init", session_id=session_id, model=model, **more)


def system(subtype: str, **more: Any) -> Line:
    return {"type": "system", "subtype": subtype, **more}


def state(word: str) -> Line:
    return system("session_state_changed", state=word)


def assistant(*blocks: Line, parent: str | None = None, id: str | None = None, **more: Any) -> Line:
    message = {"id": id or f"msg_{next(_messages)}", "content": list(blocks)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent, **more}


def text_line(text: str) -> Line:
    return {"type": "text", "text": text}


def calls(call_id: str, name: str, **input: Any) -> Line:
    return {"type": "tool_use", "id": call_id, "name": name, "input": input}


def tool_result(
    call_id: str,
    content: Any = "",
    *,
    is_error: bool = False,
    details: Any = None,
    meta: Sequence[Line] = (),
    parent: str | None = None,
) -> Line:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {
        "type": "user",
        "message": {"role": "user", "content": [{**block, "is_error": is_error}]},
        "parent_tool_use_id": parent,
        "tool_use_result": details,
        "tool_result_meta": list(meta),
    }


def stream(event: Line, **more: Any) -> Line:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None, **more}


def message_start(id: str) -> Line:
    return stream({"type": "message_start", "message": {"id": id}})


def text_delta(text: str, index: int = 0) -> Line:
    delta = {"type": "text_delta", "text": text}
    return stream({"type": "content_block_delta", "index": index, "delta": delta})


def message_stop(**more: Any) -> Line:
    return stream({"type": "message_stop"}, **more)


def result(text: str = "", **more: Any) -> Line:
    return {"type": "result", "subtype": "success", "is_error": False, "result": text, **more}


def wake_up(run_id: str = "") -> Line:
    """A result of a turn that the agent started by itself."""
    return {"kind": "task-notification", **({"runId": run_id} if run_id else {})}


def hook(request_id: str, call_id: str, name: str, input: Line | None = None, **more: Any) -> Line:
    body = {
        "hook_event_name": "PreToolUse",
        "tool_name": name,
        "tool_input": input or {},
        "tool_use_id": call_id,
        **more,
    }
    return control_request(request_id, subtype="hook_callback", input=body)


def can_use_tool(
    request_id: str, call_id: str, name: str, input: Line | None = None, **more: Any
) -> Line:
    return control_request(
        request_id,
        subtype="can_use_tool",
        tool_name=name,
        input=input or {},
        tool_use_id=call_id,
        **more,
    )


def control_request(request_id: str, **request: Any) -> Line:
    return {"type": "control_request", "request_id": request_id, "request": request}


def response(request_id: str, body: Line) -> Line:
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, "response": body},
    }
