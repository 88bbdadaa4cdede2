"""The gate of every real agent CLI: each answer is obeyed, and which calls are requested.

`differences.toml` lists under `[AGENT.gate]` which lines an agent violates: such a line must fail.
The classes that `AgentInfo.asks` declares must equal those found here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from tests.conformance import differences
from tests.conformance.verdicts import hold_gate
from tests.real.desk import MAX_WAIT, Desk, of, shown
from tests.real.stages import Actor
from tillerman.agents import load
from tillerman.core.capabilities import capabilities
from tillerman.core.errors import TillermanError
from tillerman.core.events import (
    Answer,
    Entry,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
)
from tillerman.core.permission import Rule
from tillerman.core.tools import class_of
from tillerman.harness.gate_probe import probe_gate
from tillerman.sessions.run_settings import TurnLimits
from tillerman.sessions.session import Session
from tillerman.testing.gate_probe.probes import NOBODY, GateProbes, holds
from tillerman.testing.model_double.script import ModelToolCall, Say, reply

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

LATE = 10.0  # seconds until a request is denied; every other one here is answered at once


# -- what a person answers -------------------------------------------------------------------------


COMMANDS = Rule("commands", "ask", tools=frozenset({"shell"}))  # also those that only read


class Stand:
    """One session whose every request the test answers."""

    def __init__(self, desk: Desk, actor: Actor, session: Session) -> None:
        self.desk = desk
        self.actor = actor
        self.stage = actor.stage
        self.session = session
        self.known = differences.gate(actor.agent)
        self.can = capabilities(load(actor.agent))
        self.denied_at: int | None = None  # the number of model calls by then
        self._names = count(1)
        self._since = 0

    def file(self, name: str) -> Path:
        return self.desk.project / name

    def touch(self, name: str) -> ModelToolCall:
        return self.stage.shell(f"touch {name}")

    def cat(self, name: str) -> ModelToolCall:
        self.file(name).write_text(f"egg of {name}\n")
        return self.stage.shell(f"cat {name}")

    async def begin(self, *replies: tuple[ModelToolCall, ...]) -> None:
        name = f"gate{next(self._names)}"
        reported = [*(reply(*calls) for calls in replies), reply(Say("So be it."))]
        self.desk.double.scenarios[name] = reported
        self._since = self.session.last_seq
        await self.session.prompt(f"@@{name}@@ go")

    async def asked(self, of_what: str) -> PermissionRequested:
        """The open request of this turn about such a call."""
        async with asyncio.timeout(MAX_WAIT):
            async for entry in self.session.entries(self._since):
                event = entry.event
                if isinstance(event, PermissionRequested) and of_what in _described(event):
                    return event
        raise AssertionError("the session ended")

    async def answer(self, of_what: str, answer: Answer) -> None:
        request = await self.asked(of_what)
        self.session.answer(request.request_id, answer)

    async def end(self) -> list[Entry]:
        async with asyncio.timeout(MAX_WAIT):
            return [entry async for entry in self.session.until_idle(self._since)]


def _described(event: PermissionRequested) -> str:
    return json.dumps([event.title, event.input, event.paths])


def outcomes(log: list[Entry]) -> list[str]:
    return [event.outcome for event in of(log, ToolFinished)]


async def allow(stand: Stand) -> None:
    await stand.begin((stand.touch("allowed"),))
    await stand.answer("allowed", Answer("allow"))
    await stand.end()
    assert stand.file("allowed").exists()


async def deny(stand: Stand) -> None:
    await stand.begin((stand.touch("denied"),))
    request = await stand.asked("denied")
    stand.denied_at = len(stand.desk.double.turns)
    stand.session.answer(request.request_id, Answer("deny", note="herons nest there"))
    log = await stand.end()
    assert not stand.file("denied").exists()
    assert outcomes(log) == ["denied"]


async def message(stand: Stand) -> None:
    """The next message of the model has the reason; in some agents a denial ends the turn."""
    assert stand.denied_at is not None
    await stand.begin()
    await stand.end()
    received = stand.desk.double.turns[stand.denied_at]
    assert "herons nest there" in json.dumps(received.body)


async def edit(stand: Stand) -> None:
    """Some CLIs refuse, without a request, to edit what they have not read."""
    file = stand.file("edited.txt")
    file.write_text("one\ntwo\n")
    changed = (stand.stage.edit(file, "two", "three"),)
    before = () if stand.actor.lacks("read") else ((stand.stage.read(file),),)
    await stand.begin(*before, changed)
    async with asyncio.timeout(MAX_WAIT):
        async for entry in stand.session.entries(stand._since):
            event = entry.event
            if isinstance(event, PermissionRequested) and class_of(event.tool) == "write":
                stand.session.answer(event.request_id, Answer("deny"))
                break
    await stand.end()
    assert file.read_text() == "one\ntwo\n"


async def changed_input(stand: Stand) -> None:
    await stand.begin((stand.touch("written"),))
    request = await stand.asked("written")
    changed = {**request.input, "command": "touch rewritten"}
    stand.session.answer(request.request_id, Answer("allow", input=changed))
    await stand.end()
    assert (stand.file("written").exists(), stand.file("rewritten").exists()) == (False, True)


async def parallel(stand: Stand) -> None:
    """Each answer is for its own call, in any order.

    The commands only read: some agents run others one after the other, and request them likewise.
    """
    await stand.begin((stand.cat("first"), stand.cat("second")))
    await stand.asked("first")
    await stand.answer("second", Answer("allow"))
    await stand.answer("first", Answer("deny"))
    assert _by_command(await stand.end()) == {
        "first": ("denied", False),
        "second": ("completed", True),
    }


async def one_by_one(stand: Stand) -> None:
    """The agents that request the second call after the first is answered."""
    await stand.begin((stand.cat("first"), stand.cat("second")))
    await stand.answer("first", Answer("allow"))
    await stand.answer("second", Answer("deny"))
    log = await stand.end()
    kinds = PermissionRequested | RequestAnswered
    order = [type(entry.event) for entry in log if isinstance(entry.event, kinds)]
    assert order == [PermissionRequested, RequestAnswered] * 2
    assert _by_command(log) == {"first": ("completed", True), "second": ("denied", False)}


def _by_command(log: list[Entry]) -> dict[str, tuple[str, bool]]:
    """How the calls of `cat` ended, and whether they printed the file."""
    ended = {event.call_id: event for event in of(log, ToolFinished)}
    return {
        name: (ended[call.call_id].outcome, f"egg of {name}" in shown(ended[call.call_id]))
        for call in of(log, ToolStarted)
        for name in ("first", "second")
        if name in call.title
    }


async def always(stand: Stand) -> None:
    """The agent requests the second identical call, but no user is asked."""
    for name in ("once", "twice"):
        await stand.begin((stand.stage.shell("echo x >> remembered"),))
        if name == "once":
            await stand.answer("remembered", Answer("allow", remember="session"))
        log = await stand.end()
        by = "person" if name == "once" else "policy"
        assert [answer.by for answer in of(log, RequestAnswered)] == [by], name
    assert stand.file("remembered").read_text() == "x\nx\n"


async def second_terminal(stand: Stand) -> None:
    await stand.begin((stand.touch("elsewhere"),))
    request = await stand.asked("elsewhere")
    await _in_another_process(stand.desk, f"{stand.session.id}/{request.request_id}")
    log = await stand.end()
    assert stand.file("elsewhere").exists()
    assert [(one.by, one.surface) for one in of(log, RequestAnswered)] == [
        ("person", "command line")
    ]


async def _in_another_process(desk: Desk, request: str) -> None:
    environment = {
        "PATH": os.defpath,
        "HOME": str(desk.folder),
        "TILLERMAN_HOME": str(desk.folder / "tillerman"),
    }
    words = ("-m", "tillerman", "requests", "answer", request, "allow")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=environment, cwd=desk.folder
    )
    assert await asyncio.wait_for(process.wait(), LATE) == 0


async def timeout(stand: Stand) -> None:
    await stand.begin((stand.touch("late"),))
    await stand.asked("late")
    log = await stand.end()
    assert not stand.file("late").exists()
    assert [answer.by for answer in of(log, RequestAnswered)] == ["timeout"]
    assert outcomes(log) == ["denied"]


Line = Callable[[Stand], Awaitable[None]]
LINES: tuple[Line, ...] = (
    allow, deny, message, edit, changed_input, parallel, one_by_one, always, second_terminal,
    timeout,
)  # fmt: skip


@pytest.mark.newest
async def test_the_answer_of_a_person_is_applied(any_desk: Desk, actor: Actor) -> None:
    if "shell" not in load(actor.agent).info.asks:
        pytest.skip("it runs commands without a question")
    session = await any_desk.start(
        approve="ask",
        rules=(COMMANDS,),
        limits=TurnLimits(request=LATE),
        options=actor.stage.options,
    )
    stand = Stand(any_desk, actor, session)
    left_out = {changed_input} - ({changed_input} if "changed_input" in stand.can else set())
    left_out |= {parallel if "parallel" in stand.known else one_by_one}
    known = {line for line in stand.known if line != "parallel"}

    broken = {}
    for line in LINES:
        if line in left_out:
            continue
        try:
            await line(stand)
        except (AssertionError, TimeoutError, TillermanError) as error:
            broken[line.__name__] = repr(error)[:300]
            await session.cancel()
            await session.idle()

    assert set(broken) == known, json.dumps(broken, indent=1)


# -- which calls are asked about -------------------------------------------------------------------


@pytest.mark.newest
async def test_it_asks_before_every_call_of_its_declared_classes(
    any_desk: Desk, actor: Actor
) -> None:
    gate_probes = GateProbes(
        actor.stage,
        actor.version,
        any_desk.double,
        project=any_desk.project,
        marks=any_desk.folder / "marks",
    )
    session = await any_desk.start(
        approve="ask", tools=NOBODY, options=actor.stage.options, servers=gate_probes.servers
    )

    async with asyncio.timeout(4 * MAX_WAIT):
        results = await gate_probes.run(session)

    print({f"{result.kind} {result.name}": result.problem for result in results if result.problem})
    hold_gate(actor.agent, actor.version, holds(results))


@pytest.mark.newest
@pytest.mark.agents("codex")
async def test_doctor_reports_the_same(actor: Actor, tmp_path: Path) -> None:
    proof = await probe_gate(load(actor.agent), str(actor.program), actor.version)
    hold_gate(actor.agent, actor.version, proof.holds)
