"""Each entry of a log as the session update that an editor gets."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from acp.schema import SessionNotification

from tillerman.agents.acp.tool_kinds import KIND_OF_TOOL, TOOL_OF_KIND
from tillerman.core.events import (
    Answer,
    Attachment,
    Cut,
    Diff,
    Entry,
    Event,
    Image,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    PlanChanged,
    PlanStep,
    RequestAnswered,
    SettingsChanged,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from tillerman.core.tools import TOOLS
from tillerman.surfaces.acp.client import ClientCapabilities, capabilities
from tillerman.surfaces.acp.replay import history, joined
from tillerman.surfaces.acp.updates import SessionUpdates

CWD = "/srv/project"
DOT = b"\x89PNG"


def entries(*events: Event, turn: int = 1) -> list[Entry]:
    return [
        Entry(session="s", seq=number, turn=turn, at="2026-11-19T00:00:00Z", event=event)
        for number, event in enumerate(events, 1)
    ]


def told(*events: Event, cwd: str = CWD, **client: Any) -> list[dict[str, Any]]:
    """The updates, which the protocol's own models accept."""
    updates = SessionUpdates(cwd, {"h": DOT}.get, ClientCapabilities(**client))
    found = [update for entry in entries(*events) for update in updates.encode(entry)]
    for update in found:
        if update["sessionUpdate"] != "notice":  # younger than these models
            SessionNotification.model_validate({"sessionId": "s", "update": update})
    return found


def call(tool: str = "Bash", name: str = "", **more: Any) -> ToolStarted:
    return ToolStarted(call_id="c", tool=tool, name=name or tool, title=tool, **more)


def chunk(kind: str, id: str, text: str) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": kind, "messageId": id, "content": content}


def test_text_after_a_tool_call_is_another_message_although_the_agent_says_the_same_id() -> None:
    found = told(
        MessageChunk(message_id="m", text="one "),
        MessageChunk(message_id="m", text="two"),
        call(),
        MessageChunk(message_id="m", text="three"),
        ThoughtChunk(message_id="m", text="so"),
    )
    said = [update for update in found if update["sessionUpdate"] != "tool_call"]
    assert list(joined(said)) == [
        chunk("agent_message_chunk", "1.m", "one two"),
        chunk("agent_message_chunk", "1.m.2", "three"),
        chunk("agent_thought_chunk", "1.mt", "so"),
    ]


def test_what_a_subagent_says_is_left_out_and_its_calls_name_their_parent() -> None:
    found = told(
        ToolStarted(call_id="t", tool="Task", name="Task", title="Task"),
        MessageChunk(message_id="m", text="inside", parent="t"),
        ToolStarted(call_id="c", tool="Read", name="Read", title="Read", parent="t"),
    )
    assert [update["sessionUpdate"] for update in found] == ["tool_call", "tool_call"]
    assert found[1]["_meta"] == {"parentToolCallId": "1.t"}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_a_kind_that_the_protocol_knows(tool: str) -> None:
    [update] = told(call(tool))
    assert update["kind"] == KIND_OF_TOOL.get(tool, "other")


def test_kinds_and_tools_are_each_others_inverse() -> None:
    assert {kind: KIND_OF_TOOL[tool] for kind, tool in TOOL_OF_KIND.items()} == {
        kind: kind for kind in TOOL_OF_KIND
    }


@pytest.mark.parametrize(
    ("tool", "name", "shown"),
    [
        ("Bash", "run", "Bash"),
        ("MCP", "birds.shout", "mcp__birds__shout"),
        ("MCP", "mcp__birds__shout", "mcp__birds__shout"),
        ("view_image", "view_image", "view_image"),
    ],
)
def test_a_call_has_the_common_name_of_its_tool(tool: str, name: str, shown: str) -> None:
    assert told(call(tool, name))[0]["name"] == shown


def test_paths_are_absolute() -> None:
    [update] = told(call("Read", paths=("a.py", "/etc/x")))
    assert update["locations"] == [{"path": f"{CWD}/a.py"}, {"path": "/etc/x"}]


@pytest.mark.parametrize(
    ("tool", "input", "diffs"),
    [
        ("Write", {"file_path": "a", "content": "new\n"}, [(None, "new\n")]),
        ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}, [("x", "y")]),
        ("Edit", {"path": "a", "old": "x", "new": ""}, [("x", "")]),
        (
            "MultiEdit",
            {
                "file_path": "a",
                "edits": [{"old_string": str(n), "new_string": "y"} for n in (1, 2)],
            },
            [("1", "y"), ("2", "y")],
        ),
        (
            "Edit",
            {"patch": "*** Begin Patch\n*** Update File: a\n@@\n k\n-x\n+y\n*** End Patch"},
            [("k\nx", "k\ny")],
        ),
        ("Bash", {"command": "true"}, []),
    ],
)
def test_the_change_that_a_call_makes_is_shown_with_it(
    tool: str, input: dict[str, Any], diffs: list[tuple[str | None, str]], tmp_path: Path
) -> None:
    [update] = told(call(tool, input=input), cwd=str(tmp_path))
    path = str(tmp_path / "a")
    expected = [
        {"type": "diff", "path": path, "oldText": old, "newText": new} for old, new in diffs
    ]
    assert update.get("content", []) == expected


def test_a_file_that_would_be_replaced_is_shown_as_it_is_until_then(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old\n")
    input = {"file_path": "a", "content": "new\n"}
    updates = SessionUpdates(str(tmp_path), {}.get, ClientCapabilities())
    asked = PermissionRequested(request_id="r", tool="Write", title="Write", input=input)
    assert updates.asked(1, asked)["content"][0]["oldText"] == "old\n"
    gone = PermissionRequested(request_id="d", tool="Delete", title="", input={"path": "a"})
    assert updates.asked(1, gone)["content"][0]["newText"] == ""
    [update] = told(call("Write", input=input), cwd=str(tmp_path))
    assert update["content"][0]["oldText"] is None, "a reader of the log may come after the call"


def test_a_patch_becomes_a_diff_for_each_of_its_hunks() -> None:
    patch = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n k\n-x\n+y\n@@ -9 +9,2 @@\n z\n+new\n\\ No newline\n"
    found = told(ToolFinished(call_id="c", outcome="completed", content=(Diff("a", patch=patch),)))
    changes = [(one["oldText"], one["newText"]) for one in found[0]["content"]]
    assert changes == [("k\nx", "k\ny"), ("z", "z\nnew")]


def test_a_new_file_has_no_old_text_and_a_deleted_one_no_new() -> None:
    parts = (Diff("a", new="x"), Diff("b", patch="@@ -0,0 +1 @@\n+x\n"), Diff("c", old="x"))
    [update] = told(ToolFinished(call_id="c", outcome="completed", content=parts))
    texts = [(one["oldText"], one["newText"]) for one in update["content"]]
    assert texts == [(None, "x"), (None, "x"), ("x", "")]


def test_the_diff_of_an_edit_stays_when_its_result_is_only_a_text() -> None:
    edit = call("Edit", input={"file_path": "a", "old_string": "x", "new_string": "y"})
    done = ToolFinished(call_id="c", outcome="completed", content=(Text("The file was updated."),))
    assert "content" not in told(edit, done)[1]
    failed = ToolFinished(call_id="c", outcome="failed", content=(Text("not found"),))
    assert [one["type"] for one in told(edit, failed)[1]["content"]] == ["diff", "content"]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("completed", "completed"),
        ("failed", "failed"),
        ("denied", "failed"),
        ("cancelled", "failed"),
    ],
)
def test_an_outcome_is_a_status_and_says_more_where_the_protocol_does_not(
    outcome: Any, status: str
) -> None:
    _, update = told(call(), ToolFinished(call_id="c", outcome=outcome))
    assert update["status"] == status
    words = [one["content"]["text"] for one in update.get("content", [])]
    assert words == ([outcome] if outcome in ("denied", "cancelled") else [])


def test_pictures_and_cut_texts() -> None:
    parts = (Image("image/png", "h"), Image("image/png", "gone"), Text("x", Cut(5)))
    [update] = told(ToolFinished(call_id="c", outcome="completed", content=parts))
    shown = [one["content"] for one in update["content"]]
    data = base64.b64encode(DOT).decode()
    assert shown[0] == {"type": "image", "mimeType": "image/png", "data": data}
    assert "no longer stored" in shown[1]["text"]
    assert shown[2]["text"] == "x\n… 5 bytes are left out"


def test_an_editor_with_terminals_gets_only_what_is_new_of_an_output() -> None:
    started, first, grown, end = told(
        call(),
        ToolUpdated(call_id="c", content=(Text("one\n"),)),
        ToolUpdated(call_id="c", content=(Text("one\ntwo\n"),)),
        ToolFinished(call_id="c", outcome="completed", content=(Text("one\ntwo\nthree\n"),)),
        shows_output=True,
    )
    assert started["content"] == [{"type": "terminal", "terminalId": "1.c"}]
    assert started["_meta"] == {"terminal_info": {"terminal_id": "1.c", "cwd": CWD}}
    shown = [one["_meta"]["terminal_output"]["data"] for one in (first, grown, end)]
    assert shown == ["one\n", "two\n", "three\n"]
    assert end["_meta"]["terminal_exit"]["exit_code"] == 0


def test_a_request_about_a_call_and_its_answers() -> None:
    updates = SessionUpdates(CWD, {}.get, ClientCapabilities())
    asked = PermissionRequested(
        request_id="r",
        tool="Bash",
        title="Bash",
        call_id="c",
        input={"command": "ls"},
        reason="why",
    )
    for entry in entries(call()):
        list(updates.encode(entry))
    shown = updates.asked(1, asked)
    assert (shown["toolCallId"], shown["status"]) == ("1.c", "pending")
    assert shown["content"][0]["content"]["text"] == "why"
    allowed = RequestAnswered(request_id="r", answer=Answer("allow"), by="person")
    [update] = [one for entry in entries(allowed) for one in updates.encode(entry)]
    assert (update["toolCallId"], update["status"]) == ("1.c", "in_progress")


def test_a_request_without_a_call_has_one_of_its_own_that_ends_with_the_answer() -> None:
    updates = SessionUpdates(CWD, {}.get, ClientCapabilities())
    asked = PermissionRequested(request_id="r", tool="Bash", title="Bash")
    id = updates.asked(1, asked)["toolCallId"]
    denied = RequestAnswered(request_id="r", answer=Answer("deny", note="no"), by="person")
    [update] = [one for entry in entries(denied) for one in updates.encode(entry)]
    assert (update["toolCallId"], update["status"]) == (id, "failed")
    assert update["content"][0]["content"]["text"] == "no"


def test_notices_go_to_who_knows_them_and_to_others_as_thoughts() -> None:
    warning = Notice(level="warning", kind="policy", text="careful")
    quiet = Notice(level="info", kind="session", text="nothing")
    retry = Notice(level="info", kind="retry", text="again")
    assert told(warning, quiet, notices=True) == [
        {"sessionUpdate": "notice", "severity": "warning", "title": "careful"}
    ]
    thoughts = [update["content"]["text"] for update in told(warning, quiet, retry)]
    assert thoughts == ["tillerman: careful\n", "tillerman: again\n"]


def test_settings_plans_and_usage() -> None:
    found = told(
        SettingsChanged(mode="plan"),
        SettingsChanged(title="A heron", commands=("/review", "init")),
        PlanChanged(steps=(PlanStep("look", "completed"),)),
        UsageReported(cost_usd=1.0),
        UsageReported(cost_usd=0.5, context_used=10, context_limit=100),
    )
    assert [update["sessionUpdate"] for update in found] == [
        "current_mode_update", "available_commands_update", "session_info_update", "plan",
        "usage_update",
    ]  # fmt: skip
    assert [one["name"] for one in found[1]["availableCommands"]] == ["review", "init"]
    assert found[4]["cost"] == {"amount": 1.5, "currency": "USD"}


def test_prompts_of_others_are_shown_with_their_files() -> None:
    picture, page = Attachment("p.png", "image/png", "h", 4), Attachment("n", "text/plain", "x", 2)
    start = TurnStarted(origin="prompt", prompt="look", attachments=(picture, page))
    found = told(
        start, UserMessage(text="hurry", how="steer"), UserMessage(text="x", how="handoff")
    )
    kinds = {update["sessionUpdate"] for update in found}
    assert kinds == {"user_message_chunk"}
    assert [one["content"]["type"] for one in found] == ["text", "image", "resource_link", "text"]
    updates = SessionUpdates(CWD, {}.get, ClientCapabilities())
    assert list(updates.encode(entries(start)[0], own=True)) == []


def test_a_history_has_no_withdrawn_text_no_notices_and_each_output_once() -> None:
    log = entries(
        TurnStarted(origin="prompt", prompt="go"),
        MessageChunk(message_id="m", text="void"),
        MessageWithdrawn(message_id="m"),
        Notice(level="warning", kind="retry", text="again"),
        MessageChunk(message_id="n", text="one "),
        MessageChunk(message_id="n", text="two"),
        call(),
        ToolUpdated(call_id="c", content=(Text("1"),)),
        ToolUpdated(call_id="c", content=(Text("12"),)),
        UsageReported(context_used=1, context_limit=9),
        ToolFinished(call_id="c", outcome="completed", content=()),
        UsageReported(context_used=2, context_limit=9),
    )
    updates = SessionUpdates(CWD, {}.get, ClientCapabilities())
    found = list(history(log, updates, frozenset({(1, "m")})))
    assert [update["sessionUpdate"] for update in found] == [
        "user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update",
        "tool_call_update", "usage_update",
    ]  # fmt: skip
    assert found[1]["content"]["text"] == "one two"
    assert found[3]["content"][0]["content"]["text"] == "12"
    assert found[5]["used"] == 2


def test_a_client_says_what_it_can() -> None:
    assert capabilities({"clientCapabilities": None}) == ClientCapabilities()
    able = {
        "fs": {"readTextFile": True},
        "elicitation": {"form": {}},
        "session": {"notices": {}},
        "auth": {"terminal": True},
        "_meta": {"terminal_output": True},
    }
    params = {"clientInfo": {"name": "zed"}, "clientCapabilities": able}
    assert capabilities(params) == ClientCapabilities("zed", True, True, True, True, True)
