"""Requests of Cursor's hooks, without a process: in any order of stream and hooks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.agents.cursor.cursor_playback import RECORDINGS, SPEC
from tillerman.agents.cursor.hook_requests import CursorHookRequests
from tillerman.agents.stdio.hooked_per_turn_conversation import HookDecision, Said
from tillerman.core.events import (
    Answer,
    Event,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
    Unrecognized,
)
from tillerman.core.session_options import with_options

HOOKS = RECORDINGS / "hooks"


def payload(name: str, **changes: Any) -> bytes:
    """The recorded payload."""
    request = json.loads((HOOKS / f"{name}.json").read_text())["request"]
    return json.dumps({**request, **changes}).encode()


def started(call_id: str, tool: str, **input: Any) -> ToolStarted:
    return ToolStarted(call_id=call_id, tool=tool, name=tool, title=f"the {tool}", input=input)


def replies(messages: Iterable[Said]) -> Iterator[tuple[str, Any]]:
    for one in messages:
        if isinstance(one, HookDecision):
            words = json.loads(one.reply.stdout) if one.reply.stdout else {}
            yield one.ask, words.get("permission", one.reply.exit)


def events(messages: Iterable[Said]) -> list[Event]:
    return [one for one in messages if not isinstance(one, HookDecision)]


def tool(id: str, name: str, **input: Any) -> bytes:
    return payload("preToolUse", tool_name=name, tool_input=input, tool_use_id=id)


@pytest.fixture
def gate() -> CursorHookRequests:
    return CursorHookRequests(with_options(SPEC, approve="ask"))


def test_a_request_waits_for_its_call_on_the_stream(gate: CursorHookRequests) -> None:
    assert list(gate.asked("h1", "preToolUse", tool("c\n1", "MCP:list", state="open"))) == []
    assert gate.waits
    (request,) = gate.receive([started("c/1", "MCP")])
    assert request == PermissionRequested(
        request_id="h1",
        tool="MCP",
        title="the MCP",
        input={"state": "open"},
        call_id="c/1",
        reason="Running the tests.",
    )
    assert not gate.waits


def test_the_wait_for_the_call_is_bounded(gate: CursorHookRequests) -> None:
    list(gate.asked("h1", "preToolUse", tool("c1", "Shell", command="ls")))
    (request,) = gate.release_held()
    assert isinstance(request, PermissionRequested)
    assert (request.tool, request.title) == ("Bash", "Bash `ls`")


def test_a_call_the_stream_names_otherwise_is_requested_as_the_hook_has_it(
    gate: CursorHookRequests,
) -> None:
    list(gate.receive([started("c1", "Read")]))
    (request,) = gate.asked("h1", "preToolUse", tool("c1", "Shell", command="rm x"))
    assert isinstance(request, PermissionRequested)
    assert (request.tool, request.title) == ("Bash", "Bash `rm x`")


def test_an_edit_is_one_question(gate: CursorHookRequests) -> None:
    first, second = payload("preToolUse_edit_step1"), payload("preToolUse_edit_step2")
    id = json.loads(first)["tool_use_id"].replace("\n", "/")
    list(gate.receive([started(id, "Edit", path="/proj/a.txt")]))
    assert list(replies(gate.asked("h1", "preToolUse", first))) == [("h1", "allow")]
    (request,) = gate.asked("h2", "preToolUse", second)
    assert isinstance(request, PermissionRequested)
    assert (request.tool, request.paths) == ("Edit", ("/proj/a.txt",))


def test_a_file_that_is_read_is_no_edit(gate: CursorHookRequests) -> None:
    list(gate.receive([started("c1", "Read")]))
    (request,) = gate.asked("h1", "preToolUse", tool("c1", "Read", file_path="/etc/passwd"))
    assert isinstance(request, PermissionRequested)


SECOND = {
    "Shell": ({"command": "ls"}, "beforeShellExecution", {"command": "ls"}),
    "MCP:list": (
        {"state": "open", "n": 1},
        "beforeMCPExecution",
        {"tool_name": "list", "tool_input": '{"n":1,"state":"open"}'},
    ),
    "Read": ({"file_path": "a.txt"}, "beforeReadFile", {"file_path": "/proj/a.txt"}),
}


@pytest.mark.parametrize("name", SECOND)
def test_an_allowance_passes_the_next_event_once(gate: CursorHookRequests, name: str) -> None:
    input, event, same = SECOND[name]
    list(gate.asked("h1", "preToolUse", tool("c1", name, **input)))
    list(gate.release_held())
    assert list(replies(gate.answer("h1", Answer("allow")))) == [("h1", "allow")]
    assert list(replies(gate.asked("h2", event, payload(event, **same)))) == [("h2", "allow")]
    (again,) = gate.asked("h3", event, payload(event, **same))
    assert isinstance(again, PermissionRequested)


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("how", ["denied", "withdrawn", "finished", "unanswered", "another turn"])
def test_a_denial_does_not_pass_the_next_event(
    gate: CursorHookRequests, name: str, how: str
) -> None:
    input, event, same = SECOND[name]
    list(gate.asked("h1", "preToolUse", tool("c1", name, **input)))
    list(gate.release_held())
    match how:
        case "denied":
            list(gate.answer("h1", Answer("deny")))
        case "withdrawn":
            withdrawn = RequestAnswered(
                request_id="h1", answer=Answer("deny"), by="withdrawn", surface=None
            )
            assert list(gate.gone("h1")) == [withdrawn]
            assert list(gate.answer("h1", Answer("allow"))) == []
        case "finished":
            list(gate.answer("h1", Answer("allow")))
            list(gate.receive([ToolFinished(call_id="c1", outcome="completed")]))
        case "another turn":
            list(gate.answer("h1", Answer("allow")))
            gate.begin(SPEC)
    (asked,) = gate.asked("h2", event, payload(event, **same))
    assert isinstance(asked, PermissionRequested)


@pytest.mark.parametrize("name", SECOND)
def test_of_a_changed_input_only_the_changed_one_passes(
    gate: CursorHookRequests, name: str
) -> None:
    input, event, same = SECOND[name]
    changed = dict.fromkeys(input, "other")
    list(gate.asked("h1", "preToolUse", tool("c1", name, **input)))
    list(gate.release_held())
    (ruling,) = gate.answer("h1", Answer("allow", input=changed))
    assert isinstance(ruling, HookDecision)
    assert json.loads(ruling.reply.stdout) == {"permission": "allow", "updated_input": changed}
    (asked,) = gate.asked("h2", event, payload(event, **same))
    assert isinstance(asked, PermissionRequested)


@pytest.mark.parametrize(
    ("event", "sent"),
    [
        ("preToolUse", b""),
        ("preToolUse", b"[]"),
        ("preToolUse", b'{"hook_event_name":"preToolUse"}'),
        ("preToolUse", payload("postToolUse")),
        ("beforeShellExecution", b'{"command": 7}'),
        ("subagentStart", b"nonsense"),
    ],
)
def test_an_unreadable_payload_is_denied_and_stored(
    gate: CursorHookRequests, event: str, sent: bytes
) -> None:
    messages = list(gate.asked("h1", event, sent))
    ((ask, ruled),) = replies(messages)
    assert (ask, ruled) in [("h1", "deny"), ("h1", 2)]
    assert [type(one) for one in events(messages)] == [Unrecognized]


def test_a_subagent_is_refused_where_its_calls_would_need_approval(
    gate: CursorHookRequests,
) -> None:
    reported = gate.asked("h1", "subagentStart", payload("subagentStart"))
    assert list(replies(reported)) == [("h1", "deny")]
    list(gate.receive([started("c1", "Task")]))
    asked = gate.asked("h2", "preToolUse", tool("c1", "Task", description="x"))
    assert list(replies(asked)) == [("h2", "deny")]


@pytest.mark.parametrize(
    "name", ["postToolUse", "postToolUseFailure", "afterFileEdit", "preCompact", "subagentStop"]
)
def test_observing_hooks_do_not_block(gate: CursorHookRequests, name: str) -> None:
    assert list(replies(gate.asked("h1", name, payload(name)))) == [("h1", 0)]


def test_the_order_of_lines_and_hooks_changes_no_decision() -> None:
    """Two edits at once: four requests and two lines, in every possible order."""
    moves = {
        "line a": None,
        "read a": tool("a", "Read", file_path="a"),
        "write a": tool("a", "Write", file_path="a", content=""),
        "line b": None,
        "read b": tool("b", "Read", file_path="b"),
    }
    for order in permutations(moves):
        if order.index("read a") > order.index("write a"):
            continue
        gate = CursorHookRequests(with_options(SPEC, approve="ask"))
        messages: list[Said] = []
        for move in order:
            if move.startswith("line"):
                messages += gate.receive([started(move[-1], "Edit", path=move[-1])])
            else:
                messages += gate.asked(move, "preToolUse", moves[move] or b"")
        assert dict(replies(messages)) == {"read a": "allow", "read b": "allow"}, order
        asked = [one for one in events(messages) if isinstance(one, PermissionRequested)]
        assert [one.request_id for one in asked] == ["write a"], order


def test_every_recorded_event_is_decided_or_becomes_a_request() -> None:
    for file in sorted(Path(HOOKS).glob("*.json")):
        gate = CursorHookRequests(with_options(SPEC, approve="auto"))
        event = json.loads(file.read_text())["request"]["hook_event_name"]
        messages = [*gate.asked("h1", event, payload(file.stem)), *gate.release_held()]
        requests = [one for one in events(messages) if isinstance(one, PermissionRequested)]
        assert len(requests) + len(list(replies(messages))) == 1, file.name
