"""Rules that deny commands apply at execve in a session, however the line was written."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.session_desk import Desk
from tests.supervision.gated import PATH, Gated, deny
from tillerman.core.errors import RequestNotOpen
from tillerman.core.events import Answer, Entry, Notice, PermissionRequested, ToolFinished
from tillerman.core.permission import Rule
from tillerman.sessions.run_settings import (
    EnforcementSettings,
    UntilSettings,
    WorkspaceToolSettings,
)
from tillerman.sessions.session import Session, read_all
from tillerman.supervision.exec_gate import seccomp
from tillerman.supervision.isolation import refusal
from tillerman.supervision.linux.process_table import snapshot

pytestmark = pytest.mark.skipif(
    seccomp.unsupported() is not None or os.geteuid() != 0,
    reason="the kernel stops commands by itself for root on Linux",
)

ON = EnforcementSettings(commands="on")
NO_RM = Rule("no-rm", "deny", "use git rm", commands=("rm *",), source="rules.toml:3")


def hidden(*words: str) -> dict[str, Any]:
    """A step that runs these words by a line that does not contain them."""
    code = f"import os; os.execvp({words[0][:1]!r} + {words[0][1:]!r}, {list(words)!r})"
    return {"run": f"python3 -c {json.dumps(code)}"}


async def play(session: Session, *steps: dict[str, Any], **more: Any) -> list[Entry]:
    """Every request is allowed, or gets `answer`."""
    entries = []
    async with asyncio.timeout(30):
        async for entry in session.run(json.dumps(list(steps))):
            entries.append(entry)
            if isinstance(entry.event, PermissionRequested):
                with suppress(RequestNotOpen):  # a rule was quicker
                    answer = more.get("answer", Answer("allow"))
                    session.answer(entry.event.request_id, answer, surface="test")
    return entries


def notices(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    found = [entry.event for entry in entries if isinstance(entry.event, Notice)]
    return [(one.level, one.text) for one in found if one.kind == "policy"]


async def test_a_denied_command_that_a_line_hides_does_not_run(desk: Desk) -> None:
    (desk.project / "kept").touch()
    session = await desk.start(rules=(NO_RM,))
    entries = await play(session, hidden("rm", "kept"), hidden("touch", "made"))
    assert notices(entries) == [
        ("warning", "`rm kept` was not run: rule no-rm (rules.toml:3) denies it: use git rm")
    ]
    assert sorted(path.name for path in desk.project.iterdir()) == [".git", "kept", "made"]


@pytest.mark.parametrize("isolation", ["basic", "high"])
async def test_it_is_refused_to_the_commands_of_the_workspaces_tools(
    desk: Desk, isolation: str
) -> None:
    if isolation == "high" and (lacking := refusal("high")):
        pytest.skip(lacking.message)
    (desk.project / "kept").touch()
    bench = WorkspaceToolSettings(environment={"PATH": PATH})
    session = await desk.start(rules=(NO_RM,), bench=bench)
    assert session.bench
    call = {"command": hidden("rm", "kept")["run"], "isolation": isolation}
    done = await session.bench.call("execute_shell", call, ask=allow)
    assert "PermissionError" in done.text, done
    assert (desk.project / "kept").exists()
    async with asyncio.timeout(10):  # the gate reports it beside the result
        while not (found := notices(read_all(desk.sessions.log, session.id))):  # noqa: ASYNC110 - the store has no event for us
            await asyncio.sleep(0.02)
    assert [text.partition(":")[0] for _, text in found] == ["`rm kept` was not run"]
    await session.close()


async def allow(_: PermissionRequested) -> Answer:
    return Answer("allow")


async def test_a_remembered_answer_applies_at_once_and_until_it_is_removed(
    desk: Desk,
) -> None:
    session = await desk.start(rules=(NO_RM,), approve="ask")
    never = Answer("deny", remember="session")
    await play(session, {"run": "touch a"}, answer=never)
    entries = await play(session, hidden("touch", "a"), hidden("touch", "b"))
    assert [text for _, text in notices(entries)] == [
        "`touch a` was not run: rule never (session) denies it: you denied this permanently"
    ]
    session.forget_rule("deny `touch a`")
    assert notices(await play(session, hidden("touch", "a"))) == []
    assert (desk.project / "a").exists()


async def test_an_always_allowed_call_is_allowed_before_a_rule_that_denies_more(
    desk: Desk,
) -> None:
    rules = (Rule("no-touch", "deny", commands=("touch b*",)),)
    session = await desk.start(rules=rules, approve="ask")
    entries = await play(session, hidden("touch", "a"), hidden("touch", "b"))
    assert [text for _, text in notices(entries)] == [
        "`touch b` was not run: rule no-touch (tillerman) denies it"
    ]


async def test_a_command_of_the_user_is_not_restricted(desk: Desk) -> None:
    check = UntilSettings("rm -f checked; touch checked")
    session = await desk.start(rules=(NO_RM,), until=check)
    entries = await play(session, {"say": "done"})
    await session.idle()
    assert ((desk.project / "checked").exists(), notices(entries)) == (True, [])


async def test_a_loop_of_attempts_does_not_fill_the_log(desk: Desk) -> None:
    session = await desk.start(rules=(NO_RM,))
    loop = (
        "import subprocess\nfor _ in range(150):\n"
        "    try: subprocess.run(['r' + 'm', 'x'])\n    except OSError: pass"
    )
    entries = await play(session, {"run": f'python3 -c "{loop}"'})
    assert [text.rpartition(" (")[2] for _, text in notices(entries)][1:] == [
        "10 times so far)",
        "100 times so far)",
    ]


async def test_a_session_that_cannot_be_enforced_as_requested_is_not_started(
    desk: Desk, tmp_path: Path
) -> None:
    """Inside another harness there is a listener already."""
    config = tmp_path / "home/config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text('[[rules]]\nname = "no-rm"\ndeny = "no"\ncommand = "rm *"\n')
    words = [sys.executable, "-m", "tillerman", "run", "-a", "mock", "-C", str(desk.project)]
    environment = {"TILLERMAN_HOME": str(tmp_path / "home"), "TILLERMAN_APPROVE": "auto"}
    prompt = json.dumps([{"say": "done"}])
    async with Gated.open(tmp_path / "records", deny("never-mind")) as outer:
        outcomes = []
        for wanted in ("on", "auto", "off"):
            more = {**environment, "TILLERMAN_ENFORCEMENT_COMMANDS": wanted}
            done = await outer.run([*words, prompt], desk.project, more)
            outcomes.append((done.code, "another program already listens" in done.err + done.out))
    assert outcomes == [(4, True), (0, True), (0, False)]


async def test_without_a_rule_that_denies_a_command_nothing_is_started(desk: Desk) -> None:
    session = await desk.start(enforcement=ON)
    entries = await play(session, hidden("touch", "a"))
    tools = [entry.event.outcome for entry in entries if isinstance(entry.event, ToolFinished)]
    assert (tools, notices(entries)) == (["completed"], [])
    table = snapshot()
    ours = [table[gate] for gate in gates() if gate in table]
    assert not [gate for gate in ours if table[gate.parent].parent == os.getpid()]


def gates() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text() == "tillerman-gate\n":
                found.append(int(path.parent.name))
    return found


async def test_off_disables_enforcement(desk: Desk) -> None:
    (desk.project / "gone").touch()
    session = await desk.start(rules=(NO_RM,), enforcement=EnforcementSettings(commands="off"))
    await play(session, hidden("rm", "gone"))
    assert not (desk.project / "gone").exists()
