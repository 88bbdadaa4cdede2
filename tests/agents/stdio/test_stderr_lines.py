"""A wire that reads stderr gets it while the program runs, between the lines of its stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from tests.agents.listening import listening
from tests.agents.plain import ASKS, PlainWire, python
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.stderr_lines import LONGEST, MOST, StderrLines
from tillerman.core.agent import AgentInfo
from tillerman.core.events import Event, MessageChunk, Notice
from tillerman.testing.test_host import PlainHost


class ReadingWire(PlainWire):
    def decode_stderr(self, line: str) -> Iterable[Event]:
        if line.startswith("retry"):
            yield Notice(level="warning", kind="retry", text=line)


READING = StdioAgent(AgentInfo("plain", "Plain", asks=ASKS), ReadingWire, grace=0.5)


async def test_stderr_reports_are_decoded_before_the_stream_continues(
    host: PlainHost, project: Path
) -> None:
    program = """
sys.stdin.readline()
print("other", file=sys.stderr)
print("retry 1", file=sys.stderr)
while not os.path.exists("go"): time.sleep(0.01)
print(json.dumps({"say": "Done."}))
print(json.dumps({"end": "completed"}))
sys.stdin.readline()
"""
    async with listening(READING, python(program, project), host) as agent:
        turn = asyncio.create_task(agent.turn("go"))
        await agent.until(lambda: agent.of(Notice))
        assert agent.of(MessageChunk) == []
        (project / "go").touch()
        await turn
        assert agent.of(Notice) == [Notice(level="warning", kind="retry", text="retry 1")]
        assert agent.text == "Done."


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_lines_are_the_same_however_they_are_chunked(size: int) -> None:
    data = "one\ntwö\n\nthree four\n".encode()
    lines = StderrLines()
    for start in range(0, len(data), size):
        lines.feed(data[start : start + size])
    assert asyncio.run(_all_of(lines)) == ["one", "twö", "", "three four"]


def test_neither_a_long_line_nor_many_lines_fill_the_memory() -> None:
    lines = StderrLines()
    for _ in range(1000):
        lines.feed(b"x" * 1000)
    lines.feed(b"\n" * (MOST + 10))
    found = asyncio.run(_all_of(lines))
    assert (len(found), len(found[0])) == (MOST, LONGEST)


async def _all_of(lines: StderrLines) -> list[str]:
    over = asyncio.Event()

    async def batches() -> AsyncIterator[list[bytes]]:
        await over.wait()
        yield []

    found: list[str] = []
    async for one in lines.beside(batches()):
        if isinstance(one, str):
            found.append(one)
        if lines.waiting == 0:
            over.set()
    return found
