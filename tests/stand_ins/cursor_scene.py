"""A scene with the stand-in for Cursor: every case of real agents, run with it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.stand_ins.cursor_stand_in import install_cursor
from tillerman.agents import load
from tillerman.testing.model_double.script import (
    Attempts,
    Close,
    ConnectionCut,
    Fail,
    ReplyHold,
    Say,
    Stall,
    Think,
    Usage,
)
from tillerman.testing.scenario import Part, ToolAction, UnsupportedAction
from tillerman.testing.scenario_sessions import ScenarioSessions

SERVER = Path(__file__).parents[1] / "real" / "mcp_server.py"
_NO_REPAIR = "its script comes with the prompt, which a repair is not"
NOT_SIGNED_IN = "Error: Authentication required. Please run 'agent login' first.\n"
NO_MODEL = "Cannot use this model: no-such-model. Available models: auto\n"
NO_QUOTA = "ActionRequiredError: You've hit your usage limit.\n"


class CursorScene(ScenarioSessions):
    def __init__(self, folder: Path) -> None:
        super().__init__(
            load("cursor"),
            folder,
            server={"command": sys.executable, "args": [str(SERVER)]},
            environment={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
            left_out=dict.fromkeys(("schema_repaired", "cancel_in_repair"), _NO_REPAIR),
        )
        self._folder = folder
        install_cursor(folder / "bin", self.home)

    def script(self, *replies: Part) -> str:
        steps = [step for one in replies for step in self._steps(one)]
        return f"@@script@@ {json.dumps(steps)}"

    def release(self, name: str) -> None:
        (self._folder / f"{name}.released").touch()

    def model_input(self) -> str:
        return (self.home / ".cursor" / "stand-in-told.json").read_text()

    def _steps(self, reply: Part) -> Iterator[dict[str, Any]]:
        if isinstance(reply, Attempts):
            raise UnsupportedAction("nobody has seen what Cursor keeps after it asked again")
        if isinstance(reply, Fail):
            yield _failure(reply)
            return
        calls = [self._call(act) for act in reply if isinstance(act, ToolAction)]
        for act in reply:
            match act:
                case Say(text, chunks, delay):
                    yield {"say": text, "pieces": chunks, "delay": delay}
                case Think(text):
                    yield {"think": text}
                case Stall(seconds):
                    yield {"wait": seconds}
                case ReplyHold(name, limit):
                    yield {"hold": str(self._folder / f"{name}.released"), "limit": limit}
                case ConnectionCut() | Close():
                    yield {"stop": True}
                case Fail():
                    yield _failure(act)
                case Usage():
                    raise UnsupportedAction("nobody has seen what Cursor counts of several calls")
        if calls:
            yield {"tools": calls}

    def _call(self, act: ToolAction) -> dict[str, Any]:
        words = act.words
        match act.tool:
            case "shell" | "read":
                return {act.tool: words[0]}
            case "write":
                return {"edit": words[0], "content": words[1]}
            case "edit":
                swap = {"oldText": words[1], "newText": words[2], "replaceAll": False}
                return {"tool": "edit", "args": {"path": words[0], "strReplace": swap}}
            case "todo":
                todos = [{"content": word, "status": "TODO_STATUS_PENDING"} for word in words]
                return {"tool": "updateTodos", "args": {"todos": todos, "merge": False}}
            case "mcp":
                names = {"serverIdentifier": words[0], "toolName": words[1]}
                return {"tool": "mcp", "args": {**names, "args": {"text": words[2]}}}
        raise UnsupportedAction(f"the stand-in has no {act.tool!r}")


def _failure(fail: Fail) -> dict[str, Any]:
    """The failure as recorded from Cursor."""
    if fail.kind == "quota":
        return {"exit": 1, "stderr": NO_QUOTA}
    if fail.kind is None:
        match fail.status:
            case 401:
                return {"exit": 1, "stderr": NOT_SIGNED_IN}
            case 404:
                return {"exit": 1, "stderr": NO_MODEL}
            case 400 | 500:
                return {"error": "The model provider returned an error."}
    raise UnsupportedAction(f"nobody has seen how Cursor tells {fail.kind or fail.status}")
