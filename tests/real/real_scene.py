"""A scene with a real agent CLI: with the scripted model and the desk's sessions."""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

from tests.conformance import differences
from tests.real.desk import Desk, processes_with
from tests.real.stages import Actor, ToolUnavailable
from tillerman.agents import load
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import (
    Attempts,
    Fail,
    ModelToolCall,
    Say,
    Step,
    Usage,
    reply,
)
from tillerman.testing.scenario import MAX_WAIT, Part, ToolAction, UnsupportedAction

SERVER = Path(__file__).with_name("mcp_server.py")


class RealScene:
    def __init__(self, desk: Desk, actor: Actor) -> None:
        self.agent = load(actor.agent)
        self.project = desk.project
        self.server = {"command": sys.executable, "args": [str(SERVER)]}
        self.differs = differences.cases(actor.agent)
        self.left_out = differences.left_out(actor.agent)
        self._desk = desk
        self._actor = actor
        self.at_work = actor.stage.at_work
        self._names = count(1)
        self._last = ""

    def script(self, *replies: Part) -> str:
        self._last = name = f"scene{next(self._names)}"
        self._desk.double.scenarios[name] = [self._step(one) for one in replies]
        return f"@@{name}@@ go"

    def release(self, name: str) -> None:
        self._desk.double.release(name)

    def model_input(self) -> str:
        return json.dumps(self._desk.double.turns[-1].body, ensure_ascii=False)

    async def requested(self) -> None:
        await self._desk.double.seen(self._last, within=MAX_WAIT)

    def age(self, seconds: float) -> None:
        self._actor.stage.age(self._actor.home, seconds)

    def forget(self) -> None:
        self._actor.stage.forget(self._actor.home)

    async def start(self, **settings: Any) -> Session:
        return await self._desk.start(**settings, options=self._actor.stage.options)

    async def resume(self, session: str, *, fork: bool = False) -> Session:
        options = self._actor.stage.options
        return await self._desk.resume(session, fork=fork, options=options)

    async def reopen(self) -> None:
        await self._desk.reopen()

    def left(self) -> list[str]:
        return processes_with(f"HOME={self._actor.home}")

    def _step(self, acts: Part) -> Step:
        if isinstance(acts, Fail | Attempts):
            return acts
        usage = next((act for act in acts if isinstance(act, Usage)), None)
        parts = [act for act in acts if not isinstance(act, Usage)]
        parts = [self._part(act) if isinstance(act, ToolAction) else act for act in parts]
        return reply(*parts, usage=usage)

    def _part(self, act: ToolAction) -> ModelToolCall | Say:
        stage, words = self._actor.stage, act.words
        try:
            match act.tool:
                case "shell":
                    return stage.shell(*words)
                case "read":
                    return stage.read(Path(words[0]))
                case "write":
                    return stage.write(Path(words[0]), words[1])
                case "edit":
                    return stage.edit(Path(words[0]), *words[1:])
                case "ask":
                    return stage.ask(*words)
                case "todo":
                    return stage.todo(*((word, "pending") for word in words))
                case "result":
                    return stage.result(words[0])
                case "mcp":
                    return stage.mcp(words[0], words[1], {"text": words[2]})
        except ToolUnavailable as missing:
            raise UnsupportedAction(str(missing)) from None
        raise UnsupportedAction(f"nothing here is called {act.tool!r}")
