"""An agent that declares to request approval, and runs calls without or against it, is ended."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.errors import GateNotEnforced
from tillerman.core.events import (
    Answer,
    Entry,
    MessageChunk,
    Notice,
    PermissionRequested,
    RequestAnswered,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.session_options import with_options
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.permissions.bypass_detector import BypassDetector
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan, TurnLimits
from tillerman.surfaces.exit_codes import exit_code

Step = dict[str, Any]
ASKS = frozenset({"write", "shell"})
HINT = "its processes were terminated; check its changes, run `tillerman doctor --gate`"


class Claims(StdioAgent):
    """The mock, which declares that it requests writes and commands."""

    def __init__(self, name: str = "mock") -> None:
        super().__init__(replace(INFO, name=name, asks=ASKS), MockWire)


def bypassed(message: str) -> TurnEnded:
    failure = Failure(kind="gate_bypassed", message=message, hint=HINT)
    return TurnEnded(reason="failed", failure=failure)


def script(desk: Desk, *turns: list[Step]) -> str:
    path = desk.folder / "script.json"
    path.write_text(json.dumps(turns))
    return str(path)


async def play(desk: Desk, *steps: Step, **run_settings: Any) -> list[Entry]:
    desk.agent = Claims()
    session = await desk.start(script(desk, list(steps)), **run_settings)
    return await entries(session, "go")


async def entries(session: Any, prompt: str) -> list[Entry]:
    async with asyncio.timeout(30):
        return [entry async for entry in session.run(prompt)]


def of(log: list[Entry], kind: type) -> list[Any]:
    return [entry.event for entry in log if isinstance(entry.event, kind)]


# -- bypasses --------------------------------------------------------------------------------------


async def test_a_call_without_a_request_ends_the_agent(desk: Desk) -> None:
    unasked = {"run": "touch made", "ask": False}
    later = ({"sleep": 20}, {"say": "All done."})

    log = await play(desk, unasked, *later)

    assert of(log, TurnEnded) == [bypassed("Mock ran Bash `touch made` without approval")]
    assert of(log, MessageChunk) == []
    assert exit_code(of(log, TurnEnded)[0].failure) == 4


async def test_it_fails_the_turn_though_the_agent_was_quick_to_complete_it(desk: Desk) -> None:
    log = await play(desk, {"write": "made.txt", "text": "x", "ask": False})

    assert of(log, TurnEnded) == [bypassed("Mock ran Write `made.txt` without approval")]


@pytest.mark.parametrize("approve", ["ask", "edits", "auto", "readonly", "none"])
async def test_the_embedded_agent_is_checked_against_its_declaration(
    desk: Desk, approve: str
) -> None:
    path = script(desk, [{"run": "touch made", "ask": False}, {"sleep": 20}])
    session = await desk.start(path, approve=approve)

    log = await entries(session, "go")

    assert of(log, TurnEnded) == [bypassed("Mock ran Bash `touch made` without approval")]


@pytest.mark.parametrize("approve", ["ask", "edits", "readonly", "none"])
async def test_an_embedded_agent_that_declares_not_to_ask_is_refused(
    desk: Desk, approve: str
) -> None:
    path = script(desk, [{"run": "touch made", "ask": False}])
    spec = desk.spec(path)
    spec = with_options(spec, options={**spec.native.options, "asks": False}, approve=approve)
    session = await desk.sessions.start(desk.agent, spec, desk.run_settings(approve=approve))
    with pytest.raises(GateNotEnforced):
        await entries(session, "go")
    assert not (desk.project / "made").exists()


async def test_an_embedded_agent_that_declares_not_to_ask_runs_under_auto(desk: Desk) -> None:
    path = script(desk, [{"run": "touch made", "ask": False}])
    spec = desk.spec(path)
    spec = with_options(spec, options={**spec.native.options, "asks": False}, approve="auto")
    session = await desk.sessions.start(desk.agent, spec, desk.run_settings(approve="auto"))

    log = await entries(session, "go")

    assert of(log, TurnEnded) == [TurnEnded(reason="completed")]
    assert (desk.project / "made").exists()


def asked_and_ran(call_id: str) -> list[Step]:
    """Messages of an agent that sends a request, and does not wait for the answer."""
    call = {"id": call_id, "tool": "run", "input": {"command": "make"}}
    return [
        {"send": {"type": "call", **call}},
        {"send": {"type": "ask", "request_id": "r1", "call_id": call_id, **call}},
        {"send": {"type": "result", "call_id": call_id, "outcome": "completed"}},
        {"sleep": 20},
    ]


@pytest.mark.parametrize("call_id", ["c1", "c:1"])
async def test_a_call_that_runs_against_the_answer_ends_the_agent(desk: Desk, call_id: str) -> None:
    log = await play(desk, *asked_and_ran(call_id), approve="readonly")

    assert [answer.answer.option for answer in of(log, RequestAnswered)] == ["deny"]
    assert of(log, TurnEnded) == [bypassed("Mock ran Bash `make` although it was denied")]


async def test_a_call_that_runs_before_the_answer_ends_the_agent(desk: Desk) -> None:
    log = await play(desk, *asked_and_ran("c1"), approve="ask")

    assert of(log, TurnEnded) == [bypassed("Mock ran Bash `make` without approval")]


async def test_a_command_that_ran_without_approval_and_failed_counts(desk: Desk) -> None:
    log = await play(
        desk,
        {"send": {"type": "call", "id": "c1", "tool": "run", "input": {"command": "make"}}},
        {
            "send": {
                "type": "result",
                "call_id": "c1",
                "outcome": "failed",
                "content": [{"type": "text", "text": "oops\n\nexit code 3"}],
            }
        },
        {"sleep": 20},
    )

    assert of(log, TurnEnded) == [bypassed("Mock ran Bash `make` without approval")]


async def test_no_other_agent_continues_the_turn(desk: Desk) -> None:
    path = script(desk, [{"write": "made.txt", "text": "x", "ask": False}, {"sleep": 20}])

    async def call(name: str) -> LaunchPlan:
        return LaunchPlan(Claims("second"), desk.spec(path), desk.run_settings())

    fallback = FallbackPolicy(FallbackRules(handoff="always"), ["second"], call)
    session = await desk.sessions.start(
        Claims(), desk.spec(path), desk.run_settings(), fallback=fallback
    )

    log = await entries(session, "go")

    assert of(log, TurnEnded) == [bypassed("Mock ran Write `made.txt` without approval")]


async def test_an_agent_that_wakes_without_approval_is_ended_too_and_the_session_continues(
    desk: Desk,
) -> None:
    desk.agent = Claims()
    later = [{"write": "made.txt", "text": "x", "ask": False}, {"sleep": 20}]
    path = script(
        desk,
        [{"background": "a job", "after": 0.1, "steps": later}, {"say": "Begun."}],
        [{"say": "Here again."}],
    )
    session = await desk.start(path)

    log = await entries(session, "go")
    again = await entries(session, "still there?")

    assert of(log, TurnEnded) == [
        TurnEnded(reason="completed"),
        bypassed("Mock ran Write `made.txt` without approval"),
    ]
    assert of(again, TurnEnded) == [TurnEnded(reason="completed")]


# -- no false alarms -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([{"read": "a.txt"}], id="a class that it does not claim"),
        pytest.param([{"run": "touch made"}, {"run": "exit 3"}], id="calls that were asked about"),
        pytest.param(
            [
                {
                    "parallel": [
                        {"run": "touch one"},
                        {"run": "touch two"},
                        {"write": "x", "text": ""},
                    ]
                }
            ],
            id="calls side by side",
        ),
        pytest.param(
            [{"task": "look", "steps": [{"run": "touch deep"}, {"write": "y", "text": "y"}]}],
            id="a subagent's calls",
        ),
        pytest.param(
            [{"background": "a job", "after": 0.1, "steps": [{"run": "touch late"}]}],
            id="calls of a turn of its own",
        ),
        pytest.param(
            [
                {"send": {"type": "call", "id": "c1", "tool": "Frobnicate", "input": {}}},
                {"send": {"type": "result", "call_id": "c1", "outcome": "completed"}},
            ],
            id="a tool of its own mind",
        ),
        pytest.param(
            [
                {"send": {"type": "call", "id": "c1", "tool": "edit", "input": {}}},
                {
                    "send": {
                        "type": "result",
                        "call_id": "c1",
                        "outcome": "failed",
                        "content": [{"type": "text", "text": "no such file"}],
                    }
                },
            ],
            id="a call that it refused by itself",
        ),
        pytest.param(
            [{"send": {"type": "result", "call_id": "old", "outcome": "completed"}}],
            id="the end of a call that never began",
        ),
    ],
)
async def test_cases_that_are_no_bypass(desk: Desk, steps: list[Step]) -> None:
    (desk.project / "a.txt").write_text("a\n")

    log = await play(desk, *steps)

    assert {end.reason for end in of(log, TurnEnded)} == {"completed"}
    assert [notice for notice in of(log, Notice) if notice.level == "error"] == []


async def test_a_call_that_is_denied_and_does_not_run_is_no_bypass(desk: Desk) -> None:
    log = await play(desk, {"run": "touch made"}, {"write": "x", "text": ""}, approve="readonly")

    assert [end.outcome for end in of(log, ToolFinished)] == ["denied", "denied"]
    assert of(log, TurnEnded) == [TurnEnded(reason="completed")]


async def test_a_request_that_timed_out_is_no_bypass(desk: Desk) -> None:
    log = await play(desk, {"run": "touch made"}, approve="ask", limits=TurnLimits(request=0.1))

    assert [answer.by for answer in of(log, RequestAnswered)] == ["timeout"]
    assert of(log, TurnEnded) == [TurnEnded(reason="completed")]


async def test_a_resumed_session_and_a_handed_over_session_raise_no_alarm(desk: Desk) -> None:
    desk.agent = Claims()
    path = script(desk, [{"run": "touch made"}, {"write": "x", "text": "x"}])
    first = await desk.start(path)
    await entries(first, "go")
    await first.close()

    second = await desk.resume(first.id, path)
    resumed = await entries(second, "again")
    await second.close()
    desk.agent = Claims("second")
    handed = await entries(await desk.resume(first.id, path), "once more")

    for log in (resumed, handed):
        assert of(log, TurnEnded)[-1] == TurnEnded(reason="completed")


# -- the gate by itself ----------------------------------------------------------------------------


class Watched:
    def __init__(self, *asks: Any) -> None:
        self.alarms: list[str] = []
        self.gate = BypassDetector()
        self.gate.opened("Mock", frozenset(asks))

    def call(self, id: str, tool: str = "Bash", outcome: Any = "completed", said: str = "") -> None:
        content = (Text(said),) if said else ()
        for event in (
            ToolStarted(call_id=id, tool=tool, name=tool, title=tool),
            ToolFinished(call_id=id, outcome=outcome, content=content),
        ):
            if failure := self.gate.observe(event):
                self.alarms.append(failure.message)

    def allow(self, call_id: str | None, tool: str = "Bash", option: str = "allow") -> None:
        request = PermissionRequested(request_id="r", tool=tool, title=tool, call_id=call_id)
        self.gate.answered(
            request, RequestAnswered(request_id="r", answer=Answer(option), by="person")
        )


def test_the_parts_of_a_call_are_allowed_as_one() -> None:
    watched = Watched("write")
    watched.allow("p", "MultiEdit")
    watched.call("p", "Edit")
    watched.call("p:1", "Delete")
    assert watched.alarms == []
    watched.call("q:1", "Delete")
    assert watched.alarms == ["Mock ran Delete without approval"]


def test_an_answer_to_a_request_that_names_no_call_is_for_one_call_of_its_class() -> None:
    watched = Watched("mcp")
    watched.allow(None, "MCP")
    watched.call("a", "MCP")
    assert watched.alarms == []
    watched.call("b", "MCP")
    assert watched.alarms == ["Mock ran MCP without approval"]


def test_a_call_that_was_allowed_once_may_be_asked_about_again_and_denied() -> None:
    """For example a command that failed in the sandbox, to be run outside of it."""
    watched = Watched("shell")
    watched.allow("c")
    watched.allow("c", option="deny")
    watched.call("c", outcome="failed", said="exit code 1")
    assert watched.alarms == []


def test_a_call_that_was_finally_denied_does_not_run_though_it_was_allowed_before() -> None:
    watched = Watched("shell")
    watched.allow("c")
    watched.allow("c", option="deny")
    watched.call("c")
    assert watched.alarms == ["Mock ran Bash although it was denied"]


def test_a_part_of_a_command_may_be_denied_while_the_command_continues() -> None:
    watched = Watched("shell")
    watched.allow("c")
    watched.allow("c", "WebFetch", option="deny")
    watched.call("c")
    assert watched.alarms == []


def test_an_allowance_is_for_one_call_until_it_is_requested_again() -> None:
    watched = Watched("shell")
    watched.allow("c")
    watched.call("c")
    watched.allow("c")
    watched.call("c")
    assert watched.alarms == []
    watched.call("c")
    assert watched.alarms == ["Mock ran Bash without approval"]


@pytest.mark.parametrize(
    ("asked", "ran", "alarm"),
    [
        ("Read", "Bash", True),
        ("WebFetch", "Write", True),
        ("Write", "Read", False),
        ("Bash", "Write", False),
        ("TheirOwn", "Bash", False),
    ],
)
def test_an_allowance_covers_a_call_of_that_class(asked: str, ran: str, alarm: bool) -> None:
    watched = Watched("read", "write", "shell", "network")
    watched.allow("c", asked)
    watched.call("c", ran)
    assert bool(watched.alarms) is alarm


def test_an_allowance_without_a_call_lasts_until_the_turn_ends() -> None:
    watched = Watched("mcp")
    watched.allow(None, "MCP")
    watched.gate.turn_ended()
    watched.call("a", "MCP")
    assert watched.alarms == ["Mock ran MCP without approval"]


@pytest.mark.parametrize(
    "said",
    [
        "Exit code 3\noops",
        "Command exited with code 1",
        "Process exited with code 2\nOutput:\nx",
        "exit code: 1\nOutput: blah",
        "oops\nExit status 1\n",
    ],
)
def test_a_command_that_reports_its_exit_code_ran(said: str) -> None:
    watched = Watched("shell")
    watched.call("c", outcome="failed", said=said)
    assert watched.alarms == ["Mock ran Bash without approval"]


@pytest.mark.parametrize("said", ["", "a hook exited with code 2: no", "no such tool"])
def test_a_command_that_the_agent_refused_by_itself_did_not_run(said: str) -> None:
    watched = Watched("shell")
    watched.call("c", outcome="failed", said=said)
    assert watched.alarms == []


def test_it_is_reported_once_and_a_new_agent_is_checked_again() -> None:
    watched = Watched("shell")
    watched.call("a")
    watched.call("b")
    assert watched.alarms == ["Mock ran Bash without approval"]
    watched.gate.opened("Other", frozenset({"shell"}))
    watched.call("a")
    assert watched.alarms[1:] == ["Other ran Bash without approval"]
