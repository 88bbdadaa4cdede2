"""The log as a transcript."""

from __future__ import annotations

import random
import time
from typing import Any

from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Answer,
    Attachment,
    BackgroundChanged,
    BackgroundTask,
    Entry,
    Event,
    FileChange,
    FilesChanged,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    PlanChanged,
    PlanStep,
    Question,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
    UserMessage,
)
from tillerman.core.failure import Failure
from tillerman.core.transcript.blocks import (
    Message,
    PlanBlock,
    RequestBlock,
    TextBlock,
    Thought,
    ToolCallBlock,
    Turn,
)
from tillerman.core.transcript.transcript import Fold, Totals, Transcript, fold
from tillerman.core.transcript.turn_result import CallOutcome, Result, final_text, result


def at(second: int) -> str:
    return f"2026-03-01T10:{second // 60:02}:{second % 60:02}.000Z"


def log(*events: Event | tuple[int, Event]) -> list[Entry]:
    """Entries a second apart; a pair names its turn, otherwise it is the last one started."""
    entries: list[Entry] = []
    turn = 0
    for seq, item in enumerate(events, 1):
        event = item[1] if isinstance(item, tuple) else item
        if isinstance(event, TurnStarted):
            turn += 1
        number = item[0] if isinstance(item, tuple) else turn
        entries.append(Entry(session="s1", seq=seq, turn=number, at=at(seq), event=event))
    return entries


PROMPT = TurnStarted(origin="prompt", prompt="go")
DONE = TurnEnded(reason="completed")


def chunk(text: str, message_id: str = "m1", parent: str | None = None) -> MessageChunk:
    return MessageChunk(message_id=message_id, text=text, parent=parent)


def start(call_id: str, tool: str = "Read", parent: str | None = None) -> ToolStarted:
    return ToolStarted(call_id=call_id, tool=tool, name=tool, title=f"{tool} it", parent=parent)


def finish(call_id: str, outcome: Any = "completed", text: str = "") -> ToolFinished:
    return ToolFinished(call_id=call_id, outcome=outcome, content=(Text(text),) if text else ())


def blocks(*events: Event | tuple[int, Event]) -> list[Any]:
    return fold(log(PROMPT, *events)).turns[0].blocks


def test_a_whole_turn_folds_into_ordered_blocks() -> None:
    shot = Attachment("a.png", "image/png", "ab12", 7)
    usage = UsageReported(input_tokens=10, output_tokens=5, cost_usd=0.5)
    changed = FileChange("a.py", "modified", 1, 1)
    transcript = fold(
        log(
            AgentStarted(agent="claude", version="2.1", supervision="namespace"),
            AgentReady(native_id="n1", model="opus"),
            TurnStarted(origin="prompt", prompt="fix it", attachments=(shot,)),
            ThoughtChunk(message_id="m1", text="Let me "),
            ThoughtChunk(message_id="m1", text="look."),
            chunk("I will "),
            chunk("read."),
            ToolStarted(
                call_id="c1",
                tool="Read",
                name="read_file",
                title="Read `a.py`",
                input={"path": "a.py"},
                paths=("a.py",),
            ),
            finish("c1", text="x = 1"),
            chunk("Done.", "m2"),
            usage,
            FilesChanged(files=(changed,), left_out=2),
            DONE,
        )
    )
    assert transcript == Transcript(
        session="s1",
        agent="claude",
        version="2.1",
        supervision="namespace",
        native_id="n1",
        model="opus",
        turns=[
            Turn(
                number=1,
                origin="prompt",
                prompt="fix it",
                attachments=(shot,),
                status="completed",
                agent="claude",
                blocks=[
                    Thought("m1", "Let me look."),
                    Message("m1", "I will read."),
                    ToolCallBlock(
                        call_id="c1",
                        tool="Read",
                        name="read_file",
                        title="Read `a.py`",
                        input={"path": "a.py"},
                        paths=("a.py",),
                        state="completed",
                        content=(Text("x = 1"),),
                        turn=1,
                        started=at(8),
                        ended=at(9),
                    ),
                    Message("m2", "Done."),
                ],
                usage=usage,
                files=(changed,),
                files_left_out=2,
                started=at(3),
                ended=at(13),
            )
        ],
        last_seq=13,
    )


def test_the_result_of_a_turn_has_all_that_a_caller_asks_for() -> None:
    usage = UsageReported(input_tokens=10, output_tokens=5, cost_usd=0.5)
    changed = FileChange("a.py", "added", 3, 0)
    failure = Failure(kind="api_error", message="overloaded", status=529)
    transcript = fold(
        log(
            AgentStarted(agent="claude"),
            AgentReady(native_id="n1"),
            PROMPT,
            Notice(level="warning", kind="fallback", text="codex is not installed"),
            start("c1", "Task"),
            start("c2", parent="c1"),
            finish("c2", "failed"),
            finish("c1"),
            chunk("Half of it."),
            usage,
            FilesChanged(files=(changed,)),
            TurnEnded(reason="failed", failure=failure, result={"n": 1}),
        )
    )
    assert result(transcript, transcript.turns[0]) == Result(
        session="s1",
        turn=1,
        status="failed",
        text="Half of it.",
        failure=failure,
        output={"n": 1},
        calls=(
            CallOutcome("c1", "Task", "Task it", "completed"),
            CallOutcome("c2", "Read", "Read it", "failed"),
        ),
        files=(changed,),
        usage=usage,
        cost_usd=0.5,
        duration=9.0,
        agent="claude",
        native_id="n1",
        fallback=True,
    )


def test_text_after_a_call_is_a_block_of_its_own() -> None:
    folded = blocks(chunk("before "), start("c1"), finish("c1"), chunk("after"))
    assert [type(block).__name__ for block in folded] == ["Message", "ToolCallBlock", "Message"]
    assert [folded[0], folded[2]] == [Message("m1", "before "), Message("m1", "after")]


def test_a_notice_in_the_middle_does_not_divide_a_message() -> None:
    notice = Notice(level="info", kind="retry", text="again in 1 s")
    assert blocks(chunk("one "), notice, chunk("two")) == [Message("m1", "one two"), notice]


def test_a_withdrawn_message_leaves_nothing_and_can_be_sent_again() -> None:
    folded = blocks(
        ThoughtChunk(message_id="m1", text="hm"),
        chunk("wrong "),
        chunk("kept", "m0"),
        MessageWithdrawn(message_id="m1"),
        MessageWithdrawn(message_id="never said"),
        chunk("right"),
    )
    assert folded == [Message("m0", "kept"), Message("m1", "right")]


def test_a_subagents_blocks_lie_inside_its_call() -> None:
    folded = blocks(
        start("c1", "Task"),
        chunk("outer "),
        chunk("inner", "m9", parent="c1"),
        start("c2", parent="c1"),
        chunk("goes on"),
        finish("c2"),
        finish("c1"),
    )
    inner = ToolCallBlock("c2", "Read", "Read", "Read it", state="completed", turn=1)
    inner.started, inner.ended = at(5), at(7)
    outer = ToolCallBlock("c1", "Task", "Task", "Task it", state="completed", turn=1)
    outer.started, outer.ended, outer.blocks = at(2), at(8), [Message("m9", "inner"), inner]
    assert folded == [outer, Message("m1", "outer goes on")]


def test_background_work_stays_with_the_turn_that_started_it() -> None:
    transcript = fold(
        log(
            PROMPT,
            start("c1", "Task"),
            BackgroundChanged(tasks=(BackgroundTask("t1", "tests", "c1"),)),
            DONE,
            TurnStarted(origin="prompt", prompt="meanwhile"),
            (1, chunk("found it", "m7", parent="c1")),
            (1, finish("c1", text="ok")),
            BackgroundChanged(tasks=()),
            DONE,
        )
    )
    first, second = transcript.turns
    assert first.blocks == [
        ToolCallBlock(
            "c1",
            "Task",
            "Task",
            "Task it",
            state="completed",
            content=(Text("ok"),),
            blocks=[Message("m7", "found it")],
            turn=1,
            started=at(2),
            ended=at(7),
        )
    ]
    assert (second.blocks, transcript.background) == ([], ())


def test_the_session_is_busy_while_a_turn_or_a_background_task_runs() -> None:
    task = BackgroundChanged(tasks=(BackgroundTask("t1"),))
    folding, seen = Fold(), []
    for entry in log(PROMPT, task, DONE, BackgroundChanged(tasks=()), PROMPT, DONE):
        folding.add(entry)
        seen.append(folding.transcript.busy)
    assert seen == [True, True, True, False, True, False]


def test_a_cut_turn_cancels_its_calls_but_not_what_runs_in_the_background() -> None:
    transcript = fold(
        log(
            PROMPT,
            start("shell", "Bash"),
            start("agent", "Task"),
            start("inner", parent="agent"),
            BackgroundChanged(tasks=(BackgroundTask("t", call_id="agent"),)),
            TurnEnded(reason="cancelled"),
        )
    )
    outcomes = {
        call.call_id: call.outcome for call in result(transcript, transcript.turns[0]).calls
    }
    assert outcomes == {"shell": "cancelled", "agent": "running", "inner": "running"}


def test_nothing_runs_or_waits_once_the_agent_has_ended() -> None:
    ask = PermissionRequested(request_id="r1", tool="Bash", title="Bash `ls`")
    gone = AgentExited(code=None, signal=9)
    transcript = fold(
        log(PROMPT, start("c1"), ask, BackgroundChanged(tasks=(BackgroundTask("t"),)), gone)
    )
    call = ToolCallBlock("c1", "Read", "Read", "Read it", state="cancelled", turn=1)
    call.started, call.ended = at(2), at(5)
    assert transcript.turns[0].blocks == [call, RequestBlock(ask, by="withdrawn")]
    assert (transcript.requests, transcript.background, transcript.exited) == ({}, (), gone)


def test_requests_are_open_until_they_are_answered_and_then_name_who_answered() -> None:
    ask = PermissionRequested(request_id="r1", tool="Bash", title="Bash `ls`", call_id="c1")
    question = QuestionAsked(request_id="r2", questions=(Question("Which?"),))
    no = Answer("deny", note="not now")
    transcript = fold(
        log(
            PROMPT,
            ask,
            question,
            RequestAnswered(request_id="r1", answer=no, by="person", surface="terminal"),
        )
    )
    answered, still_open = RequestBlock(ask, no, "person", "terminal"), RequestBlock(question)
    assert transcript.turns[0].blocks == [answered, still_open]
    assert transcript.requests == {"r2": still_open}
    assert (answered.open, still_open.open) == (False, True)


def test_ends_without_beginnings_are_shown_as_far_as_they_are_known() -> None:
    transcript = fold(
        log(
            (3, finish("c9", "failed", "boom")),
            (3, RequestAnswered(request_id="r9", answer=Answer("allow"), by="policy")),
            (3, chunk("inside", parent="c8")),
            (3, ToolUpdated(call_id="c7", title="Now known")),
            (3, DONE),
        )
    )
    assert transcript.turns == [
        Turn(
            3,
            status="completed",
            ended=at(5),
            blocks=[
                ToolCallBlock(
                    "c9",
                    title="c9",
                    state="failed",
                    content=(Text("boom"),),
                    turn=3,
                    ended=at(1),
                ),
                ToolCallBlock("c8", title="c8", blocks=[Message("m1", "inside")], turn=3),
                ToolCallBlock("c7", title="Now known", turn=3),
            ],
        )
    ]


def test_the_plan_is_listed_once_with_its_latest_steps() -> None:
    first, second = (PlanStep("look"),), (PlanStep("look", "completed"), PlanStep("mend"))
    folded = blocks(PlanChanged(steps=first), chunk("on it"), PlanChanged(steps=second))
    assert folded == [PlanBlock(second), Message("m1", "on it")]


def test_an_update_replaces_the_output_of_a_call_and_an_end_without_output_keeps_it() -> None:
    (call,) = blocks(
        start("c1", "Bash"),
        ToolUpdated(call_id="c1", content=(Text("10 %"),)),
        ToolUpdated(call_id="c1", title="Bash `make`", content=(Text("90 %"),)),
        finish("c1"),
    )
    assert (call.title, call.content, call.state) == ("Bash `make`", (Text("90 %"),), "completed")


def test_a_call_reported_twice_is_one_call_and_a_reused_id_is_another() -> None:
    transcript = fold(
        log(PROMPT, start("c1", "Edit"), start("c1", "Write"), finish("c1"), DONE)
        + log((2, PROMPT), (2, start("c1", "Bash")))
    )
    assert [[call.tool for call in turn.blocks] for turn in transcript.turns] == [  # type: ignore[union-attr]
        ["Write"],
        ["Bash"],
    ]


def test_steering_and_queued_prompts_are_shown_where_they_were_sent() -> None:
    folded = blocks(chunk("a"), UserMessage(text="faster", how="steer"))
    assert folded == [Message("m1", "a"), TextBlock("faster", "steer")]


def test_what_comes_before_the_first_turn_is_the_opening() -> None:
    old = UserMessage(text="earlier", how="imported")
    transcript = fold(log(old, chunk("then")))
    assert transcript.opening == [TextBlock("earlier", "imported"), Message("m1", "then")]
    assert transcript.turns == []


def test_settings_keep_what_a_change_does_not_name() -> None:
    transcript = fold(
        log(
            AgentReady(native_id="n1", model="opus"),
            SettingsChanged(mode="plan", commands=("/help",)),
            SettingsChanged(title="Mend the build"),
            AgentReady(native_id="n2"),
            Unrecognized(raw="?"),
        )
    )
    assert transcript == Transcript(
        session="s1",
        native_id="n2",
        model="opus",
        mode="plan",
        title="Mend the build",
        commands=("/help",),
        unrecognized=1,
        last_seq=5,
    )


def test_totals_add_all_reports_of_all_turns() -> None:
    transcript = fold(
        log(
            PROMPT,
            UsageReported(input_tokens=1, output_tokens=1, cost_usd=0.25),
            UsageReported(input_tokens=10, output_tokens=2, cost_usd=0.5, context_used=70),
            UsageReported(input_tokens=99, parent="c1"),
            DONE,
            PROMPT,
            UsageReported(input_tokens=5, cached_tokens=3, context_used=90, context_limit=200),
            DONE,
        )
    )
    assert transcript.totals == Totals(16, 3, 3, 0.75, 90, 200)


def test_totals_of_an_agent_that_reports_no_cost_have_none() -> None:
    assert fold(log(PROMPT, UsageReported(input_tokens=1))).totals == Totals(input_tokens=1)


def test_the_final_text_is_the_text_after_the_last_call() -> None:
    turn = fold(
        log(PROMPT, chunk("plan", "a"), start("c1"), chunk("one", "b"), chunk("two", "c"))
    ).turns[0]
    assert final_text(turn) == "one\n\ntwo"


def test_the_final_text_of_a_turn_cut_inside_a_call_is_the_text_before_it() -> None:
    turn = fold(log(PROMPT, chunk("old", "a"), start("c1"), chunk("last", "b"), start("c2"))).turns[
        0
    ]
    assert final_text(turn) == "last"


def test_the_final_text_leaves_subagents_out() -> None:
    turn = fold(
        log(PROMPT, chunk("mine"), start("c1", "Task"), chunk("theirs", parent="c1"))
    ).turns[0]
    assert final_text(turn) == "mine"


def test_a_clock_set_back_gives_no_negative_duration() -> None:
    first, last = log(PROMPT, DONE)
    turned = [
        first,
        Entry(session="s1", seq=2, turn=1, at="2025-01-01T00:00:00Z", event=last.event),
    ]
    assert fold(turned).turns[0].duration == 0.0


def test_an_agent_that_takes_over_during_a_turn_is_the_turns_agent() -> None:
    transcript = fold(log(AgentStarted(agent="codex"), PROMPT, AgentStarted(agent="claude"), DONE))
    assert (transcript.turns[0].agent, transcript.agent) == ("claude", "claude")


def test_folding_as_entries_arrive_equals_folding_the_log_and_never_raises() -> None:
    chance = random.Random(7)
    ids = ["a", "b", "c", "d"]

    def anything() -> Event:
        one, parent = chance.choice(ids), chance.choice([None, *ids])
        kinds: list[Event] = [
            MessageChunk(message_id=one, text="x", parent=parent),
            ThoughtChunk(message_id=one, text="y", parent=parent),
            MessageWithdrawn(message_id=one, parent=parent),
            ToolStarted(call_id=one, tool="Task", name="t", title="t", parent=parent),
            ToolUpdated(call_id=one, title="u", parent=parent),
            ToolFinished(call_id=one, outcome="denied", parent=parent),
            PlanChanged(steps=(), parent=parent),
            PermissionRequested(request_id=one, tool="Bash", title="b", parent=parent),
            RequestAnswered(request_id=one, answer=Answer("deny"), by="timeout"),
            TurnStarted(origin="agent"),
            TurnEnded(reason="cancelled"),
            BackgroundChanged(tasks=(BackgroundTask("t", call_id=one),)),
            UsageReported(input_tokens=1, parent=parent),
            AgentExited(code=0),
        ]
        return chance.choice(kinds)

    for _ in range(200):
        entries = log(*((chance.randrange(4), anything()) for _ in range(60)))
        folding = Fold()
        for entry in entries:
            folding.add(entry)
            for turn in folding.transcript.turns:
                result(folding.transcript, turn)
        assert folding.transcript == fold(entries)


def test_a_hundred_thousand_chunks_and_calls_fold_in_linear_time() -> None:
    entries = [Entry(session="s", seq=1, turn=1, at=at(1), event=PROMPT)]
    for seq in range(2, 100_002):
        event: Event = chunk("word ") if seq % 4 else start(str(seq))
        entries.append(Entry(session="s", seq=seq, turn=1, at=at(1), event=event))
    begun = time.process_time()
    transcript = fold(entries)
    spent = time.process_time() - begun
    assert len(transcript.turns[0].blocks) == 50_001
    assert spent < 5  # quadratic work would take minutes


def test_calls_nested_to_any_depth_are_all_counted() -> None:
    events = [start(str(n), "Task", parent=str(n - 1) if n else None) for n in range(5_000)]
    transcript = fold(log(PROMPT, *events))
    assert len(result(transcript, transcript.turns[0]).calls) == 5_000
