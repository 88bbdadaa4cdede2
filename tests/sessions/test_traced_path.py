"""The traced paths of a line, a request and a prompt match the drawing; that of a line is short."""

from __future__ import annotations

import asyncio
import re
import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest

import tillerman
from tests.sessions.session_desk import Desk
from tillerman.agents.claude.wire import ClaudeWire
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import AgentInfo, Prompt
from tillerman.core.events import RequestAnswered, ToolFinished
from tillerman.core.session_spec import Approval, SessionSpec
from tillerman.core.wire import Launch, Wire

SOURCE = Path(tillerman.__file__).parent
DRAWING = SOURCE.parents[1] / "ARCHITECTURE.md"

MOST = {"mock": (18, 19), "claude": (23, 37)}  # files and calls from pipe to store

READ, STORED, PUBLISHED = "PipeReader._take", "EventLog.write", "Broadcast.publish"
PROMPTED, WRITTEN = "Session.prompt", "PipeWriter.write"
PARTS = ("agent/", "fallback/", "log/", "runner/", "session.py")
OURS = ("agents/stdio/", *(f"sessions/{part}" for part in PARTS))
STARTS = 0x20 | 0x80 | 0x200  # code flags of a generator, coroutine and asynchronous generator


class Call(NamedTuple):
    caller: str  # a file; empty if the event loop calls
    file: str
    name: str
    resumes: bool  # a generator or coroutine continues: this is no call


class Trace:
    """Records the calls of this thread between the modules of tillerman, from the first one on."""

    def __init__(self, first: str) -> None:
        self.calls: list[Call] = []
        self._first = first

    def start(self) -> None:
        sys.setprofile(self._profile)

    def stop(self) -> None:
        sys.setprofile(None)

    def until(self, name: str) -> list[Call]:
        names = [call.name for call in self.calls]
        return self.calls[: names.index(name) + 1]

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not (file := _file(frame)):
            return
        if not self.calls and frame.f_code.co_qualname != self._first:
            return
        if _outermost(frame).startswith(OURS):
            resumes = bool(frame.f_code.co_flags & STARTS) and frame.f_lasti > 8
            caller = _file(frame.f_back) if frame.f_back else ""
            self.calls.append(Call(caller, file, frame.f_code.co_qualname, resumes))


def _file(frame: FrameType) -> str:
    return _in_source(frame.f_code.co_filename)


@cache
def _in_source(name: str) -> str:
    path = Path(name)
    return str(path.relative_to(SOURCE)) if path.is_relative_to(SOURCE) else ""


def _outermost(frame: FrameType) -> str:
    """The file that the event loop called, which distinguishes this work from other tasks."""
    outermost, at = "", frame.f_back
    while at is not None:
        outermost = _file(at) or outermost
        at = at.f_back
    return outermost or _file(frame)


class PrintingWire(MockWire):
    """The mock's messages, from a program that prints one file after the other."""

    folder: ClassVar[Path]

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return _printing(self.folder)


class PrintingClaudeWire(ClaudeWire):
    """The same program with messages as Claude Code writes them."""

    folder: ClassVar[Path]

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return _printing(self.folder)

    def greet(self) -> list[dict[str, Any]]:
        return []


def _printing(folder: Path) -> Launch:
    steps = ["read prompt", "cat first", _wait("ask"), "cat request", "read answer"]
    steps += [_wait("finish"), "cat second", "read never"]
    return Launch(["sh", "-c", f"cd {folder}; {'; '.join(steps)}"])


def _wait(file: str) -> str:
    return f"while ! [ -e {file} ]; do sleep 0.02; done"


def _written(*messages: dict[str, Any]) -> bytes:
    return b"".join(msgspec.json.encode(message) + b"\n" for message in messages)


def _call(name: str) -> dict[str, Any]:
    return {"type": "call", "id": name, "tool": "run", "input": {"command": "ls"}}


def _result(call: str) -> dict[str, Any]:
    text = {"type": "text", "text": "one line\nand another"}
    return {"type": "result", "call_id": call, "outcome": "completed", "content": [text]}


def _claude_message(kind: str, block: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "role": kind, "content": [block]}
    return {"type": kind, "message": message, "parent_tool_use_id": None, **more}


def _claude_call(name: str) -> dict[str, Any]:
    block = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": "ls"}}
    return _claude_message("assistant", block)


def _claude_result(call: str) -> dict[str, Any]:
    output = "one line\nand another"
    block = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
    details = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    return _claude_message("user", block, tool_use_result=details)


class Traces(NamedTuple):
    prompt: Trace
    request: Trace
    line: Trace


@pytest.fixture
async def traces(desk: Desk, tmp_path: Path) -> Traces:
    """Traces a prompt, a request, and the second of two results, when everything is loaded."""
    request = {**_call("two"), "type": "ask", "request_id": "request", "call_id": "two"}
    (tmp_path / "first").write_bytes(_written(_call("one"), _call("two"), _result("one")))
    (tmp_path / "request").write_bytes(_written(request))
    (tmp_path / "second").write_bytes(_written(_result("two")))
    PrintingWire.folder = tmp_path
    return await _traced(desk, PrintingWire, tmp_path)


@pytest.fixture
async def claude_traces(desk: Desk, tmp_path: Path) -> Traces:
    asked = {"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "two"}
    asked["input"] = {"command": "ls"}
    request = {"type": "control_request", "request_id": "request", "request": asked}
    calls = [_claude_call("one"), _claude_call("two")]
    (tmp_path / "first").write_bytes(_written(*calls, _claude_result("one")))
    (tmp_path / "request").write_bytes(_written(request))
    (tmp_path / "second").write_bytes(_written(_claude_result("two")))
    PrintingClaudeWire.folder = tmp_path
    return await _traced(desk, PrintingClaudeWire, tmp_path)


async def _traced(desk: Desk, wire: type[Wire], folder: Path) -> Traces:
    desk.agent = StdioAgent(AgentInfo("mock", "Mock"), wire)
    spec = SessionSpec(cwd=desk.project, approval=Approval(accept_advisory=True))
    run_settings = desk.run_settings(secrets=[("KEY", "c0ffee-Kx81jQzT7vYwR5u")])
    session = await desk.sessions.start(desk.agent, spec, run_settings)
    traces = Traces(Trace(PROMPTED), Trace(READ), Trace(READ))
    traces.prompt.start()
    await session.prompt("go")
    traces.prompt.stop()
    async with asyncio.timeout(30):
        async for entry in session.entries():
            match entry.event:
                case ToolFinished(call_id="one"):
                    await _begin(traces.request, folder / "ask")
                case RequestAnswered():
                    await _begin(traces.line, folder / "finish")
                case ToolFinished(call_id="two"):
                    traces.line.stop()
                    return traces
    raise AssertionError("the session ended before the second result")


async def _begin(trace: Trace, file: Path) -> None:
    """Starts a trace when all previous entries are durable and published."""
    await asyncio.sleep(0.1)
    trace.start()
    file.touch()


def _crossing(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.caller != call.file]


def _files(calls: list[Call]) -> list[str]:
    return list(dict.fromkeys(call.file for call in calls))


def _drawn(path: str) -> list[str]:
    """The files of a drawing, in its order."""
    section = DRAWING.read_text().split(f"## The path of a {path}")[1].split("```")[1]
    files = re.findall(r"\b[a-z_]+/[a-z_/]+\.py", section)
    assert len(files) > 5
    return [file.replace("agents/claude/", "agents/mock/") for file in files]


@pytest.mark.parametrize("agent", MOST)
def test_a_tool_result_passes_few_files_and_calls_to_the_store(
    agent: str, request: pytest.FixtureRequest
) -> None:
    traces: Traces = request.getfixturevalue("traces" if agent == "mock" else "claude_traces")
    path = traces.line.until(STORED)
    files = _files(path)
    calls = [call for call in _crossing(path) if call.caller and not call.resumes]
    print(f"{agent}: {len(files)} files, {len(calls)} calls from a file to another")
    for call in calls:
        print(f"  {call.caller} -> {call.file} {call.name}")
    most_files, most_calls = MOST[agent]
    assert len(files) <= most_files
    assert len(calls) <= most_calls


def test_secrets_are_searched_once_in_a_tool_result(traces: Traces) -> None:
    calls = traces.line.calls
    searches = [call for call in calls if call.name == "Secrets.spans" and not call.resumes]
    assert len(searches) == 1


def test_the_path_of_a_line_is_drawn_as_it_is_traced(traces: Traces) -> None:
    drawn = _drawn("line")
    assert [file for file in _files(traces.line.until(PUBLISHED)) if file in drawn] == drawn


@pytest.mark.parametrize("path", ["request", "prompt"])
def test_the_paths_to_the_agent_are_drawn_as_they_are_traced(traces: Traces, path: str) -> None:
    trace: Trace = getattr(traces, path)
    traced = iter([call.file for call in trace.until(WRITTEN)])
    for file in _drawn(path):
        assert file in traced, f"{file} is not traced after the files before it"
