"""Agent CLIs whose calls create a marker, one class at a time, in the format of each."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from tests.real.stages import Actor
from tests.stand_ins.cursor_stand_in import install_cursor
from tillerman.agents import load
from tillerman.core.tools import ToolClass
from tillerman.testing.model_double.script import ModelToolCall, ReplyHold, Say, reply
from tillerman.testing.model_double.server import ModelDouble

HOST = "[4000::1]"  # unused, and it does not look private
_PAGE = b"Content-Type: text/plain\r\nConnection: close\r\nContent-Length: 6\r\n\r\nherons"
HELD = 600.0  # seconds at most that the model waits for a test
_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Marks:
    """The markers that executed calls create."""

    def __init__(self, folder: Path, project: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.url = f"http://127.0.0.1:{port}/page"
        self.proxied = False  # whatever the CLI fetches comes here, and this page is one of it
        self.read = project / "egg.txt"
        self.picture = project / "egg.png"
        self.written = project / "by-tool"
        self.made = project / "by-shell"
        self.fetched = 0
        self.received: Callable[[str], int] = lambda word: (
            0
        )  # how often the model's input contains it
        self._spoken = folder / "speak"
        self._words = (f"heron-{number}-7321" for number in count(1))
        self._word = ""
        self._before = (0, 0)
        folder.mkdir()
        self.picture.write_bytes(_PICTURE)

    def clear(self) -> None:
        """Removes the markers, so that new ones are of the next call."""
        for file in (self.written, self.made, self._spoken):
            file.unlink(missing_ok=True)
        self._word = next(self._words)
        self.read.write_text(f"{self._word}\n")
        self._before = self.fetched, self.received("data:image")

    def left(self, kind: ToolClass) -> bool:
        fetched, seen = self._before
        match kind:
            case "read":
                return self.received(self._word) > 0 or self.received("data:image") > seen
            case "write":
                return self.written.exists()
            case "shell":
                return self.made.exists()
            case "network":
                return self.fetched > fetched
            case "mcp":
                return self._spoken.exists()


@asynccontextmanager
async def marks_for(folder: Path, project: Path) -> AsyncIterator[Marks]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            head = await reader.read(4096)
            asked = not marks.proxied or HOST.encode() in head
            marks.fetched += asked
            if asked and head.startswith(b"CONNECT"):
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                head = await reader.read(4096)
            status = b"200 OK" if asked else b"403 Forbidden"
            if b"HTTP/1" in head:
                writer.write(b"HTTP/1.1 %b\r\n%b" % (status, _PAGE))
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    marks = Marks(folder / "marks", project, server.sockets[0].getsockname()[1])
    try:
        yield marks
    finally:
        server.close()


class Side(Protocol):
    """An agent with a model that runs the test's calls."""

    agent: str
    home: Path
    project: Path
    program: Path
    model: str | None
    options: dict[str, object]
    environment: dict[str, str]
    marks: Marks

    def script(self, name: str, kinds: Sequence[ToolClass], *, held: bool) -> str: ...
    def release(self, name: str) -> None: ...
    def holds(self, name: str) -> bool: ...  # whether the model waits, or has gone on
    def went_on(self, name: str) -> bool: ...  # after the last call, whatever came of it


# A class whose calls cannot run here, so that nothing can be proven of them.
NO_TOOL: dict[tuple[str, ToolClass], str] = {
    ("copilot", "network"): "its web_fetch is there for signed-in users alone, who need the network"
}


def classes(agent: str) -> list[ToolClass]:
    """The classes that it declares to request before every call, and has tools of."""
    return [kind for kind in sorted(load(agent).info.asks) if (agent, kind) not in NO_TOOL]


class RealSide:
    def __init__(self, actor: Actor, double: ModelDouble, marks: Marks) -> None:
        self.agent = actor.agent
        self.home = actor.home
        self.project = actor.project
        self.program = actor.program
        self.model = actor.model
        self.options = dict(actor.stage.options)
        self.marks = marks
        self._actor = actor
        self._double = double
        self._steps: dict[str, int] = {}
        marks.received = self._received
        actor.prepare(double.base_url)
        self.environment = actor.environment(double.base_url)
        if actor.agent == "gemini":  # it fetches nothing from loopback
            proxy = f"http://127.0.0.1:{marks.port}"
            self.environment |= {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy}
            marks.url, marks.proxied = f"http://{HOST}/page", True
        if actor.agent.startswith("claude"):  # else it asks a far server about the host first
            settings = self.home / ".claude" / "settings.json"
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text('{"skipWebFetchPreflight": true}')

    def script(self, name: str, kinds: Sequence[ToolClass], *, held: bool) -> str:
        before = (Say("I begin."), ReplyHold(name, HELD)) if held else ()
        steps = [reply(*before, self._call(kind)) for kind in kinds]
        self._steps[name] = len(steps)
        self._double.scenarios[name] = [*steps, reply(Say("So be it."))]
        return f"@@{name}@@ go"

    def release(self, name: str) -> None:
        self._double.release(name)

    def holds(self, name: str) -> bool:
        return any(turn.scenario == name for turn in self._double.turns)

    def went_on(self, name: str) -> bool:
        steps = self._steps[name]
        return any(t.scenario == name and t.step >= steps for t in self._double.turns)

    def _call(self, kind: ToolClass) -> ModelToolCall:
        stage, marks = self._actor.stage, self.marks
        match kind:
            case "read" if self._actor.lacks("read"):
                return stage.view(marks.picture)
            case "read":
                return stage.read(marks.read)
            case "write":
                return stage.write(marks.written, "x\n")
            case "shell":
                return stage.shell(f"touch {marks.made.name}")
            case "network":
                return stage.fetch(marks.url)
            case "mcp":
                return stage.mcp("gate", "speak", {"text": "x"})

    def _received(self, word: str) -> int:
        reported = (json.dumps(turn.body).count(word) for turn in self._double.turns)
        return max(reported, default=0)


class CursorSide:
    """The stand-in: its model is in the prompt, and it waits for a file."""

    def __init__(self, folder: Path, project: Path, marks: Marks) -> None:
        self.agent = "cursor"
        self.home = folder / "home"
        self.project = project
        self.program = install_cursor(folder / "bin", self.home)
        self.model = None
        self.options: dict[str, object] = {}
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
        }
        self.marks = marks
        self._folder = folder

    def script(self, name: str, kinds: Sequence[ToolClass], *, held: bool) -> str:
        steps: list[dict[str, Any]] = []
        if held:
            steps += [{"touch": self._file(name, "holds")}]
            steps += [{"hold": self._file(name, "released"), "limit": HELD}]
        steps += [self._call(kind) for kind in kinds]
        steps += [{"touch": self._file(name, "over")}, {"say": "So be it."}]
        return f"@@script@@ {json.dumps(steps)}"

    def release(self, name: str) -> None:
        Path(self._file(name, "released")).touch()

    def holds(self, name: str) -> bool:
        return Path(self._file(name, "holds")).exists()

    def went_on(self, name: str) -> bool:
        return Path(self._file(name, "over")).exists()

    def _file(self, name: str, what: str) -> str:
        return str(self._folder / f"{name}.{what}")

    def _call(self, kind: ToolClass) -> dict[str, Any]:
        marks = self.marks
        match kind:
            case "shell":
                return {"shell": f"touch {marks.made.name}"}
            case "write":
                return {"edit": str(marks.written), "content": "x\n"}
            case "mcp":
                names = {"serverIdentifier": "gate", "toolName": "speak"}
                return {"tool": "mcp", "args": {**names, "args": {"text": "x"}}}
        raise AssertionError(f"Cursor's {kind} is not claimed")


def new_project(folder: Path) -> Path:
    project = folder / "project"
    environment = {"PATH": os.defpath, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", "-b", "main", project], env=environment, check=True)
    return project


def tapped(folder: Path, program: Path) -> Path:
    """The program, with a proxy between it and its parent."""
    folder.mkdir()
    script = folder / program.name
    tap = Path(__file__).with_name("gate_tap.py")
    words = f'"{sys.executable}" -S "{tap}" "{folder}" "{program}"'
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
    return script
