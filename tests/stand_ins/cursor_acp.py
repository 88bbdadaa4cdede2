"""`cursor-agent acp`: a recorded conversation, replayed to a client that follows its order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.stand_ins.cursor_home import Home
from tests.stand_ins.cursor_stage import RECORDINGS

Table = dict[str, Any]


class Scene:
    """A message of the client, and all messages of the agent until its next one."""

    def __init__(self, asked: Table) -> None:
        self.method: str = asked["method"]
        self.id = asked.get("id")
        self.said: list[Table] = []


def serve(home: Home) -> int:
    return Player(_scenes(home.cwd)).play(_messages())


class Player:
    def __init__(self, scenes: list[Scene]) -> None:
        self._scenes = scenes
        self._ids: dict[Any, Any] = {}  # recorded -> asked

    def play(self, messages: Iterator[Table]) -> int:
        for message in messages:
            method = message.get("method")
            scene = next((one for one in self._scenes if one.method == method), None)
            if scene is None:
                if method and "id" in message:
                    error = {"code": -32601, "message": f"Method not found: {method}"}
                    _send({"jsonrpc": "2.0", "id": message["id"], "error": error})
                continue
            self._scenes.remove(scene)
            self._ids[scene.id] = message.get("id")
            for reported in scene.said:
                self._report(reported, messages)
        return 0

    def _report(self, parsed: Table, messages: Iterator[Table]) -> None:
        if "method" not in parsed:
            _send({**parsed, "id": self._ids.get(parsed["id"], parsed["id"])})
            return
        _write_files(parsed)
        _send(parsed)
        if "id" in parsed:
            answer = next(one for one in messages if one.get("id") == parsed["id"])
            assert "method" not in answer


def _scenes(cwd: Path) -> list[Scene]:
    text = (RECORDINGS / "acp" / "acp.duplex.jsonl").read_text().replace("/proj", str(cwd))
    scenes: list[Scene] = []
    for line in map(json.loads, text.splitlines()):
        message = line["msg"]
        if line["dir"] == "in":
            scenes[-1].said.append(message)
        elif "method" in message:
            scenes.append(Scene(message))
    return scenes


def _write_files(parsed: Table) -> None:
    """A diff of a new file: its text starts with what should have been its header."""
    for part in parsed["params"].get("update", {}).get("content", []):
        if isinstance(part, dict) and part.get("type") == "diff":
            Path(part["path"]).write_text(part["newText"].partition("\n")[2])


def _messages() -> Iterator[Table]:
    for line in sys.stdin:
        try:
            yield json.loads(line)
        except ValueError:
            continue  # swallowed without a word, as the real one does


def _send(message: Table) -> None:
    print(json.dumps(message), flush=True)
