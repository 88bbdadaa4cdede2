"""What the wire decodes from messages that no recording contains, and from invalid ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.codex.codex_says import (
    Talk,
    ask,
    begun,
    completed,
    delta,
    done,
    encode,
    refuse,
    report,
)
from tillerman.core.agent import Exit
from tillerman.core.events import (
    BackgroundChanged,
    BackgroundTask,
    Diff,
    Image,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PlanChanged,
    PlanStep,
    SettingsChanged,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.core.wire import AttachmentBytes, WireReply

KINDS = json.loads((Path(__file__).parents[2] / "recordings" / "codex" / "kinds.json").read_text())


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk.begin()
    return talk


@pytest.mark.parametrize("method", KINDS["notifications"])
def test_every_notification_of_the_schema_is_known(talk: Talk, method: str) -> None:
    item = {"type": "agentMessage", "id": "m"}
    assert not [
        one for one in talk.receive(report(method, item=item)) if isinstance(one, Unrecognized)
    ]


@pytest.mark.parametrize("kind", KINDS["items"])
def test_every_item_of_the_schema_is_known(talk: Talk, kind: str) -> None:
    reported = talk.receive(begun(kind, "i1"), done(kind, "i1"), completed())
    assert not [one for one in reported if isinstance(one, Unrecognized)]
    begins = [one.call_id for one in reported if isinstance(one, ToolStarted)]
    assert begins == [one.call_id for one in reported if isinstance(one, ToolFinished)]


@pytest.mark.parametrize("method", KINDS["requests"])
def test_every_request_of_the_schema_is_forwarded_or_answered(talk: Talk, method: str) -> None:
    messages = list(talk.wire.decode(encode(ask(7, method))))
    assert len(messages) in (1, 2)
    assert not [one for one in messages if isinstance(one, Unrecognized)]


def test_an_unknown_request_is_refused_and_stored(talk: Talk) -> None:
    reply, stored = talk.wire.decode(encode(ask(7, "item/new/thing")))
    assert isinstance(reply, WireReply)
    assert reply.message["id"] == 7
    assert reply.message["error"]["code"] == -32601
    assert isinstance(stored, Unrecognized)


@pytest.mark.parametrize(
    "message",
    [
        report("thread/new/thing"),
        begun("newThing", "i1"),
        done("newThing", "i1"),
        {"id": 99, "result": {}},
        {"id": [], "result": {}},
        {"hello": 1},
    ],
)
def test_unknown_message_becomes_unrecognized(talk: Talk, message: object) -> None:
    [stored] = talk.wire.decode(encode(message))
    assert isinstance(stored, Unrecognized)
    assert json.loads(stored.raw) == message


def test_a_message_is_completed_by_the_text_that_was_not_streamed(talk: Talk) -> None:
    reported = talk.receive(delta("m1", "Hel"), done("agentMessage", "m1", text="Hello"))
    assert reported == [MessageChunk(message_id="m1", text=text) for text in ("Hel", "lo")]


def test_a_message_whose_final_text_differs_is_replaced(talk: Talk) -> None:
    reported = talk.receive(delta("m1", "Hel"), done("agentMessage", "m1", text="Good day"))
    assert reported[1:] == [
        MessageWithdrawn(message_id="m1"),
        MessageChunk(message_id="m1:whole", text="Good day"),
    ]


def test_a_message_without_its_text_keeps_the_streamed_text(talk: Talk) -> None:
    assert talk.receive(delta("m1", "Hello"), done("agentMessage", "m1")) == [
        MessageChunk(message_id="m1", text="Hello")
    ]


def test_a_retry_withdraws_what_had_begun(talk: Talk) -> None:
    error = {"message": "Reconnecting... 1/5", "additionalDetails": "the stream broke"}
    reported = talk.receive(
        done("agentMessage", "m0", text="Whole."),
        delta("m1", "Ha"),
        report("error", error=error, willRetry=True),
    )
    assert reported[2:] == [
        MessageWithdrawn(message_id="m1"),
        Notice(
            level="warning",
            kind="retry",
            text="Reconnecting... 1/5 (the stream broke)",
            failure=Failure(kind="agent_failed", message="the stream broke"),
        ),
    ]


def test_reasoning_arrives_as_summaries_and_raw(talk: Talk) -> None:
    reported = talk.receive(
        report("item/reasoning/summaryTextDelta", itemId="r", delta="One.", summaryIndex=0),
        report("item/reasoning/textDelta", itemId="r", delta="raw", contentIndex=0),
        done("reasoning", "r", summary=["One.", "Two."], content=["raw"]),
    )
    assert reported == [
        ThoughtChunk(message_id="r:0", text="One."),
        ThoughtChunk(message_id="r:raw0", text="raw"),
        ThoughtChunk(message_id="r:1", text="Two."),
    ]


def test_the_plan_and_a_proposed_plan_are_reported(talk: Talk) -> None:
    plan = [
        {"step": "look", "status": "completed"},
        {"step": "act", "status": "inProgress"},
        {"step": "rest", "status": "pending"},
    ]
    reported = talk.receive(
        report("turn/plan/updated", plan=plan),
        report("item/plan/delta", itemId="p1", delta="# Plan"),
        done("plan", "p1", text="# Plan\n1. act"),
    )
    assert reported == [
        PlanChanged(
            steps=(
                PlanStep("look", "completed"),
                PlanStep("act", "in_progress"),
                PlanStep("rest"),
            )
        ),
        MessageChunk(message_id="p1", text="# Plan"),
        MessageChunk(message_id="p1", text="\n1. act"),
    ]


def test_output_is_streamed_and_the_item_has_the_final_text(talk: Talk) -> None:
    reported = talk.receive(
        begun("commandExecution", "c1", command="/bin/bash -lc 'make all'"),
        report("item/commandExecution/outputDelta", itemId="c1", delta="two\n"),
        done("commandExecution", "c1", status="completed", aggregatedOutput="one\ntwo\n"),
    )
    assert [type(one) for one in reported] == [ToolStarted, ToolUpdated, ToolFinished]
    assert reported[1:] == [
        ToolUpdated(call_id="c1", content=(Text("two\n"),)),
        ToolFinished(call_id="c1", outcome="completed", content=(Text("one\ntwo\n"),)),
    ]


def test_long_output_is_shown_by_its_end_and_not_repeatedly(talk: Talk) -> None:
    talk.receive(begun("commandExecution", "c1", command="yes"))
    piece = report("item/commandExecution/outputDelta", itemId="c1", delta="y\n" * 50)
    shown = talk.receive(*[piece] * 2000)  # 200 kB
    sizes = [len(one.content[0].text) for one in shown if isinstance(one, ToolUpdated)]  # type: ignore[union-attr]
    assert max(sizes) == 2000
    assert sum(sizes) < 5 * 200_000
    last = shown[-1]
    assert isinstance(last, ToolUpdated)
    assert isinstance(last.content[0], Text)
    assert last.content[0].cut is not None


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/bin/bash -lc 'echo \"a b\"'", 'echo "a b"'),
        ("zsh -c ls", "ls"),
        ("/bin/bash -lc 'unclosed", "/bin/bash -lc 'unclosed"),
        ("/bin/bash -lc ls extra", "/bin/bash -lc ls extra"),
        ("python -c 'x'", "python -c 'x'"),
        ("", ""),
    ],
)
def test_a_command_is_shown_without_its_shell(talk: Talk, command: str, shown: str) -> None:
    [begin] = talk.receive(begun("commandExecution", "c1", command=command))
    assert isinstance(begin, ToolStarted)
    assert begin.input["command"] == shown


def test_a_call_whose_end_is_reported_twice_ends_once(talk: Talk) -> None:
    end = done("commandExecution", "c1", command="ls", status="declined")
    reported = talk.receive(begun("commandExecution", "c1", command="ls"), end, end)
    assert [type(one) for one in reported] == [ToolStarted, ToolFinished]


def test_the_fast_path_emits_what_the_full_decoder_emits(talk: Talk) -> None:
    words = delta("m1", "naïve 😀 words")
    spelled_otherwise = dict(reversed(words.items()))
    [quick], [slow] = talk.receive(words), talk.receive(spelled_otherwise)
    assert quick == slow
    for broken in ({**words, "params": []}, {**words, "params": {"itemId": 7, "delta": "x"}}):
        assert not [one for one in talk.receive(broken) if isinstance(one, Unrecognized)]


def test_a_patch_that_failed_or_was_declined_shows_no_diff(talk: Talk) -> None:
    change = {"path": "/proj/a", "kind": {"type": "add"}, "diff": "x\n"}
    for status, outcome in (("failed", "failed"), ("declined", "denied")):
        _, end = talk.receive(
            begun("fileChange", status, changes=[change]),
            done("fileChange", status, changes=[change], status=status),
        )
        assert end == ToolFinished(call_id=status, outcome=outcome)  # type: ignore[arg-type]


def test_a_patch_that_grew_has_a_call_for_each_file_at_its_end(talk: Talk) -> None:
    one = {"path": "/proj/a", "kind": {"type": "add"}, "diff": "x\n"}
    two = {"path": "/proj/b", "kind": {"type": "delete"}, "diff": "y\n"}
    reported = talk.receive(
        begun("fileChange", "f", changes=[one]),
        done("fileChange", "f", changes=[one, two], status="completed"),
    )
    assert [(type(one), getattr(one, "call_id", "")) for one in reported] == [
        (ToolStarted, "f"),
        (ToolFinished, "f"),
        (ToolStarted, "f:1"),
        (ToolFinished, "f:1"),
    ]
    assert reported[-1] == ToolFinished(
        call_id="f:1", outcome="completed", content=(Diff("/proj/b", old="y\n"),)
    )


def test_an_image_of_a_tool_is_stored_and_an_invalid_one_is_reported(talk: Talk) -> None:
    content = [
        {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="},
        {"type": "image", "mimeType": "image/png", "data": "!"},
        {"type": "resource", "uri": "x:y"},
    ]
    reported = talk.receive(
        begun("mcpToolCall", "t", server="s", tool="draw", arguments={}),
        done("mcpToolCall", "t", server="s", tool="draw", result={"content": content}),
    )
    sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert reported[1:] == [
        AttachmentBytes(b"hello"),
        ToolFinished(
            call_id="t",
            outcome="completed",
            content=(
                Image("image/png", sha256),
                Text("(an image that cannot be decoded)"),
                Text('{"type": "resource", "uri": "x:y"}'),
            ),
        ),
    ]


def test_searches_and_pages_have_titles(talk: Talk) -> None:
    search = {"type": "search", "query": "weather"}
    page = {"type": "openPage", "url": "https://example.com"}
    reported = talk.receive(
        begun("webSearch", "w1", query="weather", action=search),
        begun("webSearch", "w2", query="", action=page),
    )
    assert [(one.tool, one.title) for one in reported if isinstance(one, ToolStarted)] == [
        ("WebSearch", "Search the web for `weather`"),
        ("WebFetch", "Fetch `https://example.com`"),
    ]


def test_a_subagent_is_shown_inside_its_call_and_counts_for_the_turn(talk: Talk) -> None:
    used = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    reported = talk.receive(
        begun("collabAgentToolCall", "s1", tool="spawnAgent", prompt="look", receiverThreadIds=[]),
        done("collabAgentToolCall", "s1", tool="spawnAgent", receiverThreadIds=["t2"]),
        report("turn/started", "t2", turn={"id": "u2"}),
        delta("m2", "Found.", "t2"),
        done("agentMessage", "m2", "t2", text="Found."),
        report("thread/tokenUsage/updated", "t2", tokenUsage={"total": used, "last": used}),
        completed(thread="t2", turn="u2"),
    )
    begin = ToolStarted(
        call_id="s1",
        tool="Task",
        name="spawn_agent",
        title="Task `look`",
        input={"description": "look"},
    )
    assert reported == [
        begin,
        MessageChunk(message_id="m2", text="Found.", parent="s1"),
        UsageReported(input_tokens=10, output_tokens=5),
        ToolFinished(call_id="s1", outcome="completed", content=(Text("Found."),)),
    ]


def test_a_subagent_that_continues_after_the_turn_is_in_the_background(talk: Talk) -> None:
    talk.receive(
        begun("subAgentActivity", "s1", kind="started", agentThreadId="t2", agentPath="/agents/a"),
        report("turn/started", "t2", turn={"id": "u2"}),
    )
    task = BackgroundTask("s1", "Task `/agents/a`", "s1")
    assert talk.receive(completed()) == [
        ToolFinished(
            call_id="s1", outcome="completed", content=(Text("Works in the background."),)
        ),
        BackgroundChanged(tasks=(task,)),
        TurnEnded(reason="completed"),
    ]
    talk.send(talk.wire.cancel())
    assert talk.last("turn/interrupt")["params"] == {"threadId": "t2", "turnId": "u2"}
    assert talk.receive(completed("interrupted", thread="t2", turn="u2")) == [
        BackgroundChanged(tasks=())
    ]


def test_settings_are_reported_when_they_change(talk: Talk) -> None:
    def settings(model: str, mode: str) -> dict[str, object]:
        return {"model": model, "collaborationMode": {"mode": mode}}

    reported = talk.receive(
        report("thread/settings/updated", threadSettings=settings("gpt-5.5", "default")),
        report("thread/settings/updated", threadSettings=settings("gpt-5.4", "plan")),
        report("thread/settings/updated", threadSettings=settings("gpt-5.4", "default")),
        report("thread/name/updated", threadName="Fixing it"),
    )
    assert reported == [
        SettingsChanged(model="gpt-5.4"),
        SettingsChanged(mode="plan"),
        SettingsChanged(mode="agent"),
        SettingsChanged(title="Fixing it"),
    ]


def test_a_limit_is_reported_when_near_and_a_failure_has_its_reset_time(talk: Talk) -> None:
    def limits(percent: int) -> dict[str, object]:
        return {"primary": {"usedPercent": percent, "resetsAt": 1600}, "secondary": None}

    reported = talk.receive(
        report("account/rateLimits/updated", rateLimits=limits(50)),
        report("account/rateLimits/updated", rateLimits=limits(100)),
        completed("failed", error={"message": "limit", "codexErrorInfo": "usageLimitExceeded"}),
    )
    assert reported[0] == Notice(
        level="warning",
        kind="limit",
        text="100 % of the account's limit is used; it resets in 10 min",
    )
    end = reported[-1]
    assert isinstance(end, TurnEnded)
    assert end.failure is not None
    assert (end.failure.kind, end.failure.retry_after) == ("rate_limited", 600)


def test_notices_of_servers_hooks_and_the_model(talk: Talk) -> None:
    run = {"status": "blocked", "eventName": "preToolUse", "entries": [{"text": "not today"}]}
    reported = talk.receive(
        report("mcpServer/startupStatus/updated", name="web", status="failed", error="no route"),
        report("hook/completed", run=run),
        report("model/rerouted", fromModel="a", toModel="b"),
        report("configWarning", summary="odd key", details="line 3"),
        begun("contextCompaction", "x"),
        done("contextCompaction", "x"),
    )
    assert [(one.kind, one.text) for one in reported if isinstance(one, Notice)] == [
        ("session", "MCP server 'web' did not start: no route"),
        ("session", "a hook on preToolUse blocked: not today"),
        ("fallback", "a was replaced with b"),
        ("settings", "odd key: line 3"),
        ("compaction", "compacted the conversation"),
    ]


def test_a_program_that_exits_during_the_handshake_gives_the_reason() -> None:
    talk = Talk()
    why = talk.wire.explain(Exit(1, None), "\nError: No such device or address (os error 6)\n")
    assert why == Failure(
        kind="agent_failed",
        message="codex ended before its app-server answered: "
        "Error: No such device or address (os error 6)",
        hint="update codex, or use `-a codex-exec`",
    )
    talk.open()
    assert talk.wire.explain(Exit(1, None), "panic") is None


def test_an_app_server_that_rejects_our_requests_may_be_outdated() -> None:
    talk = Talk()
    talk.prompt()
    unknown = "Invalid request: unknown variant `thread/start`, expected one of `newConversation`"
    [end] = talk.receive(refuse(talk.last("thread/start"), unknown))
    assert isinstance(end, TurnEnded)
    assert end.failure is not None
    assert "codex-exec" in end.failure.hint
