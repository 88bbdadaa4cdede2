"""A minimal wire that drives any program: `{"say": TEXT}`, `{"end": REASON}`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import AgentInfo, Mode, Prompt, SessionSpec
from tillerman.core.events import (
    AgentReady,
    Answer,
    Event,
    MessageChunk,
    Notice,
    TurnEnded,
    TurnStarted,
    Unrecognized,
)
from tillerman.core.failure import Failure
from tillerman.core.session_options import session_spec
from tillerman.core.tools import ToolClass
from tillerman.core.wire import Launch, WireReply


class PlainWire:
    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, spec: SessionSpec) -> None:
        self._argv: Sequence[str] = spec.native.options.get("argv", ["true"])

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return Launch([*self._argv, *([f"resume={spec.resume}"] if spec.resume else [])])

    def greet(self) -> Iterable[dict[str, Any]]:
        return []

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        yield {"prompt": prompt.text}

    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]:
        return []

    def cancel(self) -> Iterable[dict[str, Any]]:
        yield {"cancel": True}

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]:
        return []

    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        try:
            message = msgspec.json.decode(line)
        except Exception as error:
            message, why = None, str(error)
        else:
            why = "unknown"
        match message:
            case {"say": str(text)}:
                yield MessageChunk(message_id="m", text=text, parent=message.get("parent"))
            case {"notice": str(text)}:
                yield Notice(level="info", kind="session", text=text)
            case {"end": "failed"}:
                failure = Failure(kind="agent_failed", message="it said so")
                yield TurnEnded(reason="failed", failure=failure)
            case {"end": ("completed" | "cancelled") as reason}:
                yield TurnEnded(reason=reason)
            case {"woke": True}:
                yield TurnStarted(origin="agent")
            case {"ready": str(native_id)}:
                yield AgentReady(native_id=native_id)
            case {"ask": value}:
                yield WireReply({"answer": value})
            case {"raise": str(text)}:
                raise RuntimeError(text)
            case _:
                yield Unrecognized(raw=line.decode("utf-8", "replace"), why=why)


class PerTurnWire(PlainWire):
    lifetime: ClassVar[Literal["session", "turn"]] = "turn"

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        assert prompt
        launch = super().launch(spec, prompt)
        return Launch(launch.argv, stdin=prompt.text.encode())


# Half a second of grace, where five would only make the tests slower.
ASKS: frozenset[ToolClass] = frozenset({"write", "shell"})
LONG_LIVED = StdioAgent(
    AgentInfo("plain", "Plain", frozenset({"steer", "resume"}), asks=ASKS), PlainWire, grace=0.5
)
PER_TURN = StdioAgent(
    AgentInfo("turns", "Turns", frozenset({"resume"}), asks=ASKS), PerTurnWire, grace=0.5
)


def python(program: str, cwd: Path) -> SessionSpec:
    """A session whose agent is this program, with the usual imports and helpers."""
    prelude = "import json, os, signal, sys, time\n"
    argv = [sys.executable, "-I", "-S", "-u", "-c", prelude + program]
    return session_spec(cwd=cwd, options={"argv": argv})


def shell(command: str, cwd: Path) -> SessionSpec:
    return session_spec(cwd=cwd, options={"argv": ["sh", "-c", command]})
