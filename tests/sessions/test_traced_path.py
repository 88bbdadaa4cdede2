"""The path of a tool result from the agent's pipe to the store, as traced: short, and as drawn."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest
from session_desk import Desk

import tillerman
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import AgentInfo, Prompt, SessionSpec
from tillerman.core.events import ToolFinished
from tillerman.core.wire import Launch

SOURCE = Path(tillerman.__file__).parent
DRAWING = SOURCE.parents[1] / "ARCHITECTURE.md"

MOST_FILES = 22
MOST_CALLS = 30

FIRST, LAST, PUBLISHED = "PipeReader._take", "EventLog.write", "Broadcast.publish"
STARTS = 0x20 | 0x80 | 0x200  # code flags of a generator, coroutine and asynchronous generator


class Call(NamedTuple):
    caller: str  # a file; empty if the event loop calls
    file: str
    name: str
    resumes: bool  # a generator or coroutine continues: this is no call


class Trace:
    """Records the calls of this thread between the modules of tillerman, for one line."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def start(self) -> None:
        sys.setprofile(self._profile)

    def stop(self) -> None:
        sys.setprofile(None)

    def until(self, name: str) -> list[Call]:
        names = [call.name for call in self.calls]
        return self.calls[: names.index(name) + 1]

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        file = _file(frame)
        if event != "call" or not file:
            return
        if not self.calls and frame.f_code.co_qualname != FIRST:
            return
        if _outermost(frame).startswith(("agents/stdio/", "sessions/agent/", "sessions/log/")):
            resumes = bool(frame.f_code.co_flags & STARTS) and frame.f_lasti > 8
            caller = _file(frame.f_back) if frame.f_back else ""
            self.calls.append(Call(caller, file, frame.f_code.co_qualname, resumes))


def _file(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return str(path.relative_to(SOURCE)) if path.is_relative_to(SOURCE) else ""


def _outermost(frame: FrameType) -> str:
    """The file that the event loop called, which tells the line's work from that of others."""
    outermost, at = "", frame
    while at is not None:
        outermost = _file(at) or outermost
        at = at.f_back  # type: ignore[assignment]
    return outermost


class PrintingWire(MockWire):
    """The mock's messages, from a program that prints one file after the other."""

    folder: ClassVar[Path]

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        wait = f"while ! [ -e {self.folder}/go ]; do sleep 0.02; done"
        printed = f"read prompt; cat {self.folder}/first; {wait}; cat {self.folder}/second"
        return Launch(["sh", "-c", f"{printed}; read never"])


def _written(*messages: dict[str, Any]) -> bytes:
    return b"".join(msgspec.json.encode(message) + b"\n" for message in messages)


def _result(call: str) -> dict[str, Any]:
    text = {"type": "text", "text": "one line\nand another"}
    return {"type": "result", "call_id": call, "outcome": "completed", "content": [text]}


@pytest.fixture
async def trace(desk: Desk, tmp_path: Path) -> Trace:
    """Traces the second of two results, when everything is loaded."""
    calls = [
        {"type": "call", "id": call, "tool": "run", "input": {"command": "ls"}}
        for call in ("one", "two")
    ]
    (tmp_path / "first").write_bytes(_written(*calls, _result("one")))
    (tmp_path / "second").write_bytes(_written(_result("two")))
    PrintingWire.folder = tmp_path
    desk.agent = StdioAgent(AgentInfo("mock", "Mock"), PrintingWire)
    spec = SessionSpec(cwd=desk.project, accept_advisory=True)
    terms = desk.terms(secrets=[("KEY", "c0ffee-Kx81jQzT7vYwR5u")])
    session = await desk.sessions.start(desk.agent, spec, terms)
    await session.prompt("go")
    trace = Trace()
    async with asyncio.timeout(30):
        async for entry in session.entries():
            match entry.event:
                case ToolFinished(call_id="one"):
                    await asyncio.sleep(0.1)  # until the first result is durable and published
                    trace.start()
                    (tmp_path / "go").touch()
                case ToolFinished(call_id="two"):
                    trace.stop()
                    return trace
    raise AssertionError("the session ended before the second result")


def _crossing(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.caller != call.file]


def _files(calls: list[Call]) -> list[str]:
    return list(dict.fromkeys(call.file for call in calls))


def _drawn() -> Iterator[str]:
    """The files of the drawing, from the pipe to the readers."""
    section = DRAWING.read_text().split("## The path of a line")[1].split("```")[1]
    for file in re.findall(r"\b[a-z_]+/[a-z_/]+\.py", section):
        yield file.replace("agents/claude/", "agents/mock/")


def test_a_tool_result_passes_few_files_and_calls_to_the_store(trace: Trace) -> None:
    path = trace.until(LAST)
    files = _files(path)
    calls = [call for call in _crossing(path) if call.caller and not call.resumes]
    print(f"{len(files)} files, {len(calls)} calls from a file to another")
    for call in calls:
        print(f"  {call.caller} -> {call.file} {call.name}")
    assert len(files) <= MOST_FILES
    assert len(calls) <= MOST_CALLS


def test_secrets_are_searched_once_in_a_tool_result(trace: Trace) -> None:
    searches = [call for call in trace.calls if call.name == "Secrets.spans" and not call.resumes]
    assert len(searches) == 1


def test_the_path_of_a_line_is_drawn_as_it_is_traced(trace: Trace) -> None:
    drawn = list(_drawn())
    traced = _files(trace.until(PUBLISHED))
    assert len(drawn) > 5
    assert [file for file in traced if file in drawn] == drawn
