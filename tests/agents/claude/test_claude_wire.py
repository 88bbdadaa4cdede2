"""Turns, messages and settings: what Claude's wire decodes from lines that no recording
contains."""

from __future__ import annotations

import json

import pytest

from tests.agents.claude.claude_says import (
    assistant,
    calls,
    encode,
    init,
    message_start,
    message_stop,
    prompted,
    receive,
    response,
    result,
    stream,
    system,
    text_delta,
    text_line,
    tool_result,
    wire,
)
from tillerman.core.agent import Prompt
from tillerman.core.events import (
    AgentReady,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    SettingsChanged,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
    decode_event,
)
from tillerman.core.events import (
    encode as encode_event,
)
from tillerman.core.failure import Failure

ENDED = [UsageReported(), TurnEnded(reason="completed")]


def chunk(message_id: str, text: str, parent: str | None = None) -> MessageChunk:
    return MessageChunk(message_id=message_id, text=text, parent=parent)


# -- turns ---------------------------------------------------------------------------------------


def test_an_agent_that_wakes_by_itself_begins_a_turn() -> None:
    claude = wire()
    assert receive(claude, init(), result("hi")) == [
        TurnStarted(origin="agent"),
        AgentReady(native_id="s1", model="opus"),
        chunk("", "hi"),
        *ENDED,
    ]


def test_a_prompted_turn_is_not_begun_again_by_the_agent() -> None:
    claude = prompted()
    assert receive(claude, init(), assistant(text_line("hi"), id="m1"), result("hi")) == [
        AgentReady(native_id="s1", model="opus"),
        chunk("m1:0", "hi"),
        *ENDED,
    ]


def test_messages_sent_in_mid_turn_belong_to_that_turn() -> None:
    claude = prompted()
    receive(claude, init())
    list(claude.prompt(Prompt("and this")))
    received = receive(claude, assistant(text_line("both"), id="m1"), result("both"))
    assert received == [chunk("m1:0", "both"), *ENDED]


def test_calls_left_open_by_a_turns_end_are_cancelled_with_what_is_inside_them() -> None:
    claude = prompted()
    receive(
        claude,
        assistant(calls("c1", "Agent", description="sub")),
        assistant(calls("c2", "Bash", command="ls"), parent="c1"),
    )
    assert receive(claude, result("stop"))[1:3] == [
        ToolFinished(call_id="c2", outcome="cancelled", parent="c1"),
        ToolFinished(call_id="c1", outcome="cancelled"),
    ]


def test_an_interrupt_ends_the_turn_as_cancelled() -> None:
    claude = prompted()
    (sent,) = claude.cancel()
    assert sent["request"] == {"subtype": "interrupt"}
    aborted = {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "terminal_reason": "aborted_tools",
    }
    assert receive(claude, aborted)[-1] == TurnEnded(reason="cancelled")


def test_structured_output_is_the_turns_result() -> None:
    claude = prompted()
    received = receive(claude, result('{"n":5}', structured_output={"n": 5}))
    assert received == [
        chunk("", '{"n":5}'),
        UsageReported(),
        TurnEnded(reason="completed", result={"n": 5}),
    ]


# -- words ---------------------------------------------------------------------------------------


def test_streamed_text_is_not_repeated_by_the_whole_message() -> None:
    claude = prompted()
    received = receive(
        claude,
        message_start("m1"),
        text_delta("Hel"),
        text_delta("lo"),
        assistant(text_line("Hello"), id="m1"),
        message_stop(),
    )
    assert received == [chunk("m1:0", "Hel"), chunk("m1:0", "lo")]


def test_two_blocks_of_one_message_stay_separate() -> None:
    claude = prompted()
    received = receive(
        claude,
        message_start("m1"),
        text_delta("one", 0),
        assistant(text_line("one"), id="m1"),
        text_delta("two", 1),
        assistant(text_line("two"), id="m1"),
    )
    assert received == [chunk("m1:0", "one"), chunk("m1:1", "two")]


def test_a_subagents_message_comes_whole_beside_the_agents_stream() -> None:
    claude = prompted()
    received = receive(
        claude,
        message_start("m1"),
        text_delta("I "),
        assistant(text_line("Sub."), id="m2", parent="c1"),
        assistant({"type": "thinking", "thinking": "Hm."}, id="m2", parent="c1"),
        text_delta("wait."),
        assistant(text_line("I wait."), id="m1"),
    )
    assert received == [
        chunk("m1:0", "I "),
        chunk("m2:0", "Sub.", parent="c1"),
        ThoughtChunk(message_id="m2:1", text="Hm.", parent="c1"),
        chunk("m1:0", "wait."),
    ]


def test_abandoned_blocks_are_withdrawn_and_finished_ones_stay() -> None:
    claude = prompted()
    receive(
        claude,
        message_start("m1"),
        text_delta("kept", 0),
        assistant(text_line("kept"), id="m1"),
        text_delta("lost", 1),
    )
    assert receive(claude, message_stop(abandoned_blocks={"from_block_index": 1})) == []
    assert receive(claude, message_start("m2"), text_delta("anew")) == [
        MessageWithdrawn(message_id="m1:1"),
        chunk("m2:0", "anew"),
    ]


@pytest.mark.parametrize("failed", [True, False])
def test_abandoned_blocks_stay_where_nothing_replaces_them(failed: bool) -> None:
    claude = prompted()
    receive(claude, message_start("m1"), text_delta("Half"))
    stop = message_stop(abandoned_blocks={"from_block_index": 0})
    received = receive(claude, stop, result(is_error=failed))
    gone = [event for event in received if isinstance(event, MessageWithdrawn)]
    assert gone == ([] if failed else [MessageWithdrawn(message_id="m1:0")])


def test_a_message_that_breaks_off_and_restarts_counts_once() -> None:
    claude = prompted()
    receive(claude, message_start("m1"), text_delta("Par"))
    assert receive(claude, message_start("m2"), text_delta("Whole")) == [
        MessageWithdrawn(message_id="m1:0"),
        chunk("m2:0", "Whole"),
    ]


def test_messages_of_an_interrupted_turn_are_not_withdrawn_by_the_next() -> None:
    claude = prompted()
    receive(
        claude, message_start("m1"), text_delta("Par"), result(terminal_reason="aborted_streaming")
    )
    list(claude.prompt(Prompt("again")))
    assert receive(claude, message_start("m2"), text_delta("Hi")) == [chunk("m2:0", "Hi")]


def test_a_delta_with_reordered_keys_is_decoded_too() -> None:
    claude = prompted()
    receive(claude, message_start("m1"))
    delta = {"delta": {"text": "Hi", "type": "text_delta"}, "index": 0}
    line = {"event": {**delta, "type": "content_block_delta"}, "type": "stream_event"}
    assert receive(claude, line) == [chunk("m1:0", "Hi")]


# -- settings ------------------------------------------------------------------------------------


def test_the_session_is_reported_once_and_again_when_its_id_or_model_changes() -> None:
    claude = prompted()
    commands = ["compact"]
    assert receive(
        claude,
        init("s1", "opus", slash_commands=commands),
        init("s1", "opus", slash_commands=commands),
        init("s1", "haiku", slash_commands=commands),
        init("s2", "haiku", slash_commands=[*commands, "context"]),
    ) == [
        AgentReady(native_id="s1", model="opus"),
        SettingsChanged(commands=("compact",)),
        AgentReady(native_id="s1", model="haiku"),
        AgentReady(native_id="s2", model="haiku"),
        SettingsChanged(commands=("compact", "context")),
    ]


def test_a_change_counts_when_the_agent_confirms_it() -> None:
    claude = wire()
    to_model, to_mode = claude.configure("haiku", "plan")
    assert [to_model["request"], to_mode["request"]] == [
        {"subtype": "set_model", "model": "haiku"},
        {"subtype": "set_permission_mode", "mode": "plan"},
    ]
    refusal = {"subtype": "error", "request_id": to_model["request_id"], "error": "no such model"}
    assert receive(
        claude,
        {"type": "control_response", "response": refusal},
        response(to_mode["request_id"], {"mode": "plan"}),
    ) == [
        Notice(level="error", kind="settings", text="no such model"),
        SettingsChanged(mode="plan"),
    ]


def test_an_agent_that_ignores_callbacks_is_reported() -> None:
    claude = wire()
    (hello,) = claude.greet()
    taken, refused = ({"hooks_applied": applied} for applied in (True, False))
    assert receive(claude, response(hello["request_id"], taken)) == []
    (notice,) = receive(claude, response(hello["request_id"], refused))
    assert isinstance(notice, Notice)
    assert notice.level == "error"


def test_leaving_plan_mode_is_reported_and_ask_mode_is_unchanged() -> None:
    planning = prompted("plan")
    reported = system("status", status=None, permissionMode="default")
    assert receive(planning, reported, reported) == [SettingsChanged(mode="agent")]
    assert receive(prompted("ask"), reported) == []


def test_a_title_is_reported() -> None:
    assert receive(wire(), system("session_title_changed", title="A fix")) == [
        SettingsChanged(title="A fix")
    ]


# -- notices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "notice"),
    [
        (
            system("compact_boundary", compact_metadata={"trigger": "auto", "pre_tokens": 9000}),
            Notice(
                level="info", kind="compaction", text="compacted the conversation of 9000 tokens"
            ),
        ),
        (
            system("model_fallback", content="switched to haiku"),
            Notice(level="warning", kind="fallback", text="switched to haiku"),
        ),
        (
            {
                "type": "rate_limit_event",
                "rate_limit_info": {
                    "status": "allowed_warning",
                    "resetsAt": 600,
                    "rateLimitType": "five_hour",
                },
            },
            Notice(
                level="warning",
                kind="limit",
                text="five hour limit nearly reached; it resets in 10 min",
            ),
        ),
    ],
)
def test_a_status_message_outside_the_work_becomes_a_notice(
    line: dict[str, object], notice: Notice
) -> None:
    assert receive(prompted(), line) == [notice]


def test_a_reached_limit_reports_how_long_to_wait() -> None:
    claude = prompted(now=100.0)
    info = {"status": "rejected", "resetsAt": 160}
    received = receive(
        claude,
        {"type": "rate_limit_event", "rate_limit_info": info},
        assistant(text_line("You hit your limit"), error="rate_limit"),
        result("You hit your limit", is_error=True, api_error_status=429),
    )
    assert received[-1] == TurnEnded(
        reason="failed",
        failure=Failure(
            kind="rate_limited",
            message="You hit your limit",
            status=429,
            retry_after=60.0,
            hint="wait, or use another agent or model",
        ),
    )


def test_a_subagents_failure_is_a_notice_and_does_not_fail_the_turn() -> None:
    claude = prompted()
    received = receive(
        claude,
        assistant(text_line("API Error: 500"), error="server_error", parent="c1"),
        assistant(text_line("It failed."), id="m1"),
        result("It failed."),
    )
    assert received == [
        Notice(level="error", kind="subagent", text="API Error: 500", parent="c1"),
        chunk("m1:0", "It failed."),
        *ENDED,
    ]


# -- lines that break naive code -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"not json", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe{\x00}\x00", "not JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b"42", "not a JSON object"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"type":"tomorrow"}', "a line of type 'tomorrow'"),
        (b'{"type":"system","subtype":"tomorrow"}', "a system line of subtype 'tomorrow'"),
        (b"{}", "a line of type ''"),
    ],
)
def test_an_unparsable_line_is_stored(line: bytes, why: str) -> None:
    (received,) = prompted().decode(line)
    assert isinstance(received, Unrecognized)
    assert received.raw == line.decode("utf-8", "replace")
    assert received.why.startswith(why)


@pytest.mark.parametrize(
    "value",
    [
        r'"\ud800"',
        "NaN",
        "1e999",
        str(2**70),
        "[" * 90 + "]" * 90,
        r'"\u0000"',
        '{"a": {"b": [1, -Infinity]}}',
    ],
)
def test_odd_values_in_a_call_and_a_result_do_not_stop_the_turn(value: str) -> None:
    claude = prompted()
    call = b'{"type":"tool_use","id":"c1","name":"Bash","input":{"command":%s}}' % value.encode()
    lines = [
        b'{"type":"assistant","message":{"id":"m1","content":[%s]}}' % call,
        b'{"type":"result","subtype":"success","is_error":false,"result":"","extra":%s}'
        % value.encode(),
    ]
    received = [event for line in lines for event in claude.decode(line)]
    assert isinstance(received[0], ToolStarted)
    assert received[-1] == TurnEnded(reason="completed")
    assert [decode_event(encode_event(event)) for event in received] == received  # type: ignore[arg-type]


def test_a_stream_line_without_a_key_is_ignored() -> None:
    assert receive(prompted(), stream({}), {"type": "stream_event"}) == []


def test_an_unknown_block_is_stored_and_the_next_ones_are_decoded() -> None:
    received = receive(prompted(), assistant({"type": "hologram"}, text_line("hi"), id="m1"))
    assert isinstance(received[0], Unrecognized)
    assert received[0].why == "a block of type 'hologram'"
    assert received[1:] == [chunk("m1:1", "hi")]


def test_a_tool_result_for_an_unknown_call_still_ends_it() -> None:
    assert receive(prompted(), tool_result("c9", "", parent="c1")) == [
        ToolFinished(call_id="c9", outcome="completed", parent="c1")
    ]


def test_the_fast_path_gives_the_same_event_as_the_full_decoder() -> None:
    quick, slow = prompted(), prompted()
    receive(quick, message_start("m1"))
    receive(slow, message_start("m1"))
    line = text_delta("Größe")
    spaced = json.dumps(line, ensure_ascii=False).encode()
    assert list(quick.decode(encode(line))) == list(slow.decode(spaced))
