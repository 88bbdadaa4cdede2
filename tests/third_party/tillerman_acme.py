"""A third-party agent: a complete package that adds it to tillerman."""

import sys
from pathlib import Path

import msgspec

from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import AgentInfo
from tillerman.core.events import (
    AgentReady,
    MessageChunk,
    PermissionRequested,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Unrecognized,
)
from tillerman.core.wire import Launch

PROGRAM = Path(__file__).with_name("acme_program.py")


class AcmeWire:
    lifetime = "session"

    def __init__(self, spec):
        pass

    def launch(self, spec, prompt):
        model = ["--model", spec.model] if spec.model else []
        return Launch([sys.executable, str(PROGRAM), *model])

    def greet(self):
        return []

    def prompt(self, prompt):
        return [{"user": prompt.text}]

    def answer(self, request_id, answer):
        return [{"decision": request_id, "yes": answer.option == "allow"}]

    def cancel(self):
        return [{"stop": True}]

    def configure(self, model, mode):
        return []

    def decode(self, line):
        try:
            message = msgspec.json.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            message = None
        match message:
            case {"session": str(id), "model": str(model)}:
                yield AgentReady(native_id=id, model=model)
            case {"text": str(text)}:
                yield MessageChunk(message_id="acme", text=text)
            case {"may_i": str(id), "command": str(command)}:
                title, input = f"Bash `{command}`", {"command": command}
                yield ToolStarted(call_id=id, tool="Bash", name="sh", title=title, input=input)
                yield PermissionRequested(
                    request_id=id, call_id=id, tool="Bash", title=title, input=input
                )
            case {"ran": str(id), "ok": bool(ok)}:
                yield ToolFinished(call_id=id, outcome="completed" if ok else "denied")
            case {"done": True}:
                yield TurnEnded(reason="completed")
            case _:
                yield Unrecognized(raw=line.decode("utf-8", "replace"))


CAN = frozenset({"streaming", "permissions", "model"})
agent = StdioAgent(AgentInfo("acme", "Acme", CAN, asks=frozenset({"write", "shell"})), AcmeWire)
