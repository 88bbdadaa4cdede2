"""Random writers in the shell of every real agent CLI, with another session in the same folder."""

from __future__ import annotations

import asyncio
import json
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.real.desk import MAX_WAIT, Desk, of
from tests.real.stages import Actor
from tests.sessions.protected_writers import WriterLog, prepare, protected, writer_command
from tillerman.agents import load
from tillerman.core.errors import RequestNotOpen
from tillerman.core.events import Answer, Entry, Notice, PermissionRequested, ToolFinished
from tillerman.core.session_options import session_spec
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.newest,
    pytest.mark.timeout(300),
    pytest.mark.agents("claude", "codex", "gemini", "qwen", "opencode", "copilot"),
]

COUNT = 80
SECONDS = 5.0  # of a daemon that each leaves behind


async def play(session: Session, prompt: str) -> list[Entry]:
    entries = []
    async with asyncio.timeout(3 * MAX_WAIT):
        async for entry in session.run(prompt):
            entries.append(entry)
            if isinstance(entry.event, PermissionRequested):
                with suppress(RequestNotOpen):
                    session.answer(entry.event.request_id, Answer("allow"), surface="test")
    return entries


async def start_beside(desk: Desk, command: str) -> Session:
    """The mock agent in the same folder."""
    script = desk.folder / "beside.json"
    script.write_text(json.dumps([[{"run": command}]]))
    options = {"pace": "0", "state": str(desk.folder / "mock"), "script": str(script)}
    environment = {"PATH": os.environ["PATH"], "HOME": str(desk.folder)}
    spec = session_spec(cwd=desk.project, options=options)
    return await desk.sessions.start(
        load("mock"), spec, RunSettings(approve="auto", environment=environment)
    )


async def until_all_ended(*logs: WriterLog) -> None:
    """Some agents kill their shell's daemons: those stop writing, and log no end."""
    lines: list[int] = []
    for _ in range(60):
        if all("daemon" in log.ended for log in logs):
            return
        lines.append(sum(len(log.lines) for log in logs))
        if len(lines) > 8 and lines[-8] == lines[-1]:
            return
        await asyncio.sleep(0.5)


async def until_as_before(project: Path, before: dict[str, tuple[int, bytes]]) -> None:
    for _ in range(100):
        if protected(project) == before:
            return
        await asyncio.sleep(0.05)


async def test_no_writer_in_its_shell_changes_a_protected_name(
    any_desk: Desk, actor: Actor
) -> None:
    project = any_desk.project
    prepare(project, random.Random(actor.agent))
    before = protected(project)
    # in the workspace: an agent's own sandbox lets its shell write nowhere else
    log, other = WriterLog(project / "writers.jsonl"), WriterLog(any_desk.folder / "other.jsonl")
    script = project / "build.sh"
    writers = writer_command(actor.agent, COUNT, SECONDS, log.path)
    script.write_text(f"readlink /proc/self/ns/user > user-namespace; {writers}\n")
    steps = [reply(actor.stage.shell("sh build.sh")), reply(Say("done"))]
    any_desk.double.scenarios["write"] = steps
    beside = await start_beside(any_desk, writer_command("beside", COUNT // 4, SECONDS, other.path))
    session = await any_desk.start(
        approve="auto", accept_advisory=True, options=actor.stage.options
    )
    entries, _ = await asyncio.gather(play(session, "@@write@@ go"), play(beside, "go"))
    assert "program" in log.ended, of(entries, ToolFinished)
    if actor.agent == "codex" and os.geteuid() == 0:  # its own sandbox has begun, with bubblewrap
        outside = str(Path("/proc/self/ns/user").readlink())
        assert (project / "user-namespace").read_text().strip() != outside
    await until_all_ended(log, other)
    await until_as_before(project, before)
    assert protected(project) == before
    await session.close()
    await beside.close()
    assert protected(project) == before
    logs = [*any_desk.log(session), *any_desk.log(beside)]
    texts = [notice.text for notice in of(logs, Notice)]
    assert log.unreported(texts) == other.unreported(texts) == []
    done = sum(bool(line["ok"]) for line in log.writes)
    print(f"{actor.agent}: {len(log.writes)} writes, {done} done, {len(texts)} reported, 0 stayed")
    assert done > COUNT // 8
