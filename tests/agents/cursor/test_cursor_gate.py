"""Whole sessions with Cursor's stand-in, whose hooks request approval: only answers count."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import CHECKOUT
from tests.agents.cursor.cursor_desk import OLDER, Desk, perform, script
from tests.stand_ins.cursor_stand_in import install_cursor
from tests.stand_ins.warm_python import run_tillerman
from tillerman.core.events import (
    Answer,
    Entry,
    Notice,
    PermissionRequested,
    RequestAnswered,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Unrecognized,
)
from tillerman.hooks import server
from tillerman.sessions.run_settings import TurnLimits
from tillerman.sessions.session import Session
from tillerman.testing.scenario import agent_text, call, end, of, play, shown, until

DONE = TurnEnded(reason="completed")
MAX_WAIT = 30.0
SERVER = Path(__file__).parents[2] / "real" / "mcp_server.py"
LOUD = {"loud": {"command": sys.executable, "args": [str(SERVER)]}}
SHOUT = {
    "tool": "mcp",
    "args": {"serverIdentifier": "loud", "toolName": "shout", "args": {"text": "hey"}},
}


async def asked(session: Session, about: str) -> PermissionRequested:
    def is_it(request: PermissionRequested) -> bool:
        return about in json.dumps([request.title, request.input])

    return await until(session, PermissionRequested, is_it)


async def rest(session: Session) -> list[Entry]:
    async with asyncio.timeout(MAX_WAIT):
        return [entry async for entry in session.until_idle()]


async def answered(session: Session, answer: Answer, *steps: dict[str, Any]) -> list[Entry]:
    """Runs a turn whose one request is answered."""
    await session.prompt(script(*steps))
    request = await until(session, PermissionRequested)
    session.answer(request.request_id, answer)
    return await rest(session)


def model_input(desk: Desk) -> str:
    return (desk.home / ".cursor" / "stand-in-told.json").read_text()


# -- what is asked, and how often ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "tool", "title"),
    [
        ({"shell": "touch ran"}, "Bash", "Bash `touch ran`"),
        ({"edit": "ran", "content": "x"}, "Edit", "Edit `ran`"),
        (
            {"tool": "edit", "args": {"path": "old", "strReplace": {"oldText": "", "newText": ""}}},
            "Edit",
            "Edit `old`",
        ),
        ({"delete": "old"}, "Delete", "Delete `old`"),
        (SHOUT, "MCP", "MCP `loud.shout`"),
        ({"read": "../secret"}, "Read", "Read `../secret`"),
    ],
)
async def test_a_call_is_requested_once_and_runs_when_allowed(
    desk: Desk, step: dict[str, Any], tool: str, title: str
) -> None:
    (desk.project / "old").touch()
    (desk.project.parent / "secret").write_text("x\n")
    session = await desk.start(approve="ask", servers=LOUD)
    log = await answered(session, Answer("allow"), step)
    begun, done = call(log, tool)
    (request,) = of(log, PermissionRequested)
    assert (request.tool, request.title, request.call_id) == (tool, title, begun.call_id)
    assert done.outcome == "completed", done
    assert [event.by for event in of(log, RequestAnswered)] == ["person"]
    assert end(log) == DONE
    assert of(log, Unrecognized) == []


@pytest.mark.parametrize(
    "step",
    [{"shell": "touch ran"}, {"edit": "ran", "content": "x"}, {"delete": "old"}, SHOUT],
    ids=["shell", "edit", "delete", "mcp"],
)
async def test_a_denied_call_does_not_run_and_the_model_gets_the_reason(
    desk: Desk, step: dict[str, Any]
) -> None:
    (desk.project / "old").touch()
    session = await desk.start(approve="ask", servers=LOUD)
    log = await answered(session, Answer("deny", note="herons nest there"), step, {"say": "So."})
    (done,) = of(log, ToolFinished)
    assert (done.outcome, shown(done)) == ("denied", "herons nest there")
    assert sorted(path.name for path in desk.project.glob("[!.]*")) == ["old"]
    assert "herons nest there" in model_input(desk)
    assert (agent_text(log), end(log)) == ("So.", DONE)


@pytest.mark.parametrize(
    ("approve", "left"),
    [
        ("auto", ["ran", "wrote"]),
        ("readonly", ["kept"]),
        ("none", ["kept"]),
    ],
)
async def test_the_policy_answers_without_a_person(
    desk: Desk, approve: str, left: list[str]
) -> None:
    (desk.project / "kept").touch()
    session = await desk.start(approve=approve)
    log = await perform(
        session, {"shell": "touch ran"}, {"edit": "wrote", "content": "x"}, {"delete": "kept"}
    )
    assert sorted(path.name for path in desk.project.glob("[!.]*")) == left
    assert [event.by for event in of(log, RequestAnswered)] == ["policy"] * 3
    assert end(log) == DONE


async def test_edits_inside_need_no_approval_and_protected_files_are_denied(desk: Desk) -> None:
    session = await desk.start(approve="edits")
    inside, protected = {"edit": "a", "content": "x"}, {"edit": ".git/hooks/x", "content": "x"}
    outside = {"edit": "../b", "content": "x"}
    log = await perform(session, inside, protected, outside)
    assert [one.outcome for one in of(log, ToolFinished)] == ["completed", "denied", "denied"]
    assert (desk.project / "a").exists()
    assert not (desk.project / ".git" / "hooks" / "x").exists()
    assert not (desk.project.parent / "b").exists()


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_plan_mode_does_nothing_even_if_all_is_allowed(desk: Desk, mode: Any) -> None:
    session = await desk.start(approve="auto", mode=mode)
    await perform(session, {"shell": "touch ran"}, {"edit": "ran", "content": "x"})
    assert list(desk.project.glob("[!.]*")) == []


async def test_tools_without_a_hook_are_withheld_and_reported(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    fetch = {"tool": "webFetch", "args": {"url": "http://127.0.0.1:9/"}}
    task = {"tool": "task", "args": {"description": "look"}}
    log = await perform(session, fetch, task)
    assert of(log, ToolStarted) == []
    assert [one for one in of(log, Notice) if one.kind == "settings"] == [
        Notice(
            level="warning",
            kind="settings",
            text="Cursor has no hook for the web and subagents: disabled (approve = ask)",
        )
    ]


# -- the answers -----------------------------------------------------------------------------------


async def test_a_command_runs_with_its_changed_input(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    changed = {"command": "touch other", "cwd": "", "timeout": 600_000}
    log = await answered(session, Answer("allow", input=changed), {"shell": "touch ran"})
    assert [path.name for path in desk.project.glob("[!.]*")] == ["other"]
    assert len(of(log, PermissionRequested)) == 1


async def test_a_servers_tool_is_called_with_changed_input(desk: Desk) -> None:
    session = await desk.start(approve="ask", servers=LOUD)
    log = await answered(session, Answer("allow", input={"text": "ho"}), SHOUT)
    assert of(log, ToolFinished)[0].content == (Text("HO"),)
    assert len(of(log, PermissionRequested)) == 1


async def test_a_change_that_cannot_be_confirmed_becomes_a_denial_with_the_reason(
    desk: Desk,
) -> None:
    session = await desk.start(approve="ask")
    changed = {"file_path": "other", "content": "x"}
    step = {"edit": "ran", "content": "x"}
    log = await answered(session, Answer("allow", input=changed), step)
    assert list(desk.project.glob("[!.]*")) == []
    (done,) = of(log, ToolFinished)
    assert done.outcome == "denied"
    assert shown(done) == f"use this input instead: {json.dumps(changed)}"


async def test_always_is_requested_once(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    always = Answer("allow", remember="session")
    log = await answered(session, always, {"shell": "touch a"}, {"shell": "touch a"})
    assert [event.by for event in of(log, RequestAnswered)] == ["person", "policy"]
    log = await perform(session, {"shell": "touch a"})
    assert [event.by for event in of(log, RequestAnswered)] == ["policy"]


async def test_a_timeout_is_a_denial(desk: Desk) -> None:
    session = await desk.start(approve="ask", limits=TurnLimits(request=0.3))
    log = await perform(session, {"shell": "touch ran"}, {"say": "Then not."})
    assert [event.by for event in of(log, RequestAnswered)] == ["timeout"]
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]
    assert "No answer within 0.3 seconds" in model_input(desk)
    assert (agent_text(log), end(log)) == ("Then not.", DONE)


async def test_two_requests_at_once_are_answered_in_the_other_order(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    await session.prompt(script({"tools": [{"shell": "touch one"}, {"shell": "touch two"}]}))
    one, two = await asked(session, "touch one"), await asked(session, "touch two")
    session.answer(two.request_id, Answer("allow"))
    done = await until(session, ToolFinished)
    assert done.call_id == two.call_id
    assert [path.name for path in desk.project.glob("[!.]*")] == ["two"]
    session.answer(one.request_id, Answer("deny"))
    log = await rest(session)
    outcomes = {event.call_id: event.outcome for event in of(log, ToolFinished)}
    assert outcomes == {one.call_id: "denied", two.call_id: "completed"}


async def test_the_same_command_twice_at_once_is_requested_twice(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    step = {"shell": "echo x >> ran"}
    await session.prompt(script({"tools": [step, step]}))
    first = await until(session, PermissionRequested)
    other = await until(
        session, PermissionRequested, lambda event: event.request_id != first.request_id
    )
    session.answer(first.request_id, Answer("deny"))
    session.answer(other.request_id, Answer("allow"))
    await rest(session)
    assert (desk.project / "ran").read_text() == "x\n"


async def test_an_answer_comes_from_another_terminal(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    await session.prompt(script({"shell": "touch ran"}))
    request = await until(session, PermissionRequested)
    words = ["requests", "answer", f"{session.id}/{request.request_id}", "allow"]
    env = {**desk.environment, "TILLERMAN_HOME": str(desk.paths.config)}
    ran = await asyncio.to_thread(run_tillerman, words, cwd=desk.project, env=env)
    assert ran.returncode == 0, ran.stderr
    log = await rest(session)
    assert (desk.project / "ran").exists()
    assert [event.by for event in of(log, RequestAnswered)] == ["person"]


async def test_a_cancelled_turn_withdraws_its_request(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    await session.prompt(script({"shell": "touch ran"}))
    await until(session, PermissionRequested)
    await session.cancel()
    log = await rest(session)
    assert [event.by for event in of(log, RequestAnswered)] == ["withdrawn"]
    assert end(log) == TurnEnded(reason="cancelled")
    assert list(desk.project.glob("[!.]*")) == []
    assert shims(desk) == []
    await session.prompt(script({"shell": "touch again"}))
    request = await asked(session, "touch again")
    session.answer(request.request_id, Answer("allow"))
    await rest(session)
    assert (desk.project / "again").exists()


# -- when the hook itself fails --------------------------------------------------------------------


def shims(desk: Desk) -> list[int]:
    """Processes of this desk that wait for an answer of the hook server."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            home = f"HOME={desk.home}".encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if home and b"preToolUse" in words and words[0] != b"/bin/sh":
            found.append(int(process.name))
    return found


async def test_a_killed_hook_withdraws_its_request_and_denies(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    await session.prompt(script({"shell": "touch ran"}, {"say": "Then not."}))
    request = await until(session, PermissionRequested)
    (shim,) = shims(desk)
    os.kill(shim, signal.SIGKILL)
    log = await rest(session)
    assert of(log, RequestAnswered) == [
        RequestAnswered(request_id=request.request_id, answer=Answer("deny"), by="withdrawn")
    ]
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]
    assert list(desk.project.glob("[!.]*")) == []
    assert end(log) == DONE


async def test_a_stopped_hook_ends_the_agent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LATER", 3.0)
    session = await desk.start(approve="ask", limits=TurnLimits(request=0.5))
    await session.prompt(script({"shell": "touch ran"}, {"shell": "touch later"}))
    await until(session, PermissionRequested)
    (shim,) = shims(desk)
    os.kill(shim, signal.SIGSTOP)
    log = await rest(session)
    failure = end(log).failure
    assert failure is not None
    assert failure.kind == "gate_bypassed"
    assert f"process {shim}" in failure.message
    assert list(desk.project.glob("[!.]*")) == []
    assert shims(desk) == []


@pytest.mark.parametrize("name", ["socket", "key"])
async def test_without_its_socket_or_key_nothing_runs(desk: Desk, name: str) -> None:
    session = await desk.start(approve="auto")
    await session.prompt(script({"hold": str(desk.home / "go"), "limit": 20}, {"shell": "touch x"}))
    (folder,) = {path.parent for path in _hook_files(desk)}
    (folder / name).unlink()
    (desk.home / "go").touch()
    log = await rest(session)
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]
    assert list(desk.project.glob("[!.]*")) == []


def _hook_files(desk: Desk) -> list[Path]:
    """The hook socket of this desk, as named by the plugin's commands."""
    (config,) = desk.paths.spawns.glob("*/word-*/hooks/hooks.json")
    command = json.loads(config.read_text())["hooks"]["preToolUse"][0]["command"]
    folder = next(Path(word) for word in command.split() if (Path(word) / "key").exists())
    return list(folder.iterdir())


RUN = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {path!r})
from tests.agents.cursor.cursor_desk import Desk, script

async def main(desk):
    session = await desk.start(approve="ask")
    await session.prompt(script({{"shell": "touch ran"}}, {{"shell": "touch later"}}))
    async for entry in session.entries():
        print(type(entry.event).__name__, flush=True)

asyncio.run(main(Desk(Path({folder!r}))))
"""


def test_a_killed_harness_allows_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    program = [sys.executable, "-c", RUN.format(path=str(CHECKOUT), folder=str(folder))]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout
        assert any(line == "PermissionRequested\n" for line in harness.stdout)
        harness.kill()
    mark = f"HOME={folder / 'user'}".encode()
    deadline = time.monotonic() + 20
    while any(_environments(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(_environments(mark)) == []
    assert list((folder / "project").glob("[!.]*")) == []


def _environments(mark: bytes) -> Iterator[str]:
    """Pids of the processes with this text in their environment."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                yield process.name


async def test_no_gate_file_remains_after_the_session_is_closed(desk: Desk) -> None:
    session = await desk.start(approve="auto")
    await perform(session, {"shell": "true"})
    files = _hook_files(desk)
    assert {path.name for path in files} == {"key", "socket"}
    await session.close()
    assert [path for path in files if path.exists()] == []
    assert list(desk.paths.spawns.glob("*")) == []
    assert not (desk.project / ".cursor").exists()
    assert not (desk.home / ".cursor" / "hooks.json").exists()


# -- what hooks give besides -----------------------------------------------------------------------


async def test_the_projects_own_hooks_still_apply(desk: Desk) -> None:
    own = {"command": """echo '{"permission":"deny","user_message":"Ours says no."}'"""}
    file = desk.project / ".cursor" / "hooks.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"version": 1, "hooks": {"preToolUse": [own]}}))
    before = file.read_bytes()
    session = await desk.start(approve="auto")
    log = await perform(session, {"shell": "touch ran"})
    (done,) = of(log, ToolFinished)
    assert (done.outcome, shown(done)) == ("denied", "Ours says no.")
    assert file.read_bytes() == before


async def test_a_session_begins_with_context_and_variables_for_its_hooks(desk: Desk) -> None:
    hook = {"command": 'echo "$LENT" > lent'}
    file = desk.project / ".cursor" / "hooks.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"version": 1, "hooks": {"afterShellExecution": [hook]}}))
    options = {"context": "Keep changes small.", "environment": {"LENT": "yes"}}
    session = await desk.start(approve="auto", options=options)
    await perform(session, {"shell": "true"})
    assert "Keep changes small." in model_input(desk)
    assert (desk.project / "lent").read_text() == "yes\n"


FIRED = [
    (
        "subagentStop",
        {"status": "completed", "summary": "It is in auth.py", "subagent_type": "explore"},
        Notice(
            level="info",
            kind="subagent",
            text="a subagent ended (completed): It is in auth.py",
        ),
    ),
    (
        "preCompact",
        {"context_usage_percent": 85},
        Notice(
            level="info",
            kind="compaction",
            text="Cursor compacts the conversation: 85 % of its context is used",
        ),
    ),
    (
        "afterFileEdit",
        {"file_path": "/proj/greet.py", "edits": []},
        Notice(level="info", kind="files", text="Cursor edited /proj/greet.py"),
    ),
    (
        "afterAgentThought",
        {"text": "The word is misspelled."},
        ThoughtChunk(message_id="hook-thought-1", text="The word is misspelled."),
    ),
]


@pytest.mark.parametrize(("event", "extra", "expected"), FIRED, ids=[one[0] for one in FIRED])
async def test_events_only_newer_versions_report_to_hooks_are_emitted(
    desk: Desk, event: str, extra: dict[str, Any], expected: Any
) -> None:
    session = await desk.start(approve="auto")
    log = await perform(session, {"fire": event, "with": extra})
    assert of(log, type(expected)) == [expected]


async def test_a_subagent_is_decided_like_a_task_and_reported(desk: Desk) -> None:
    session = await desk.start(approve="auto")
    start = {"subagent_type": "explore", "task": "Find it", "tool_call_id": "tc-1"}
    log = await perform(session, {"fire": "subagentStart", "with": start})
    assert [event.tool for event in of(log, PermissionRequested)] == ["Task"]
    assert of(log, Notice) == [
        Notice(level="info", kind="subagent", text="a subagent started: Find it")
    ]


async def test_a_call_reported_only_by_its_hooks_is_in_the_log(desk: Desk) -> None:
    session = await desk.start(approve="auto")
    shared = {"tool_name": "Read", "tool_input": {"file_path": "a"}, "tool_use_id": "sub-1"}
    log = await perform(
        session,
        {"fire": "preToolUse", "with": shared},
        {"fire": "postToolUse", "with": {**shared, "tool_output": "{}"}},
    )
    begun, done = call(log, "Read")
    assert (begun.call_id, done.outcome) == ("sub-1", "completed")
    assert [event.call_id for event in of(log, PermissionRequested)] == ["sub-1"]


async def test_a_command_without_a_prior_message_is_requested(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    extra = {"command": "touch x", "cwd": str(desk.project)}
    step = {"fire": "beforeShellExecution", "with": extra}
    log = await answered(session, Answer("deny"), step)
    (request,) = of(log, PermissionRequested)
    assert (request.tool, request.title, request.call_id) == ("Bash", "Bash `touch x`", None)


async def test_the_plugin_is_on_the_command_line_and_all_is_allowed_to_run(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    argv = json.loads(agent_text(await play(session, "@@argv@@")))
    assert "--force" in argv
    assert [word.partition("=")[0] for word in argv if "plugin" in word] == ["--plugin-dir"]


# -- a version that runs no hooks, whatever it reports ---------------------------------------------


async def test_a_call_that_no_hook_requested_ends_the_agent(desk: Desk) -> None:
    install_cursor(desk.home.parent / "bin", desk.home, acts_as=OLDER)
    session = await desk.start(approve="ask")
    log = await perform(session, {"shell": "touch ran"}, {"wait": 20}, {"shell": "touch later"})
    failure = end(log).failure
    assert failure is not None
    assert (failure.kind, failure.message) == (
        "gate_bypassed",
        "Cursor ran Bash `touch ran` without approval",
    )
    assert [path.name for path in desk.project.glob("[!.]*")] == ["ran"]


async def test_a_program_elsewhere_is_queried_for_its_version(desk: Desk) -> None:
    real = desk.home.parent / "bin" / "cursor-agent"
    copy = desk.home / "another" / "agent"
    copy.parent.mkdir()
    copy.write_bytes(real.read_bytes())
    copy.chmod(0o755)
    session = await desk.start(approve="readonly", options={"binary": str(copy)})
    log = await perform(session, {"shell": "touch ran"})
    assert [event.by for event in of(log, RequestAnswered)] == ["policy"]


@pytest.mark.parametrize("says", ["2026.07.16-0a1b2c3", "what?", ""])
async def test_a_program_that_reports_no_version_with_hooks_is_withheld(
    desk: Desk, says: str
) -> None:
    program = desk.home.parent / "bin" / "cursor-agent"
    words = program.read_text().replace(
        "exec", f'test "$1" = --version && echo "{says}" && exit\nexec'
    )
    program.unlink()
    program.write_text(words)
    program.chmod(0o755)
    session = await desk.start(approve="ask", accept_advisory=True)
    log = await perform(session, {"shell": "touch ran"})
    assert of(log, ToolStarted) == []
    (notice,) = [one for one in of(log, Notice) if one.kind == "settings"]
    assert notice.text.startswith("Cursor cannot ask for approval here")


async def test_an_older_version_is_not_mistaken_for_one_that_bypassed_the_gate(
    older_desk: Desk,
) -> None:
    session = await older_desk.start(approve="auto")
    log = await perform(session, {"shell": "touch ran"}, {"edit": "wrote", "content": "x"})
    assert end(log) == DONE
    assert sorted(path.name for path in older_desk.project.glob("[!.]*")) == ["ran", "wrote"]
