"""`tillerman run` as a user starts it, with the real Claude Code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.real.claude_desk import (
    KEY,
    agent_text,
    check_log,
    ends,
    no_process_left,
    of,
    processes_with,
    until_true,
)
from tests.real.real_claude import RealClaude
from tillerman.core.events import (
    Entry,
    MessageChunk,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
    decode_entry,
)
from tillerman.testing.model_double.anthropic import user_text
from tillerman.testing.model_double.script import Fail, ModelToolCall, ReplyHold, Say, Usage, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

BUSY = ModelToolCall("Bash", {"command": "while :; do sleep 0.2; done", "description": "be busy"})


class Ran(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def log(self) -> list[Entry]:
        return [decode_entry(line) for line in self.stdout.splitlines()]


class Shell:
    """A user's shell in the project, with a scripted model."""

    def __init__(self, claude: RealClaude, double: ModelDouble, folder: Path) -> None:
        self.claude = claude
        self.double = double
        self.environment = claude.environment(
            double.base_url,
            ANTHROPIC_API_KEY=KEY,
            TILLERMAN_HOME=str(folder / "tillerman"),
            TILLERMAN_AGENTS_CLAUDE_BINARY=str(claude.program),
        )

    async def start(self, *words: str, **environment: str) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tillerman", *words,
            cwd=self.claude.project,
            env=self.environment | environment,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )  # fmt: skip

    async def run(self, *words: str, **environment: str) -> Ran:
        return await finish(await self.start(*words, **environment))

    def busy(self) -> list[str]:
        """The processes of the command that never ends."""
        home = f"HOME={self.claude.home}"
        return [line for line in processes_with(home) if "sleep 0.2" in line]


async def finish(process: Process) -> Ran:
    async with asyncio.timeout(30):
        stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, stdout.decode(), stderr.decode())


@pytest.fixture
async def shell(claude: RealClaude, double: ModelDouble, tmp_path: Path) -> AsyncIterator[Shell]:
    yield Shell(claude, double, tmp_path)
    await no_process_left(claude)


async def test_the_answer_is_printed_and_the_exit_code_is_0(shell: Shell) -> None:
    shell.double.scenarios["hello"] = [reply(Say("Hello from the script."))]

    ran = await shell.run("run", "-a", "claude", "@@hello@@ greet me")

    assert ran.code == 0, ran.stderr
    assert "Hello from the script." in ran.stdout
    assert "greet me" in user_text(shell.double.turns[0].body)


async def test_with_json_every_entry_is_a_line_and_the_same_as_in_the_store(shell: Shell) -> None:
    target = shell.claude.project / "made.txt"
    write = ModelToolCall("Write", {"file_path": str(target), "content": "x\n"}, id="toolu_w")
    shell.double.scenarios["write"] = [reply(write), reply(Say("Written.", chunks=4))]

    ran = await shell.run("run", "-a", "claude", "--json", "--approve", "edits", "@@write@@")
    stored = await shell.run("sessions", "show", "last", "--json")

    assert ran.code == 0, ran.stderr
    check_log(stored.log)
    assert ran.log == stored.log[: len(ran.log)]
    assert len(of(ran.log, MessageChunk)) == 4
    assert (agent_text(ran.log), target.read_text()) == ("Written.", "x\n")
    assert ends(ran.log) == [TurnEnded(reason="completed")]
    assert KEY not in ran.stdout + ran.stderr + stored.stdout


async def test_the_summary_reports_the_result_of_the_turn(shell: Shell, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(
        json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    )
    shell.double.scenarios["schema"] = [
        reply(ModelToolCall("StructuredOutput", {"n": 7})),
        reply(Say("Told.")),
    ]

    ran = await shell.run(
        "run", "-a", "claude", "--json=summary", f"--output-schema={schema}", "@@schema@@"
    )

    assert ran.code == 0, ran.stderr
    *_, last = (json.loads(line) for line in ran.stdout.splitlines())
    assert last["type"] == "result"
    assert (last["status"], last["output"]) == ("completed", {"n": 7})


async def test_it_does_not_end_before_background_work_has_woken_the_agent(
    shell: Shell,
) -> None:
    task = {
        "description": "look around",
        "prompt": "@@child@@ look around",
        "subagent_type": "general-purpose",
        "run_in_background": True,
    }
    shell.double.scenarios |= {
        "parent": [
            reply(ModelToolCall("Agent", task)),
            reply(Say("It is under way.")),
            reply(Say("It is done.")),
        ],
        "child": [reply(ReplyHold("main turn is over"), Say("Seen all of it."))],
    }

    process = await shell.start("run", "-a", "claude", "--json", "--approve", "auto", "@@parent@@")
    await shell.double.seen("parent", 1, within=20)
    await asyncio.sleep(0.5)  # time to end too early
    assert process.returncode is None
    shell.double.release("main turn is over")
    ran = await finish(process)

    assert ran.code == 0, ran.stderr
    assert [event.origin for event in of(ran.log, TurnStarted)] == ["prompt", "agent"]
    assert (agent_text(ran.log, 1), agent_text(ran.log, 2)) == ("It is under way.", "It is done.")


async def test_a_second_run_continues_the_first_and_a_third_a_copy(shell: Shell) -> None:
    shell.double.scenarios["resume"] = [reply(Say(text)) for text in ("One.", "Two.", "Three.")]

    first = await shell.run("run", "-a", "claude", "--json", "@@resume@@ remember the heron")
    second = await shell.run("run", "-c", "--json", "and the crane")
    third = await shell.run("run", "--resume", "last", "--fork", "--json", "in a copy")

    assert [first.code, second.code, third.code] == [0, 0, 0], third.stderr
    assert [agent_text(ran.log, ran.log[-1].turn) for ran in (first, second, third)] == [
        "One.",
        "Two.",
        "Three.",
    ]
    sessions = [ran.log[-1].session for ran in (first, second, third)]
    assert sessions[0] == sessions[1] != sessions[2]
    reported = user_text(shell.double.turns[-1].body)
    assert "remember the heron" in reported and "and the crane" in reported


@pytest.mark.parametrize(
    ("fail", "code"), [(Fail(500), 1), (Fail(401), 3)], ids=["500 is 1", "401 is 3"]
)
async def test_a_failed_turn_has_an_exit_code_and_a_hint(
    shell: Shell, fail: Fail, code: int
) -> None:
    shell.double.scenarios["error"] = [fail]

    ran = await shell.run("run", "-a", "claude", "@@error@@")

    assert ran.code == code
    assert str(fail.status) in ran.stdout + ran.stderr


async def test_an_agent_that_is_not_installed_is_exit_code_3(shell: Shell) -> None:
    ran = await shell.run(
        "run", "-a", "claude", "hello", TILLERMAN_AGENTS_CLAUDE_BINARY="no-such-program"
    )

    assert ran.code == 3
    assert "not installed" in ran.stderr
    assert "npm install" in ran.stderr


@pytest.mark.parametrize("limit", ["--max-turns=1", "--max-cost=0.5"])
async def test_a_limit_is_exit_code_5(shell: Shell, limit: str) -> None:
    call = ModelToolCall("Bash", {"command": "echo on", "description": "on"})
    dear = Usage(input=500_000, output=50_000)
    shell.double.scenarios["long"] = [reply(call, usage=dear)] * 3

    ran = await shell.run("run", "-a", "claude", "--json", "--approve=auto", limit, "@@long@@")

    assert ran.code == 5, ran.stderr
    assert len(shell.double.turns) == 1
    assert of(ran.log, UsageReported)


async def test_out_of_time_is_exit_code_124(shell: Shell) -> None:
    shell.double.scenarios["hang"] = [reply(Say("It begins", chunks=1), ReplyHold("never"))]

    ran = await shell.run("run", "-a", "claude", "--json", "--timeout=4", "@@hang@@")

    assert ran.code == 124, ran.stderr
    [end] = ends(ran.log)
    assert end.failure and end.failure.kind == "timed_out"


async def test_an_interrupt_in_a_command_is_exit_code_130_and_leaves_nothing(
    shell: Shell,
) -> None:
    shell.double.scenarios["busy"] = [reply(BUSY), reply(Say("never said"))]

    process = await shell.start("run", "-a", "claude", "--json", "--approve=auto", "@@busy@@")
    await until_true(lambda: bool(shell.busy()))
    process.send_signal(signal.SIGINT)
    ran = await finish(process)

    assert ran.code == 130, ran.stderr
    assert ends(ran.log) == [TurnEnded(reason="cancelled")]


async def test_a_killed_harness_leaves_no_process_and_the_next_run_ends_its_turn(
    shell: Shell,
) -> None:
    shell.double.scenarios |= {
        "busy": [reply(BUSY), reply(Say("never said"))],
        "next": [reply(Say("Still here."))],
    }

    process = await shell.start("run", "-a", "claude", "--json", "--approve=auto", "@@busy@@")
    await until_true(lambda: bool(shell.busy()))
    os.kill(process.pid, signal.SIGKILL)
    printed = (await finish(process)).log
    await no_process_left(shell.claude)
    again = await shell.run("run", "-c", "--json", "@@next@@")
    stored = (await shell.run("sessions", "show", "last", "--json")).log

    assert of(printed, ToolStarted)
    assert stored[: len(printed)] == printed
    check_log(stored)
    first, second = ends(stored)
    assert first.failure and first.failure.kind == "harness_died"
    assert second == TurnEnded(reason="completed")
    assert (again.code, agent_text(again.log)) == (0, "Still here.")
