"""With every fault of the mock, its turn still ends once and in time."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import tillerman.agents.mock as mock_package
from tests.agents.listening import listening
from tillerman.agents.mock import INFO, agent
from tillerman.agents.mock.program.steps import NEEDS
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Prompt
from tillerman.core.events import AgentExited, MessageChunk, TurnEnded, Unrecognized
from tillerman.core.session_options import session_spec
from tillerman.testing.test_host import PlainHost

SCRIPTS = Path(mock_package.__file__).with_name("scripts")
DONE = TurnEnded(reason="completed")
CANCELLED = TurnEnded(reason="cancelled")
HASTY = StdioAgent(INFO, MockWire, grace=0.3)


def steps(*steps: dict[str, Any]) -> str:
    return json.dumps(steps)


@pytest.mark.parametrize(
    ("crash", "exited"),
    [
        (0, AgentExited(code=0)),
        (3, AgentExited(code=3)),
        ("SIGKILL", AgentExited(signal=9)),
        ("SIGSEGV", AgentExited(signal=11)),
    ],
)
async def test_a_crash_ends_the_turn_as_failed(
    host: PlainHost, project: Path, crash: object, exited: AgentExited
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(steps({"say": "oh"}, {"crash": crash}))
        assert turn[-2] == exited
        ended = turn[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.failure
        assert ended.failure.kind == ("stream_broken" if crash == 0 else "agent_crashed")
        assert mock.text == "oh"


async def test_its_last_stderr_output_is_stored(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.turn("script:crash")
        assert mock.of(AgentExited) == [AgentExited(code=3, detail="mock: about to fall\n")]


async def test_an_agent_that_ignores_stdin_is_killed_with_its_tree(
    host: PlainHost, project: Path
) -> None:
    async with listening(HASTY, session_spec(cwd=project), host) as mock:
        await mock.conversation.prompt(Prompt("script:deaf"))
        await mock.until(lambda: mock.text == "Now I hear nothing.")
        await mock.conversation.cancel()
        await mock.until(lambda: mock.of(TurnEnded))
        assert mock.events[-2:] == [AgentExited(signal=9), CANCELLED]


async def test_an_orphan_that_holds_its_output_blocks_nothing(
    host: PlainHost, project: Path
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.conversation.prompt(Prompt("script:orphan"))
        await mock.until(lambda: mock.text == "I leave somebody behind.")
        left = time.monotonic()
        await mock.until(lambda: mock.of(TurnEnded))
        assert time.monotonic() - left < 1.5


async def test_orphans_are_killed_with_the_host(tmp_path: Path, project: Path) -> None:
    async with (
        PlainHost.open(tmp_path) as host,
        listening(agent, session_spec(cwd=project), host) as mock,
    ):
        await mock.turn(steps({"orphan": 600}, {"run": "exec sleep 0.001", "ask": False}))
        assert sleepers(project) == 1
    deadline = time.monotonic() + 5
    while sleepers(project) and time.monotonic() < deadline:
        time.sleep(0.02)  # noqa: ASYNC251
    assert sleepers(project) == 0


def sleepers(folder: Path) -> int:
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            in_folder = (process / "cwd").readlink() == folder
            count += in_folder and (process / "cmdline").read_text() == "sleep\x00600\x00"
        except OSError:
            continue
    return count


@pytest.mark.parametrize("kind", ["lines", "unbroken", "garbage", "json", "stderr"])
async def test_a_flood_passes_and_the_turn_continues(
    tmp_path: Path, project: Path, kind: str
) -> None:
    async with (
        PlainHost.open(tmp_path, line_cap=1024 * 1024) as host,
        listening(agent, session_spec(cwd=project), host) as mock,
    ):
        turn = await mock.turn(steps({"flood": 2, "of": kind}, {"say": "dry"}), within=60)
        assert turn[-1] == DONE
        assert turn[-3] == MessageChunk(message_id="m1.1", text="dry")
        long = [e.length for e in mock.of(Unrecognized) if isinstance(e, Unrecognized) and e.spill]
        size = 2 * 1024 * 1024
        prefix = len('{"type": "text", "id": "flood", "text": "')
        assert long == {"unbroken": [size], "json": [prefix + size + 2]}.get(kind, [])
        flooded = [e for e in mock.of(MessageChunk) if e.message_id == "flood"]  # type: ignore[attr-defined]
        assert len(flooded) == (2 * (1024 * 1024 // 244) if kind == "lines" else 0)


async def test_unknown_messages_are_stored_and_the_turn_continues(
    host: PlainHost, project: Path
) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn("script:unknown")
        assert [e.raw for e in mock.of(Unrecognized)] == [  # type: ignore[attr-defined]
            '{"type": "from_tomorrow", "n": 1}',
            "not JSON at all",
        ]
        assert turn[-1] == DONE


async def test_a_script_with_a_wrong_step_is_a_failed_turn(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(steps({"dance": True}))
        ended = turn[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.failure
        assert ended.failure.message.startswith('mock: no such step: {"dance": true}; steps are')


WRONG_VALUES: tuple[Any, ...] = (None, 7, {"path": "a.txt"}, [7], "word")

MISBEHAVES = {"crash", "deaf", "flood", "hang", "line", "orphan", "send", "stderr"}


def documented_steps() -> list[str]:
    """The first key of every step that the page names."""
    rows = re.findall(r"^\| (`\{.*?) \|", (SCRIPTS / "README.md").read_text(), re.MULTILINE)
    return [name for row in rows for name in re.findall(r'`\{"(\w+)"', row)]


def test_the_page_names_every_step() -> None:
    assert set(documented_steps()) == set(NEEDS)


@pytest.mark.parametrize("name", sorted({*documented_steps()} - MISBEHAVES))
async def test_a_step_with_a_wrong_or_missing_value_ends_the_turn_and_not_the_mock(
    host: PlainHost, project: Path, name: str
) -> None:
    async with listening(agent, session_spec(cwd=project, approve="auto"), host) as mock:
        for value in WRONG_VALUES:
            turn = await mock.turn(steps({name: value, "ask": False}))
            ended = turn[-1]
            assert isinstance(ended, TurnEnded), (value, ended)
            if ended.failure:
                assert ended.failure.kind == "agent_failed", value
                told = ended.failure.message
                assert f'"{name}"' in told or "Invalid enum value" in told, value
        assert mock.of(AgentExited) == []


async def test_a_step_that_lacks_a_key_is_told_which(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        for step, key in (({"write": "a"}, "text"), ({"edit": "a", "old": "b"}, "new")):
            ended = (await mock.turn(steps(step)))[-1]
            assert isinstance(ended, TurnEnded)
            assert ended.failure
            assert f"it needs `{key}`" in ended.failure.message


async def test_a_failure_of_an_unknown_kind_ends_the_turn(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        turn = await mock.turn(steps({"fail": "boredom"}))
        odd, ended = turn[-2:]
        assert isinstance(odd, Unrecognized)
        assert isinstance(ended, TurnEnded)
        assert ended.failure
        assert ended.failure.kind == "agent_failed"
        assert "boredom" in ended.failure.message


async def test_repeated_steps_are_played_that_often(host: PlainHost, project: Path) -> None:
    async with listening(agent, session_spec(cwd=project), host) as mock:
        await mock.turn(steps({"repeat": 3, "steps": [{"say": "la"}]}))
        assert mock.text == "lalala"
