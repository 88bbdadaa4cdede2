"""What an ACP agent sends in a turn, as events."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.acp.acp_far_side import ROW, Talk, opened
from tillerman.agents.acp.dialect import AcpDialect, AcpQuestions
from tillerman.agents.acp.tool_calls import MOST_RECEIVED
from tillerman.agents.jsonrpc.peer import RpcRequest
from tillerman.core.events import (
    Answer,
    Cut,
    Diff,
    Image,
    MessageChunk,
    Notice,
    Option,
    PermissionRequested,
    PlanChanged,
    PlanStep,
    Question,
    QuestionAsked,
    RequestAnswered,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
)
from tillerman.core.failure import Failure

END = {"stopReason": "end_turn"}
LS = {"toolCallId": "c1", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}
STARTED = ToolStarted(
    call_id="c1", tool="Bash", name="execute", title="Bash `ls`", input={"command": "ls"}
)
DONE = TurnEnded(reason="completed")


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


# -- words -----------------------------------------------------------------------------------------


def test_chunks_without_ids_form_one_message_until_another_event() -> None:
    talk = opened()
    talk.send_text("a")
    talk.send_text("")
    talk.send_text("b")
    talk.send_update("agent_thought_chunk", content={"type": "text", "text": "\n\n"})
    talk.send_update("agent_thought_chunk", content={"type": "text", "text": "hm"})
    talk.send_text("c")
    talk.send_update("tool_call", **LS, status="completed")
    talk.send_text("d")
    words = [one for one in talk.received if isinstance(one, MessageChunk | ThoughtChunk)]
    assert words == [
        MessageChunk(message_id="m1", text="a"),
        MessageChunk(message_id="m1", text="b"),
        ThoughtChunk(message_id="m2", text="hm"),
        MessageChunk(message_id="m3", text="c"),
        MessageChunk(message_id="m4", text="d"),
    ]


def test_ids_of_the_agent_are_preserved() -> None:
    talk = opened()
    talk.send_text("a", messageId="x")
    talk.send_text("b", messageId="y")
    assert talk.received == [
        MessageChunk(message_id="x", text="a"),
        MessageChunk(message_id="y", text="b"),
    ]


def test_a_line_with_reordered_keys_decodes_alike() -> None:
    talk = opened()
    update = {"content": {"text": "a", "type": "text"}, "sessionUpdate": "agent_message_chunk"}
    params = {"update": update, "sessionId": "s1"}
    assert talk.receives({"params": params, "method": "session/update"}) == [
        MessageChunk(message_id="m1", text="a")
    ]


def test_remarks_of_the_agent_become_notices() -> None:
    talk = opened(row=replace(ROW, notice_prefixes=("Info: ",)))
    assert talk.send_text("Info: no network\n") == [
        Notice(level="info", kind="session", text="Info: no network")
    ]
    assert talk.send_text("Information") == [MessageChunk(message_id="m1", text="Information")]


def test_messages_inside_a_subagents_call_name_the_call() -> None:
    talk = opened(row=replace(ROW, parent="_meta.parentToolCallId"))
    talk.send_text("inside", _meta={"parentToolCallId": "c9"})
    talk.send_text("outside")
    assert talk.received == [
        MessageChunk(message_id="m1", text="inside", parent="c9"),
        MessageChunk(message_id="m2", text="outside"),
    ]


def test_messages_outside_of_a_turn_start_no_turn() -> None:
    talk = opened()
    talk.answers(END)
    talk.received.clear()
    talk.send_text("by the way")
    talk.send_update("tool_call", **LS)
    [stray, call] = talk.received
    assert stray == Notice(level="info", kind="stray", text="by the way")
    assert isinstance(call, Unrecognized)
    assert call.why == "a tool_call outside of a turn"


def test_an_agent_that_wakes_by_itself_has_a_turn_until_it_reports_the_end() -> None:
    talk = opened(row=replace(ROW, turn_over="acme/over"))
    talk.answers(END)
    talk.received.clear()
    talk.send_text("news")
    talk.receives({"method": "acme/over", "params": {}})
    talk.receives({"method": "acme/over", "params": {}})
    assert talk.received == [
        TurnStarted(origin="agent"),
        MessageChunk(message_id="m1", text="news"),
        DONE,
    ]


# -- calls -----------------------------------------------------------------------------------------


def test_a_call_begins_when_its_input_is_known() -> None:
    talk = opened()
    empty = {**LS, "rawInput": {}, "title": "Terminal"}
    assert talk.send_update("tool_call", **empty, status="pending") == []
    assert talk.send_update("tool_call_update", **LS) == [STARTED]
    assert talk.send_update("tool_call_update", toolCallId="c1", status="in_progress") == []
    output = _text("a.txt\n")
    assert talk.send_update("tool_call_update", toolCallId="c1", content=output) == [
        ToolUpdated(call_id="c1", content=(Text("a.txt\n"),))
    ]
    assert talk.send_update("tool_call_update", toolCallId="c1", status="completed") == [
        ToolFinished(call_id="c1", outcome="completed")
    ]
    assert talk.send_update("tool_call_update", toolCallId="c1", status="failed") == []


def test_output_that_is_sent_whole_each_time_is_reported_as_it_grows() -> None:
    talk = opened()
    talk.send_update("tool_call", **LS, status="in_progress")
    talk.received.clear()
    for lines in range(1, 1001):
        talk.send_update("tool_call_update", toolCallId="c1", content=_text("line\n" * lines))
    assert len(talk.received) < 40
    everything = Text("line\n" * 1000)
    done = {"toolCallId": "c1", "status": "completed", "content": _text(everything.text)}
    assert talk.send_update("tool_call_update", **done) == [
        ToolFinished(call_id="c1", outcome="completed", content=(everything,))
    ]


def test_an_update_for_an_unknown_call_starts_it() -> None:
    talk = opened()
    assert talk.send_update("tool_call_update", **LS, status="completed", rawOutput="a.txt") == [
        STARTED,
        ToolFinished(call_id="c1", outcome="completed", content=(Text("a.txt"),)),
    ]


def test_calls_left_open_end_with_the_turn() -> None:
    talk = opened()
    talk.send_update("tool_call", **LS, status="in_progress")
    pending = {"toolCallId": "c2", "title": "Edit", "kind": "edit", "rawInput": {}}
    talk.send_update("tool_call", **pending, status="pending")
    assert talk.answers(END) == [
        ToolFinished(call_id="c1", outcome="cancelled"),
        ToolStarted(call_id="c2", tool="Edit", name="edit", title="Edit"),
        ToolFinished(call_id="c2", outcome="cancelled"),
        DONE,
    ]


@pytest.mark.parametrize(
    ("raw", "outcome", "text"),
    [
        ({"exit_code": 3, "aggregated_output": "oops"}, "failed", "oops"),
        ({"output": "oops", "metadata": {"exit": 3}}, "failed", "oops"),
        ({"exitCode": 0, "stdout": "out", "stderr": "err"}, "completed", "outerr"),
        ({"contents": [{"exitCode": 2}], "content": "no"}, "failed", "no"),
        ("fine", "completed", "fine"),
        ([{"type": "text", "text": "one"}, {"text": "two"}], "completed", "one\ntwo"),
    ],
)
def test_a_failed_command_is_failed_whatever_its_status(raw: Any, outcome: Any, text: str) -> None:
    talk = opened()
    talk.send_update("tool_call", **LS, status="in_progress")
    assert talk.send_update(
        "tool_call_update", toolCallId="c1", status="completed", rawOutput=raw
    ) == [ToolFinished(call_id="c1", outcome=outcome, content=(Text(text),))]


def test_output_in_a_fence_is_reported_without_the_fence() -> None:
    talk = opened()
    talk.send_update("tool_call", **LS, status="in_progress")
    fenced = _text("```\na.txt\n```")
    done = {"toolCallId": "c1", "status": "completed", "rawOutput": "a.txt", "content": fenced}
    assert talk.send_update("tool_call_update", **done) == [
        ToolFinished(call_id="c1", outcome="completed", content=(Text("a.txt"),))
    ]


def test_a_diff_reported_before_the_end_is_the_result_of_an_edit() -> None:
    talk = opened()
    diff = {"type": "diff", "path": "/proj/a", "oldText": "x", "newText": "y"}
    edit = {"toolCallId": "c1", "kind": "edit", "title": "Edit", "content": [diff]}
    talk.send_update("tool_call", **edit, status="in_progress")
    talk.send_update("tool_call_update", toolCallId="c1", status="completed", rawOutput="ok")
    change = Diff("/proj/a", old="x", new="y")
    input = {"file_path": "/proj/a", "old_string": "x", "new_string": "y"}
    assert talk.received == [
        ToolStarted(
            call_id="c1", tool="Edit", name="edit", title="Edit `a`", input=input,
            paths=("/proj/a",),
        ),
        ToolUpdated(call_id="c1", content=(change,)),
        ToolFinished(call_id="c1", outcome="completed", content=(change,)),
    ]  # fmt: skip


def test_output_chunks_are_concatenated() -> None:
    talk = opened()
    talk.send_update("tool_call", **LS, status="in_progress", content=[{"type": "terminal"}])
    talk.received.clear()
    for piece in ("a.txt\n", "b.txt\n"):
        meta = {"terminal_output_delta": {"data": piece, "terminal_id": "c1"}}
        talk.send_update("tool_call_update", toolCallId="c1", _meta=meta)
    talk.send_update("tool_call_update", toolCallId="c1", status="completed")
    whole = (Text("a.txt\nb.txt\n"),)
    assert talk.received == [
        ToolUpdated(call_id="c1", content=(Text("a.txt\n"),)),
        ToolUpdated(call_id="c1", content=whole),
        ToolFinished(call_id="c1", outcome="completed", content=whole),
    ]


def test_output_without_an_end_is_cut_and_marked_as_cut() -> None:
    talk = opened()
    talk.send_update("tool_call", **LS, status="in_progress")
    meta = {"terminal_output_delta": {"data": "x" * MOST_RECEIVED}}
    for _ in range(2):
        talk.send_update("tool_call_update", toolCallId="c1", _meta=meta)
    [end] = talk.send_update("tool_call_update", toolCallId="c1", status="completed")
    cut = Text("x" * MOST_RECEIVED, Cut(MOST_RECEIVED))
    assert end == ToolFinished(call_id="c1", outcome="completed", content=(cut,))


def test_an_image_of_a_tool_is_stored() -> None:
    talk = opened()
    block = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"png").decode()}
    content = [{"type": "content", "content": block}]
    talk.send_update("tool_call", **LS, status="completed", content=content)
    image = Image("image/png", hashlib.sha256(b"png").hexdigest())
    assert talk.received[-1] == ToolFinished(call_id="c1", outcome="completed", content=(image,))
    assert talk.kept == [b"png"]


@pytest.mark.parametrize(
    ("call", "tool", "title"),
    [
        ({"kind": "read", "rawInput": {"command": ["/bin/sh", "-c", "ls"]}}, "Bash", "Bash `ls`"),
        ({"kind": "search", "rawInput": {"pattern": "x"}}, "Grep", "Look"),
        ({"kind": "other", "rawInput": {"server": "s", "tool": "t"}}, "MCP", "MCP `s.t`"),
        ({"kind": "edit", "locations": [{"path": "/proj/a"}]}, "Edit", "Edit `a`"),
        ({"name": "exec_command", "rawInput": {"command": "ls"}}, "Bash", "Bash `ls`"),
        ({"kind": "edit", "content": [{"type": "diff", "path": "/proj/a"}]}, "Write", "Write `a`"),
        ({"kind": "think"}, "other", "Look"),
        ({}, "other", "Look"),
    ],
)  # fmt: skip
def test_a_tool_without_a_name_is_identified_by_its_input(
    call: dict[str, Any], tool: str, title: str
) -> None:
    talk = opened()
    talk.send_update("tool_call", toolCallId="c1", title="Look", status="in_progress", **call)
    started = talk.received[0]
    assert isinstance(started, ToolStarted)
    assert (started.tool, started.title) == (tool, title)


@pytest.mark.parametrize(
    ("place", "call", "tool"),
    [
        ("_meta.toolName", {"_meta": {"toolName": "run_shell_command"}}, "Bash"),
        ("title", {"title": "todowrite"}, "TodoWrite"),
        ("title", {"title": "files_read_it"}, "MCP"),
        ("id", {"toolCallId": "mcp_x_y__1"}, "MCP"),
        ("id", {"toolCallId": "write_file__fc_1"}, "Write"),
        ("title", {"title": "frobnicate"}, "frobnicate"),
        ("_meta.toolName", {"_meta": 7}, "other"),
    ],
)
def test_the_tool_name_is_read_from_the_field_of_the_row(place: str, call: Any, tool: str) -> None:
    talk = opened(row=replace(ROW, tool_name=place), servers={"files": {"command": "x"}})
    call = {"toolCallId": "c1", "title": "t", "status": "in_progress", **call}
    [started] = talk.send_update("tool_call", **call)
    assert isinstance(started, ToolStarted)
    assert started.tool == tool


def test_a_todo_list_becomes_the_plan() -> None:
    talk = opened(row=replace(ROW, tool_name="title"))
    todos = [{"content": "look", "status": "completed"}, {"content": "act", "status": "odd"}]
    call = {"toolCallId": "c1", "title": "todowrite", "rawInput": {"todos": todos}}
    steps = (PlanStep("look", "completed"), PlanStep("act"))
    assert talk.send_update("tool_call", **call, status="completed")[-1] == PlanChanged(steps=steps)
    assert talk.send_update("plan", entries=todos) == [PlanChanged(steps=steps)]


# -- permission ------------------------------------------------------------------------------------


def test_a_request_names_the_call_and_offers_the_options_that_apply_once() -> None:
    talk = opened()
    started, asked = talk.request_permission(7, {**LS, "content": _text("not on the list")})
    assert started == STARTED
    assert asked == PermissionRequested(
        request_id="7",
        tool="Bash",
        title="Bash `ls`",
        input={"command": "ls"},
        call_id="c1",
        options=(
            Option("allow", "allow_once", "allow"),
            Option("deny", "reject_once", "deny"),
        ),
        reason="not on the list",
    )


@pytest.mark.parametrize(
    ("answer", "kinds", "outcome"),
    [
        ("allow", ("allow_always", "allow_once", "reject_once"), "the-allow_once"),
        ("deny", ("reject_always", "reject_once", "allow_once"), "the-reject_once"),
        ("the-allow_always", ("allow_always", "allow_once"), None),
        ("allow", ("allow_always", "reject_once"), None),
        ("deny", ("allow_always", "reject_always"), None),
        ("allow", ("from_tomorrow",), None),
    ],
)
def test_an_answer_never_chooses_always(
    answer: str, kinds: tuple[str, ...], outcome: str | None
) -> None:
    talk = opened()
    talk.request_permission("id", LS, *kinds)
    [reported] = talk.wire.answer('"id"', Answer(answer))
    selected = {"outcome": "selected", "optionId": outcome} if outcome else {"outcome": "cancelled"}
    assert reported == {"jsonrpc": "2.0", "id": "id", "result": {"outcome": selected}}


def test_a_request_that_the_agent_cancels_is_withdrawn_and_ended() -> None:
    talk = opened()
    talk.request_permission("id", LS)
    cancel = {"method": "$/cancel_request", "params": {"requestId": "id"}}
    withdrawn = RequestAnswered(request_id='"id"', answer=Answer("deny"), by="withdrawn")
    assert talk.receives(cancel) == [withdrawn]
    assert talk.sent[-1] == {
        "jsonrpc": "2.0",
        "id": "id",
        "result": {"outcome": {"outcome": "cancelled"}},
    }
    assert talk.receives(cancel) == []
    assert list(talk.wire.answer('"id"', Answer("allow"))) == []
    for odd in (None, {}, [1], 7, "other"):
        assert talk.receives({"method": "$/cancel_request", "params": {"requestId": odd}}) == []


def test_an_option_named_allow_is_not_assumed_to_allow() -> None:
    talk = opened()
    options = [
        {"optionId": "allow", "kind": "allow_always", "name": "for ever"},
        {"optionId": "once", "kind": "allow_once", "name": "once"},
    ]
    params = {"sessionId": "s1", "toolCall": LS, "options": options}
    talk.receives({"id": 1, "method": "session/request_permission", "params": params})
    [reported] = talk.wire.answer("1", Answer("allow"))
    assert reported["result"]["outcome"]["optionId"] == "once"


def test_an_agent_that_stops_at_a_denial_gets_the_reason_and_continues_in_the_same_turn() -> None:
    talk = opened(row=replace(ROW, stops=True))
    talk.request_permission(1, LS)
    list(talk.wire.answer("1", Answer("deny", note="herons nest there")))
    talk.send_update("tool_call_update", toolCallId="c1", status="failed")
    text = "the agent stopped after a denial: it is told the reason and continues"
    assert talk.answers(END) == [Notice(level="info", kind="session", text=text)]
    words = "This was denied: Bash `ls` (herons nest there)"
    assert talk.sent[-1]["params"]["prompt"] == [{"type": "text", "text": words}]
    talk.send_text("Then not.")
    assert talk.answers(END) == [DONE]


def test_an_agent_that_continues_after_a_denial_gets_no_further_message() -> None:
    talk = opened(row=replace(ROW, stops=True))
    talk.request_permission(1, LS)
    list(talk.wire.answer("1", Answer("deny", note="herons nest there")))
    talk.send_text("Then not.")
    assert talk.answers(END) == [DONE]


def test_an_agent_that_stops_at_a_denial_and_is_cancelled_gets_no_further_message() -> None:
    talk = opened(row=replace(ROW, stops=True))
    talk.request_permission(1, LS)
    list(talk.wire.answer("1", Answer("deny")))
    talk.wire.cancel()
    end = TurnEnded(reason="cancelled")
    assert talk.answers({"stopReason": "cancelled"})[-1] == end


def test_a_changed_input_denies_the_call_since_the_agent_cannot_be_given_it() -> None:
    talk = opened()
    talk.request_permission(1, LS)
    [reported] = talk.wire.answer("1", Answer("allow", input={"command": "rm"}))
    assert reported["result"]["outcome"]["optionId"] == "the-reject_once"
    talk.received.clear()
    talk.send_text("well")
    notice = "Acme does not accept changed input: the call was denied"
    assert talk.received == [
        Notice(level="warning", kind="settings", text=notice),
        ToolFinished(call_id="c1", outcome="denied"),
        MessageChunk(message_id="m1", text="well"),
    ]


@pytest.mark.parametrize("status", ["failed", "completed"])
def test_a_denied_call_ends_denied_whatever_its_status(status: str) -> None:
    talk = opened()
    talk.request_permission(1, LS)
    list(talk.wire.answer("1", Answer("deny")))
    [end] = talk.send_update(
        "tool_call_update", toolCallId="c1", status=status, content=_text("no")
    )
    assert end == ToolFinished(call_id="c1", outcome="denied", content=(Text("no"),))
    assert talk.answers(END) == [DONE]


def test_a_denied_call_without_an_end_is_over_when_the_agent_continues() -> None:
    talk = opened()
    talk.request_permission(1, LS)
    list(talk.wire.answer("1", Answer("deny")))
    assert talk.send_text("so be it") == [
        ToolFinished(call_id="c1", outcome="denied"),
        MessageChunk(message_id="m1", text="so be it"),
    ]
    assert talk.answers(END) == [DONE]


def test_a_turn_that_ends_because_of_a_denial_reports_it() -> None:
    talk = opened()
    talk.request_permission(1, LS)
    list(talk.wire.answer("1", Answer("deny")))
    why = Failure(
        kind="denied",
        message="the agent ended its turn after a call was denied",
        hint="prompt again to continue",
    )
    assert talk.answers({"stopReason": "cancelled"}) == [
        ToolFinished(call_id="c1", outcome="denied"),
        TurnEnded(reason="failed", failure=why),
    ]


def test_a_cancel_answers_open_requests() -> None:
    talk = opened()
    talk.request_permission("a", LS)
    talk.request_permission(2, {**LS, "toolCallId": "c2"})
    cancelled = {"outcome": {"outcome": "cancelled"}}
    assert list(talk.wire.cancel()) == [
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}},
        {"jsonrpc": "2.0", "id": "a", "result": cancelled},
        {"jsonrpc": "2.0", "id": 2, "result": cancelled},
    ]
    assert list(talk.wire.answer("2", Answer("allow"))) == []
    assert talk.answers({"stopReason": "cancelled"})[-1] == TurnEnded(reason="cancelled")


def test_a_call_that_fails_of_a_cancel_was_cancelled() -> None:
    talk = opened()
    talk.send_update("tool_call", **LS, status="in_progress")
    list(talk.wire.cancel())
    [end] = talk.send_update("tool_call_update", toolCallId="c1", status="failed")
    assert end == ToolFinished(call_id="c1", outcome="cancelled")


class Curious(AcpDialect):
    def asking(self, asked: RpcRequest) -> AcpQuestions | None:
        if asked.method != "acme/ask":
            return None
        question = Question(str(asked.params.get("question")))
        return AcpQuestions(
            (question,), lambda answer: {"said": answer.answers, "to": answer.option}
        )


def test_a_dialect_can_define_its_own_questions() -> None:
    talk = opened(dialect=Curious)
    asked = talk.receives({"id": 3, "method": "acme/ask", "params": {"question": "Why?"}})
    assert asked == [QuestionAsked(request_id="3", questions=(Question("Why?"),))]
    [reported] = talk.wire.answer("3", Answer("allow", answers={"Why?": "so"}))
    assert reported["result"] == {"said": {"Why?": "so"}, "to": "allow"}
    talk.receives({"id": 4, "method": "acme/ask", "params": {}})
    assert [one for one in talk.wire.cancel() if one.get("id") == 4] == [
        {"jsonrpc": "2.0", "id": 4, "result": {"said": None, "to": "deny"}}
    ]


# -- what the client does not offer, and unknown messages ------------------------------------------


@pytest.mark.parametrize(
    ("method", "kept"),
    [("fs/read_text_file", False), ("terminal/create", False), ("acme/odd", True)],
)
def test_a_method_that_is_not_offered_is_refused(method: str, kept: bool) -> None:
    talk = opened()
    received = talk.receives({"id": "x", "method": method, "params": {"path": "/etc/passwd"}})
    error = {"code": -32601, "message": f"{method!r} is not supported"}
    assert talk.sent[-1] == {"jsonrpc": "2.0", "id": "x", "error": error}
    assert [type(one) for one in received] == ([Unrecognized] if kept else [])


def test_ignored_updates_of_a_row_emit_nothing() -> None:
    talk = opened(row=replace(ROW, ignores=("acme/odd",)))
    assert talk.receives({"method": "acme/odd", "params": {}}) == []
    assert talk.receives({"id": 1, "method": "acme/odd", "params": {}}) == []
    assert talk.sent[-1]["error"]["code"] == -32601


def test_an_unknown_update_is_stored() -> None:
    talk = opened()
    [stored] = talk.send_update("dance_update", steps=3)
    assert isinstance(stored, Unrecognized)
    assert stored.why == "an update of kind 'dance_update'"
    assert "steps" in stored.raw


def test_an_update_of_another_session_is_no_event_of_this_one() -> None:
    talk = opened()
    [stored] = talk.send_text("whisper", session="s2")
    assert isinstance(stored, Unrecognized)
    assert stored.why == "'agent_message_chunk' of another session"


@pytest.mark.parametrize(("result", "reason"), [({"stopReason": "tired"}, "tired"), (None, "none")])
def test_a_stop_for_an_unknown_reason_completes_the_turn_with_a_notice(
    result: Any, reason: str
) -> None:
    notice = f"the agent stopped for an unknown reason: {reason}"
    assert opened().answers(result) == [
        Notice(level="warning", kind="session", text=notice),
        DONE,
    ]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("max_tokens", "output_limit"), ("max_turn_requests", "turn_limit"), ("refusal", "refused")],
)
def test_a_stop_that_is_a_failure_fails_the_turn(reason: str, kind: str) -> None:
    [end] = opened().answers({"stopReason": reason})
    assert isinstance(end, TurnEnded)
    assert end.failure
    assert (end.reason, end.failure.kind) == ("failed", kind)
    assert end.failure.hint


def test_an_answer_to_nothing_ends_no_turn() -> None:
    talk = opened()
    [stored] = talk.receives({"id": 99, "result": END})
    assert isinstance(stored, Unrecognized)
    assert talk.answers(END) == [DONE]
    [stored] = talk.answers(END)
    assert isinstance(stored, Unrecognized)


# -- usage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        # cache beside the input, and thoughts in the output
        ({"inputTokens": 200, "outputTokens": 30, "cachedReadTokens": 80, "totalTokens": 310},
         (200, 30, 80)),
        # cache beside the input, and thoughts beside the output
        ({"inputTokens": 60, "outputTokens": 10, "thoughtTokens": 5, "cachedReadTokens": 40,
          "totalTokens": 115}, (60, 15, 40)),
        # all within the two
        ({"inputTokens": 200, "outputTokens": 30, "thoughtTokens": 10, "cachedReadTokens": 80,
          "totalTokens": 230}, (120, 30, 80)),
        # what was written to the cache was read again
        ({"inputTokens": 10, "outputTokens": 5, "cachedWriteTokens": 100, "totalTokens": 115},
         (110, 5, 0)),
        # no total
        ({"inputTokens": 10, "outputTokens": 5, "thoughtTokens": 2}, (10, 7, 0)),
        ({"inputTokens": "many", "outputTokens": -3}, (0, 0, 0)),
    ],
)  # fmt: skip
def test_tokens_are_counted_by_their_total(usage: Any, counted: tuple[int, ...]) -> None:
    received = opened().answers({**END, "usage": usage})
    used = [(one.input_tokens, one.output_tokens, one.cached_tokens) for one in received
            if isinstance(one, UsageReported)]  # fmt: skip
    assert used == ([counted] if any(counted) else [])


CALL = {"usage": {"inputTokens": 50, "outputTokens": 7, "totalTokens": 57}}


def test_tokens_reported_after_each_model_call_are_emitted_at_once_and_once() -> None:
    talk = opened()
    part = UsageReported(input_tokens=50, output_tokens=7, context_used=50, call="done")
    for _ in range(2):
        assert talk.send_text("", _meta=CALL) == [part]
    assert talk.answers(END) == [DONE]
    talk.prompt()
    assert talk.answers(END) == [DONE]


def test_the_final_response_adds_only_tokens_not_yet_reported() -> None:
    talk = opened()
    talk.send_text("", _meta=CALL)
    whole = {"inputTokens": 60, "outputTokens": 7, "totalTokens": 67}
    rest = UsageReported(input_tokens=10, context_used=50)
    assert talk.answers({**END, "usage": whole}) == [rest, DONE]


def test_the_context_that_a_call_reads_is_reported_once_as_the_call_begins() -> None:
    talk = opened()

    def begun(used: int) -> UsageReported:
        return UsageReported(context_used=used, context_limit=100, call="begun")

    assert talk.send_update("usage_update", used=10, size=100) == [begun(10)]
    assert talk.send_update("usage_update", used=12, size=100) == []
    talk.send_update("tool_call", **LS, status="completed")
    assert talk.send_update("usage_update", used=20, size=100) == [begun(20)]
    assert talk.answers({**END, "usage": {"inputTokens": 30, "outputTokens": 2}}) == [
        UsageReported(input_tokens=30, output_tokens=2, context_used=20, context_limit=100),
        DONE,
    ]
    assert talk.send_update("usage_update", used=21, size=100) == []


def test_the_count_of_the_last_call_is_no_count_of_a_turn_with_tools() -> None:
    talk = opened(row=replace(ROW, usage="call"))
    usage = {"inputTokens": 5, "outputTokens": 1}
    assert talk.answers({**END, "usage": usage}) == [
        UsageReported(input_tokens=5, output_tokens=1),
        DONE,
    ]
    talk.prompt()
    talk.send_update("tool_call", **LS, status="completed")
    assert talk.answers({**END, "usage": usage}) == [DONE]


def test_cost_is_what_the_session_cost_more() -> None:
    talk = opened()
    paid = []
    for cost in (0.5, 0.75):
        talk.send_update(
            "usage_update", used=10, size=100, cost={"amount": cost, "currency": "USD"}
        )
        used, _ = talk.answers(END)
        assert isinstance(used, UsageReported)
        paid.append((used.cost_usd, used.context_used, used.context_limit))
        talk.prompt()
    assert paid == [(0.5, 10, 100), (0.25, 10, 100)]


def test_cost_in_another_currency_is_left_out() -> None:
    talk = opened()
    talk.send_update("usage_update", used=10, size=100, cost={"amount": 3, "currency": "EUR"})
    assert talk.answers(END) == [UsageReported(context_used=10, context_limit=100), DONE]


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "status", "message"),
    [
        ({"code": 401, "message": '{"error":{"code":401,"message":"bad key"}}'},
         "not_signed_in", 401, "bad key"),
        ({"code": 429, "message": "Slow down. Retry after 7s."}, "rate_limited", 429,
         "Slow down. Retry after 7s."),
        ({"code": 500, "message": "models/x is not found"}, "model_not_found", None,
         "models/x is not found"),
        ({"code": 500, "message": "boom"}, "api_error", 500, "boom"),
        ({"code": -32603, "message": "Internal error", "data": {"details": "401 bad key"}},
         "not_signed_in", 401, "401 bad key"),
        ({"code": -32603, "message": "Internal error: gone", "data": {"errorKind": "rate_limit"}},
         "rate_limited", None, "gone"),
        ({"code": -32603, "message": "Internal error",
          "data": {"message": "no", "codex_error_info": {"x": {"http_status_code": 429}}}},
         "rate_limited", 429, "no"),
        ({"code": -32603, "message": "Internal error",
          "data": {"message": "full", "codex_error_info": "usage_limit_exceeded"}},
         "rate_limited", None, "full"),
        ({"code": -32603, "message": "Internal error: odd", "data": {"errorName": "APIError"}},
         "api_error", None, "odd"),
        ({"code": -32603, "message": "prompt is too long: 9 tokens"}, "context_overflow", None,
         "prompt is too long: 9 tokens"),
        ({"code": -32603, "message": "Internal error", "data": [{"path": ["cwd"]}]},
         "agent_failed", None, "Internal error"),
        ({"code": "x", "message": 7}, "agent_failed", None, "no reason was given"),
        ("odd", "agent_failed", None, "no reason was given"),
    ],
)  # fmt: skip
def test_an_error_is_read_wherever_it_is(error: Any, kind: str, status: Any, message: str) -> None:
    [end] = opened().answers(error=error)
    assert isinstance(end, TurnEnded)
    assert end.failure
    assert (end.failure.kind, end.failure.status, end.failure.message) == (kind, status, message)


def test_a_retry_delay_is_read_from_the_message() -> None:
    [end] = opened().answers(error={"code": 429, "message": "Suggested retry after 7s."})
    assert isinstance(end, TurnEnded)
    assert end.failure
    assert end.failure.retry_after == 7


class Strict(AcpDialect):
    def failure(self, error: Any) -> Failure | None:
        return Failure(kind="billing", message="pay") if error.code == 7 else None


def test_a_dialect_reads_its_own_errors_first() -> None:
    [end] = opened(dialect=Strict).answers(error={"code": 7, "message": "no"})
    assert end == TurnEnded(reason="failed", failure=Failure(kind="billing", message="pay"))


def test_an_error_after_a_cancel_is_reported_as_the_cancel() -> None:
    talk = opened()
    list(talk.wire.cancel())
    assert talk.answers(error={"code": -32603, "message": "aborted"}) == [
        TurnEnded(reason="cancelled")
    ]


def test_a_turn_that_completed_before_the_cancel_is_complete() -> None:
    talk = opened()
    list(talk.wire.cancel())
    assert talk.answers(END) == [DONE]


def test_a_cancel_outside_of_a_turn_sends_nothing() -> None:
    talk = opened()
    talk.answers(END)
    assert list(talk.wire.cancel()) == []


# -- hostile ---------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, 0, -1, True, "x", [], [None], {}, {"text": 7}, 1e300, "\ud800")


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    "update",
    [
        "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan",
        "usage_update", "available_commands_update", "current_mode_update",
        "config_option_update", "session_info_update",
    ],
)  # fmt: skip
def test_no_value_of_a_wrong_type_raises(update: str, odd: Any) -> None:
    keys = (
        "content", "toolCallId", "title", "kind", "status", "rawInput", "rawOutput", "locations",
        "entries", "used", "cost", "availableCommands", "currentModeId", "configOptions",
        "messageId", "_meta",
    )  # fmt: skip
    good: dict[str, Any] = {**LS, "status": "completed", "content": _text("x")}
    talk = opened()
    for key in keys:
        talk.send_update(update, **{**good, key: odd})
    talk.send_update(update, **dict.fromkeys(keys, odd))
    assert isinstance(talk.answers(odd)[-1], TurnEnded)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_request_of_a_wrong_type_raises(odd: Any) -> None:
    talk = opened()
    for params in (odd, {"toolCall": odd, "options": odd}, {"options": [odd, {"kind": odd}]}):
        talk.receives({"id": 1, "method": "session/request_permission", "params": params})
        list(talk.wire.answer("1", Answer("allow")))
    talk.answers(END)
    assert talk.received[-1] == DONE


def test_a_flood_of_calls_ends_with_the_turn() -> None:
    talk = opened()
    for number in range(2000):
        talk.send_update("tool_call", **{**LS, "toolCallId": f"c{number}"}, status="in_progress")
    ends = [one for one in talk.answers(END) if isinstance(one, ToolFinished)]
    assert len(ends) == 2000


def test_two_conversations_share_no_state() -> None:
    one, other = opened(), opened()
    one.send_update("tool_call", **LS, status="in_progress")
    assert other.answers(END) == [DONE]
    assert isinstance(one, Talk)
