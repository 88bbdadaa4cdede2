"""A scene with the embedded agent, which runs the script in its prompt."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import CHECKOUT
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

SERVER = CHECKOUT / "tests" / "real" / "mcp_server.py"
KINDS = {401: "not_signed_in", 404: "model_not_found", 429: "rate_limited", 500: "api_error"}
WORDS = {"overflow": "context_overflow", "quota": "billing"}
_NO_REPAIR = "its script comes with the prompt, which a repair is not"


class MockScene(ScenarioSessions):
    def __init__(self, folder: Path) -> None:
        self._state = folder / "mock"
        options = {"pace": "0", "state": str(self._state)}
        left_out = {
            "schema_repaired": _NO_REPAIR,
            "cancel_in_repair": _NO_REPAIR,
            "cost_limit": "its model costs nothing",
        }
        server = {"command": sys.executable, "args": [str(SERVER)]}
        super().__init__(load("mock"), folder, options=options, left_out=left_out, server=server)

    def script(self, *replies: Part) -> str:
        steps = [step for reply in replies for step in _steps(reply)]
        return json.dumps(steps)

    def release(self, name: str) -> None:
        """Output that it withholds ends with its turn."""

    def forget(self) -> None:
        shutil.rmtree(self._state)

    def model_input(self) -> str:
        raise UnsupportedAction("there is no model behind it")


def _steps(reply: Part) -> Iterator[dict[str, Any]]:
    if isinstance(reply, Attempts):
        raise UnsupportedAction("there is no model behind it that could be asked again")
    if isinstance(reply, Fail):
        kind = WORDS.get(reply.kind or "") or KINDS.get(reply.status, "agent_failed")
        yield {"fail": kind, "message": reply.message, "hint": "ask for something else"}
        return
    calls = [_call(act) for act in reply if isinstance(act, ToolAction)]
    for act in reply:
        match act:
            case Say(text):
                yield {"say": text}
            case Think(text):
                yield {"think": text}
            case ToolAction():
                continue
            case Fail():
                yield from _steps(act)
            case Stall(seconds):
                yield {"sleep": seconds}
            case ConnectionCut():
                yield {"crash": 1}
            case Close():
                yield {"fail": "stream_broken", "message": "it broke off", "hint": "try again"}
            case ReplyHold():
                yield {"hang": True}
            case Usage(input, output, cache_read):
                counts = {"input_tokens": input, "output_tokens": output}
                yield {"usage": {**counts, "cached_tokens": cache_read}}
    if len(calls) > 1:
        yield {"parallel": calls}
    else:
        yield from calls


def _call(act: ToolAction) -> dict[str, Any]:
    words = act.words
    match act.tool:
        case "shell":
            return {"run": words[0]}
        case "read":
            return {"read": words[0]}
        case "write":
            return {"write": words[0], "text": words[1]}
        case "edit":
            return {"edit": words[0], "old": words[1], "new": words[2]}
        case "todo":
            return {"plan": list(words)}
        case "mcp":
            server, tool, text = words
            return {"call": f"{server}.{tool}", "input": {"text": text}}
        case "ask":
            question = {
                "text": words[0],
                "header": "",
                "choices": [{"label": w} for w in words[1:]],
            }
            return {"question": [question]}
    raise UnsupportedAction(f"it has no {act.tool!r}")
