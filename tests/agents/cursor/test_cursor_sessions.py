"""Whole sessions with Cursor's stand-in: what is reported, what is stored, what is unchanged."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests import CHECKOUT
from tests.agents.cursor.cursor_desk import MODEL, Desk, perform, script
from tests.stand_ins.warm_python import run_tillerman
from tillerman.agents import load
from tillerman.core.agent import File
from tillerman.core.errors import AgentError, AgentNotInstalled, Unsupported
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    Diff,
    Entry,
    FileChange,
    FilesChanged,
    MessageChunk,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.sessions.run_settings import UntilSettings
from tillerman.sessions.session import Session

DONE = TurnEnded(reason="completed")
CANCELLED = TurnEnded(reason="cancelled")


async def prompted(session: Session, prompt: str) -> list[Entry]:
    return [entry async for entry in session.run(prompt)]


def of(entries: list[Entry], kind: type) -> list[Any]:
    return [entry.event for entry in entries if isinstance(entry.event, kind)]


def agent_text(entries: list[Entry]) -> str:
    return "".join(chunk.text for chunk in of(entries, MessageChunk))


def end(entries: list[Entry]) -> TurnEnded:
    (ended,) = of(entries, TurnEnded)
    assert isinstance(ended, TurnEnded)
    return ended


async def until(session: Session, kind: type) -> Any:
    async with asyncio.timeout(10):
        async for entry in session.entries():
            if isinstance(entry.event, kind):
                return entry.event
    raise AssertionError(f"no {kind.__name__}")


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def alive(word: str) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if word.encode() in command_line(pid)]


def below(pid: int) -> list[int]:
    parents = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            parent = path.read_text().rpartition(") ")[2].split()[1]
            parents.append((int(path.parent.name), int(parent)))
    found = [pid]
    for one in found:
        found += [child for child, parent in parents if parent == one]
    return found[1:]


def wait_until(condition: Callable[[], object], within: float = 10) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# -- turns -----------------------------------------------------------------------------------------


async def test_a_turn_streams_thoughts_and_text_and_reports_usage(desk: Desk) -> None:
    session = await desk.start()
    entries = await prompted(session, "hello")
    events = [entry.event for entry in entries]
    ready = of(entries, AgentReady)[0]
    assert ready.model == "Auto"
    assert "".join(one.text for one in of(entries, ThoughtChunk)) == (
        "The user wants a one-sentence greeting."
    )
    assert len(of(entries, MessageChunk)) > 3
    assert agent_text(entries) == "Hello, and welcome to the project."
    assert of(entries, Unrecognized) == []
    assert events[-3:] == [
        UsageReported(input_tokens=102, output_tokens=16, cached_tokens=18432),
        AgentExited(code=0),
        DONE,
    ]


async def test_the_tools_do_what_they_report(desk: Desk) -> None:
    (desk.project / "old.txt").write_text("old\n")
    (desk.project / "greet.py").write_text("Helo\n")
    session = await desk.start()
    entries = await perform(
        session,
        {"say": "Looking."},
        {"read": "greet.py"},
        {"tool": "grep", "args": {"pattern": "Hel"}},
        {"tool": "ls", "args": {"path": "."}},
        {"edit": "greet.py", "content": "Hello\n"},
        {"edit": "new.txt", "content": "new\n"},
        {"delete": "old.txt"},
        {"shell": "cat greet.py"},
        {"shell": "echo no >&2; exit 3"},
        {"say": "Done."},
    )
    cwd = desk.project
    finished = of(entries, ToolFinished)
    assert [(one.outcome, one.content) for one in finished] == [
        ("completed", (Text("Helo\n"),)),
        ("completed", (Text("greet.py:1:Helo"),)),
        ("completed", (Text("greet.py\nold.txt"),)),
        ("completed", (Diff(f"{cwd}/greet.py", patch="@@ -1 +1 @@\n-Helo\n+Hello\n"),)),
        ("completed", (Diff(f"{cwd}/new.txt", patch="@@ -0,0 +1 @@\n+new\n"),)),
        ("completed", (Diff(f"{cwd}/old.txt", old="old\n"),)),
        ("completed", (Text("Hello\n"),)),
        ("failed", (Text("no\n"), Text("exit code 3"))),
    ]
    assert of(entries, FilesChanged) == [
        FilesChanged(
            files=(
                FileChange("greet.py", "modified", added=1, removed=1),
                FileChange("new.txt", "added", added=1, removed=0),
                FileChange("old.txt", "deleted", added=0, removed=1),
            )
        )
    ]
    assert (agent_text(entries), end(entries)) == ("Looking.Done.", DONE)


@pytest.mark.parametrize("recording", ["tools_partial", "tool_failed", "subagent", "plan_mode"])
async def test_a_recorded_turn_is_replayed_as_recorded(desk: Desk, recording: str) -> None:
    session = await desk.start()
    entries = await prompted(session, f"@@{recording}@@")
    assert of(entries, Unrecognized) == []
    assert end(entries) == DONE
    started = {one.call_id for one in of(entries, ToolStarted)}
    assert started == {one.call_id for one in of(entries, ToolFinished)}
    if recording == "tools_partial":
        assert (desk.project / "NOTES.md").read_text() == "Fixed the spelling of the greeting.\n"


async def test_a_conversation_continues_in_the_next_process_and_the_next_session(
    desk: Desk,
) -> None:
    session = await desk.start()
    await prompted(session, "Remember the word banana.")
    again = await prompted(session, "@@recall@@")
    assert agent_text(again) == "You began with: Remember the word banana."
    native = of(again, AgentReady)[0].native_id
    await session.close()
    resumed = await desk.resume(session.id)
    later = await prompted(resumed, "@@recall@@")
    assert agent_text(later) == "You began with: Remember the word banana."
    assert of(later, AgentReady)[0].native_id == native


async def test_a_conversation_unknown_to_cursor_is_not_restarted(desk: Desk) -> None:
    session = await desk.start()
    await prompted(session, "hello")
    other = await desk.start(resume="5f0c0001-0000-4000-8000-000000000000")
    with pytest.raises(AgentError, match="has no conversation 5f0c0001"):
        await other.prompt("hello")


async def test_a_conversation_started_over_acp_continues_over_acp_only(desk: Desk) -> None:
    await prompted(await desk.start(), "hello")
    by_acp = await desk.sessions.start(load("cursor-acp"), desk.spec(), desk.run_settings("auto"))
    entries = await prompted(by_acp, "Run echo hello, then create probe.txt.")
    assert end(entries) == DONE
    assert (desk.project / "probe.txt").read_text() == "probe"
    native_id = next(iter(desk.sessions.catalog.native_ids(by_acp.id)))
    session = await desk.start(resume=native_id)
    with pytest.raises(AgentError) as caught:
        await session.prompt("hello")
    assert caught.value.hint == "resume a conversation started over ACP with -a cursor-acp"


# -- ends ------------------------------------------------------------------------------------------


FAILURES = [
    (
        script({"say": "Trying."}, {"error": "The model provider returned an error."}),
        Failure(
            kind="api_error",
            message="The model provider returned an error.",
            hint="try again in a moment",
        ),
    ),
    (
        "@@usage_limit@@",
        Failure(
            kind="billing",
            message="ActionRequiredError: You've hit your usage limit. Switch to a different model"
            " or set a Spend Limit to continue.",
            hint="wait for the next cycle, or use another agent or model",
        ),
    ),
    (
        script({"say": "Half a"}, {"stop": True}),
        Failure(
            kind="stream_broken",
            message="the agent exited without a result (exit code 0)",
            hint="try again; `tillerman sessions show ID --json` shows its last output",
        ),
    ),
    (
        script({"say": "Half a"}, {"shell": "true"}, {"die": 9}),
        Failure(
            kind="agent_crashed",
            message="the agent exited without a result (signal 9)",
            hint="try again; `tillerman sessions show ID --json` shows its last output",
        ),
    ),
]


@pytest.mark.parametrize(("prompt", "failure"), FAILURES)
async def test_a_turn_that_fails_gives_the_reason_and_the_next_one_works(
    desk: Desk, prompt: str, failure: Failure
) -> None:
    session = await desk.start()
    assert end(await prompted(session, prompt)) == TurnEnded(reason="failed", failure=failure)
    assert end(await prompted(session, "hello")) == DONE


async def test_signed_out_is_reported_with_the_next_step(desk: Desk) -> None:
    (desk.home / ".config" / "cursor" / "auth.json").unlink()
    session = await desk.start()
    assert end(await prompted(session, "hello")) == TurnEnded(
        reason="failed",
        failure=Failure(
            kind="not_signed_in",
            message="Authentication required. Please run 'agent login' first,"
            " or set CURSOR_API_KEY environment variable.",
            hint="run `cursor-agent login` or set CURSOR_API_KEY",
        ),
    )


async def test_an_unknown_model_is_reported_without_the_two_hundred_known_ones(desk: Desk) -> None:
    session = await desk.start(model="no-such-model")
    assert end(await prompted(session, "hello")) == TurnEnded(
        reason="failed",
        failure=Failure(
            kind="model_not_found",
            message="Cannot use this model: no-such-model.",
            hint="`tillerman models -a cursor` lists the models",
        ),
    )
    assert json.loads(desk.config.read_text()) == MODEL


async def test_it_is_not_installed_before_any_turn_begins(desk: Desk) -> None:
    desk.environment["PATH"] = "/usr/bin:/bin"
    session = await desk.start()
    with pytest.raises(AgentNotInstalled):
        await session.prompt("hello")
    assert session.last_seq == 0


async def test_a_missing_folder_fails_the_turn(desk: Desk) -> None:
    session = await desk.start()
    await prompted(session, "hello")
    shutil.rmtree(desk.project)
    failure = end(await prompted(session, "hello")).failure
    assert failure is not None
    assert failure.message.startswith("the agent could not be started: No such file")


async def test_an_unsupported_file_is_refused_before_any_turn_begins(desk: Desk) -> None:
    session = await desk.start()
    picture = File("a.png", "image/png", b"\x89PNG\xff")
    with pytest.raises(Unsupported, match=r"attachments of type image/png \(a.png\)"):
        await session.prompt("look", files=[picture])
    assert session.last_seq == 0
    notes = File("notes.txt", "text/plain", b"one\n")
    await session.prompt("@@prompt@@", files=[notes])
    await session.idle()
    assert session.result().text == '<file name="notes.txt">\none\n\n</file>\n\n@@prompt@@'


async def test_a_turn_cancelled_in_mid_text_keeps_its_text(desk: Desk) -> None:
    session = await desk.start()
    await session.prompt(script({"say": "Now."}, {"wait": 600}, {"say": "Never."}))
    await until(session, MessageChunk)
    await session.cancel()
    await session.idle()
    entries = [entry async for entry in session.until_idle()]
    assert (agent_text(entries), end(entries)) == ("Now.", CANCELLED)
    assert of(entries, AgentExited) == [AgentExited(code=130, detail="Aborting operation...\n")]
    assert agent_text(await prompted(session, "@@recall@@")).startswith(
        "You began with: @@script@@"
    )


async def test_a_turn_cancelled_in_a_command_leaves_no_process(desk: Desk) -> None:
    session = await desk.start()
    mark = f"600.{os.getpid()}{time.monotonic_ns() % 10_000_000}"
    await session.prompt(script({"shell": f"sleep {mark} & sleep {mark}"}))
    await until(session, ToolStarted)
    await asyncio.to_thread(wait_until, lambda: len(alive(mark)) >= 3)  # the shell and its two
    await session.cancel()
    await session.idle()
    await asyncio.to_thread(wait_until, lambda: not alive(mark))
    entries = [entry async for entry in session.until_idle()]
    assert end(entries) == CANCELLED


# -- the user's own files --------------------------------------------------------------------------


async def test_the_users_model_and_permissions_stay_as_they_are(desk: Desk) -> None:
    own = {**MODEL, "permissions": {"allow": ["Shell(ls)"], "deny": ["Shell(rm)"]}, "x": 1}
    desk.config.write_text(json.dumps(own))
    session = await desk.start(model="composer-2.5-fast")
    entries = await prompted(session, "@@config@@")
    assert of(entries, AgentReady)[0].model == "Composer 2.5 Fast"
    seen = json.loads(agent_text(entries))
    assert seen["model"] == {"modelId": "composer-2.5-fast"}
    assert seen["x"] == 1
    assert seen["permissions"]["allow"] == ["Shell(ls)"]
    assert seen["permissions"]["deny"][0] == "Shell(rm)"
    await session.configure(model="gemini-3.1-pro")
    assert of(await prompted(session, "hello"), AgentReady)[0].model == "Gemini 3.1 Pro"
    assert json.loads(desk.config.read_text()) == own


async def test_a_system_prompt_is_a_rule_for_the_turn_and_removed_after_it(desk: Desk) -> None:
    session = await desk.start(system="Speak like a pirate.")
    for _ in range(2):
        entries = await prompted(session, "@@rules@@")
        assert agent_text(entries) == "Speak like a pirate.\n"
        assert not (desk.project / "AGENTS.md").exists()
        assert of(entries, FilesChanged) == []


async def test_the_projects_own_rules_stay_and_the_system_prompt_goes_with_the_prompt(
    desk: Desk,
) -> None:
    (desk.project / "AGENTS.md").write_text("Ours.\n")
    session = await desk.start(system="Speak like a pirate.")
    assert agent_text(await prompted(session, "@@rules@@")) == "Ours.\n"
    assert agent_text(await prompted(session, "@@prompt@@ go")) == (
        "<instructions>\nSpeak like a pirate.\n</instructions>\n\n@@prompt@@ go"
    )
    assert (desk.project / "AGENTS.md").read_text() == "Ours.\n"


async def test_rules_changed_by_the_agent_are_left(desk: Desk) -> None:
    session = await desk.start(system="Speak like a pirate.")
    await perform(session, {"edit": "AGENTS.md", "content": "Mine.\n"})
    assert (desk.project / "AGENTS.md").read_text() == "Mine.\n"


async def test_mcp_servers_exist_for_the_turn_alone(desk: Desk) -> None:
    session = await desk.start(servers={"issues": {"command": "issues-mcp"}})
    entries = await perform(session, {"shell": "cat .cursor/mcp.json"})
    assert of(entries, ToolFinished)[0].content == (
        Text('{"mcpServers": {"issues": {"command": "issues-mcp"}}}'),
    )
    assert not (desk.project / ".cursor").exists()


async def test_mcp_servers_beside_the_projects_own_are_refused_before_the_turn(desk: Desk) -> None:
    own = desk.project / ".cursor" / "mcp.json"
    own.parent.mkdir()
    own.write_text("{}")
    session = await desk.start(servers={"issues": {"command": "issues-mcp"}})
    with pytest.raises(AgentError, match=r"needs to create a file that already exists"):
        await session.prompt("hello")
    assert (own.read_text(), session.last_seq) == ("{}", 0)


RUN = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {path!r})
from tests.agents.cursor.cursor_desk import Desk, script

async def main(desk):
    session = await desk.start(system="Speak like a pirate.")
    await session.prompt(script({{"say": "Here."}}, {{"shell": "sleep 600"}}))
    async for entry in session.entries():
        print(entry.event, flush=True)

asyncio.run(main(Desk(Path({folder!r}))))
"""


@pytest.mark.parametrize("victim", ["harness", "agent"])
def test_a_kill_in_mid_turn_leaves_no_rules_behind(tmp_path: Path, victim: str) -> None:
    folder = tmp_path / "killed"
    program = [
        "timeout",
        "60",
        sys.executable,
        "-c",
        RUN.format(path=str(CHECKOUT), folder=str(folder)),
    ]
    rules = folder / "project" / "AGENTS.md"
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout
        lines = iter(harness.stdout.readline, "")
        assert any(line.startswith("ToolStarted") for line in lines)
        assert rules.read_text() == "Speak like a pirate.\n"
        if victim == "agent":
            agent = next(pid for pid in below(harness.pid) if b"cursor_agent" in command_line(pid))
            os.kill(agent, signal.SIGKILL)
            assert any(line.startswith("TurnEnded") for line in lines)
            assert not rules.exists()
        for pid in below(harness.pid)[:1]:  # what `timeout` started
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not rules.exists())


async def test_a_prompt_that_is_not_read_can_be_cancelled(desk: Desk) -> None:
    deaf = desk.project.parent / "bin" / "cursor-agent"
    deaf.write_text("#!/bin/sh\nexec sleep 600\n")
    session = await desk.start()
    async with asyncio.timeout(10):
        await session.prompt("x" * 1_000_000)
        await until(session, TurnStarted)
        await session.cancel()
        await session.idle()
    entries = [entry async for entry in session.until_idle()]
    assert end(entries) == CANCELLED


# -- the command line ------------------------------------------------------------------------------


def tillerman(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**desk.environment, "TILLERMAN_HOME": str(desk.home / "tillerman")}
    return run_tillerman(words, cwd=desk.project, env=env)


async def test_the_command_line_runs_it(desk: Desk) -> None:
    prompt = script({"edit": "a.txt", "content": "x\n"}, {"say": "Written."})
    words = ["run", "-a", "cursor", "--approve", "edits", prompt]
    ran = await asyncio.to_thread(tillerman, desk, *words)
    assert ran.returncode == 0, ran.stderr
    assert "Written." in ran.stdout
    assert (desk.project / "a.txt").read_text() == "x\n"


async def test_the_command_line_has_a_hint_when_no_account_is_signed_in(desk: Desk) -> None:
    (desk.home / ".config" / "cursor" / "auth.json").unlink()
    ran = await asyncio.to_thread(tillerman, desk, "run", "-a", "cursor", "hello")
    assert ran.returncode == 3
    assert "run `cursor-agent login` or set CURSOR_API_KEY" in ran.stderr + ran.stdout


async def test_it_continues_the_same_conversation_until_a_check_succeeds(desk: Desk) -> None:
    check = "echo x >> ../n; test $(grep -c x ../n) = 3"
    run_settings = replace(desk.run_settings("auto"), until=UntilSettings(check))
    session = await desk.sessions.start(desk.agent, desk.spec(), run_settings)
    entries = await prompted(session, "hello")
    assert [one.origin for one in of(entries, TurnStarted)] == ["prompt"] * 3
    assert of(entries, TurnEnded) == [DONE] * 3
    assert len({one.native_id for one in of(entries, AgentReady)}) == 1
