"""Translates between the mock's messages (listed in `child.py`) and events."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec import MsgspecError, convert, json, to_builtins

from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.core import events as ev
from tillerman.core import tools
from tillerman.core.agent import Mode, Prompt, SessionSpec
from tillerman.core.failure import Failure
from tillerman.core.wire import Launch, WireReply

CHILD = Path(__file__).with_name("child.py")
TOOLS = {
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "run": "Bash",
    "task": "Task",
    "present": "ExitPlanMode",
}
PLAIN: dict[str, type[ev.Event]] = {  # messages with the same fields as an event
    "ready": ev.AgentReady,
    "plan": ev.PlanChanged,
    "result": ev.ToolFinished,
    "tasks": ev.BackgroundChanged,
    "question": ev.QuestionAsked,
    "settled": ev.RequestAnswered,
    "usage": ev.UsageReported,
    "settings": ev.SettingsChanged,
    "notice": ev.Notice,
    "end": ev.TurnEnded,
}


class MockWire:
    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, spec: SessionSpec) -> None:
        self._cwd = str(spec.cwd)

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        argv = [sys.executable, "-I", "-S", str(CHILD)]
        for name in ("resume", "fork", "model", "mode", "effort", "system"):
            if value := getattr(spec, name):
                argv += [f"--{name}", str(value)]
        for name in ("script", "pace", "state"):
            if name in spec.native.options:
                argv += [f"--{name}", str(spec.native.options[name])]
        if spec.tools.servers:
            argv += ["--servers", json.encode(spec.tools.servers).decode()]
        return Launch(argv)

    def greet(self) -> Iterable[dict[str, Any]]:
        return []

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        files = [f._asdict() | {"data": base64.b64encode(f.data).decode()} for f in prompt.files]
        yield {"type": "prompt", "text": prompt.text, "files": files}

    def answer(self, request_id: str, answer: ev.Answer) -> Iterable[dict[str, Any]]:
        yield {"type": "answer", "id": request_id, **to_builtins(answer)}

    def cancel(self) -> Iterable[dict[str, Any]]:
        yield {"type": "interrupt"}

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]:
        yield {"type": "configure", "model": model, "mode": mode}

    def decode(self, line: bytes) -> Iterable[ev.Event | WireReply]:
        try:
            yield self._event(json.decode(line))
        except (MsgspecError, ValueError, RecursionError) as error:
            yield unrecognized(line, str(error))
            if line.startswith(b'{"type":"end"'):  # no other end will follow
                why = Failure(kind="agent_failed", message=f"mock: invalid end of a turn: {error}")
                yield ev.TurnEnded(reason="failed", failure=why)

    def _event(self, message: Any) -> ev.Event:
        """Decodes a message; raises for a key that is missing or of another type."""
        match message:
            case {"type": "text", "id": str(id), "text": str(text)}:
                return ev.MessageChunk(message_id=id, text=text, parent=_parent(message))
            case {"type": "thought", "id": str(id), "text": str(text)}:
                return ev.ThoughtChunk(message_id=id, text=text, parent=_parent(message))
            case {"type": "call", "id": str(id), "tool": str(name), "input": dict(input)}:
                call = self._call(name, input)
                return ev.ToolStarted(call_id=id, name=name, parent=_parent(message), **call)
            case {"type": "output", "id": str(id), "text": str(text)}:
                shown = (ev.Text(text),)
                return ev.ToolUpdated(call_id=id, content=shown, parent=_parent(message))
            case {"type": "ask", "tool": str(name), "input": dict(input)}:
                fields = message | self._call(name, input) | {"type": "permission_requested"}
                return convert(fields, ev.PermissionRequested)
            case {"type": "woke"}:
                return ev.TurnStarted(origin="agent")
            case {"type": "took_up"}:
                return ev.TurnStarted(origin="prompt")
            case {"type": str(kind)} if event := PLAIN.get(kind):
                del message["type"]
                return convert(message, event)
        raise ValueError("no message of the mock's")

    def _call(self, name: str, input: dict[str, Any]) -> dict[str, Any]:
        tool = "MCP" if "." in name else TOOLS.get(name, name)
        title = tools.title(tool, input, name=name, cwd=self._cwd)
        return {"tool": tool, "title": title, "input": input, "paths": tools.paths_of(input)}


def _parent(message: dict[str, Any]) -> str | None:
    parent = message.get("parent")
    return parent if parent is None else convert(parent, str)
