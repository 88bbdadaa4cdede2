"""Entries rendered as screen text; compared completely, at 72 columns."""

import io
import random
import re

from rich.console import Console

from tillerman.core.events import (
    AgentReady,
    Answer,
    Choice,
    Diff,
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
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
    UserMessage,
)
from tillerman.core.failure import Failure
from tillerman.surfaces.cli.views.live_screen import LiveScreen

BASH = ToolStarted(call_id="c1", tool="Bash", name="run", title="Bash `make`")
READ = ToolStarted(call_id="c2", tool="Read", name="read", title="Read `a.py`")


def draw(*events: Event, prompts: bool = True, resumable: bool = True) -> LiveScreen:
    drawing = LiveScreen(prompts=prompts, resumable=resumable, clock=lambda: 0.0)
    for n, event in enumerate(events, 1):
        at = f"2026-01-01T00:00:{n:02d}.000Z"
        drawing.add(Entry(session="3fa2b19c01", seq=n, turn=1, at=at, event=event))
    return drawing


def screen(
    *events: Event, color: bool = False, prompts: bool = True, resumable: bool = True
) -> list[str]:
    drawing = draw(*events, prompts=prompts, resumable=resumable)
    drawing.end()
    return printed(drawing.take(), color)


def printed(pieces: list, color: bool = False) -> list[str]:
    file = io.StringIO()
    console = Console(
        file=file, width=72, force_terminal=color, color_system="standard" if color else None,
        highlight=False, markup=False, emoji=False,
    )  # fmt: skip
    for piece in pieces:
        console.print(piece)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_turn_reads_from_top_to_bottom() -> None:
    assert screen(
        AgentReady(native_id="n", model="mock-quick"),
        TurnStarted(origin="prompt", prompt="Fix it"),
        ThoughtChunk(message_id="t", text="Where is "),
        ThoughtChunk(message_id="t", text="the fault?"),
        MessageChunk(message_id="m", text="I **loo"),
        MessageChunk(message_id="m", text="k**.\n\n## Then\n\n```\nx = 1\n```\n"),
        READ,
        ToolFinished(call_id="c2", outcome="completed", content=(Text("what was read"),)),
        UsageReported(input_tokens=1500, output_tokens=20, cost_usd=0.5),
        FilesChanged(files=(FileChange("a.py", "modified", 2, 1),)),
        TurnEnded(reason="completed"),
    ) == [
        "● mock-quick",
        "› Fix it",
        "",
        "  Where is the fault?",
        "",
        "I look.",
        "",
        "Then",
        "",
        "  x = 1",
        "",
        "✓ Read a.py  1.0 s",
        "✓ completed · 9.0 s · 1.5k in, 20 out · $0.5000 · 1 file changed (+2 −1)",
        'session 3fa2b19c01 · to continue: tillerman run --resume 3fa2b19c01 "…"',
    ]


def test_the_resume_command_is_shown_where_the_agent_can_resume() -> None:
    assert screen(TurnEnded(reason="completed"), resumable=False) == ["✓ completed"]


def test_unparsable_lines_are_counted_beside_the_spinner_and_reported_once_a_turn() -> None:
    start, strange = TurnStarted(origin="prompt", prompt="x"), Unrecognized(raw="?")
    below = draw(start, strange, prompts=False).below()
    assert printed([below]) == ["⠋ working  1 line of agent output not recognized"]
    end = TurnEnded(reason="completed")
    turns = (start, strange, strange, end, start, end, start, strange)
    assert screen(*turns, prompts=False, resumable=False) == [
        "i 2 lines of agent output not recognized",
        "✓ completed · 3.0 s",
        "✓ completed · 1.0 s",
        "i 1 line of agent output not recognized",
    ]


def test_backticks_that_are_part_of_a_command_are_shown() -> None:
    end = ToolFinished(call_id="c", outcome="completed")
    for title, shown in {
        "Bash `make`": "Bash make",
        "Edit `a`, `b` +1 more files": "Edit a, b +1 more files",
        "Search `x` in `y`": "Search x in y",
        "Bash `echo `id``": "Bash `echo `id``",
        "Bash `a` rm -rf x `b`": "Bash `a` rm -rf x `b`",
        "Bash ``id``": "Bash ``id``",
    }.items():
        call = ToolStarted(call_id="c", tool="Bash", name="run", title=title)
        assert screen(call, end) == [f"✓ {shown}  1.0 s"]


def test_a_call_shows_how_it_ended_and_the_end_of_its_output() -> None:
    output = "\n".join(f"line {n}" for n in range(9))
    assert screen(BASH, ToolFinished(call_id="c1", outcome="failed", content=(Text(output),))) == [
        "✗ Bash make  failed  1.0 s",
        "  … 3 lines",
        *(f"  line {n}" for n in range(3, 9)),
    ]


def test_a_diff_is_shown_from_a_patch_or_from_both_texts() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
    expected = ["✓ Edit x  1.0 s", "  @@ -1 +1 @@", "  -old", "  +new"]
    call = ToolStarted(call_id="c", tool="Edit", name="edit", title="Edit `x`")
    for diff in (Diff("x", patch=patch), Diff("x", old="old\n", new="new\n")):
        end = ToolFinished(call_id="c", outcome="completed", content=(diff,))
        assert screen(call, end) == expected


def test_a_changed_line_that_looks_like_a_header_is_shown() -> None:
    old, new = "-- users\nkept\n", "++ admins\nkept\n"
    header = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n"
    patch = f"{header}@@ -1,2 +1,2 @@\n--- users\n+++ admins\n kept\n"
    expected = ["✓ Edit x  1.0 s", "  @@ -1,2 +1,2 @@", "  --- users", "  +++ admins", "   kept"]
    call = ToolStarted(call_id="c", tool="Edit", name="edit", title="Edit `x`")
    for diff in (Diff("x", patch=patch), Diff("x", old=old, new=new)):
        end = ToolFinished(call_id="c", outcome="completed", content=(diff,))
        assert screen(call, end) == expected


def test_added_and_removed_lines_have_their_colours() -> None:
    diff = Diff("x", patch="@@ -1 +1 @@\n-old\n+new\n")
    lines = screen(
        BASH, ToolFinished(call_id="c1", outcome="completed", content=(diff,)), color=True
    )
    assert "\x1b[31m-old" in lines[2]
    assert "\x1b[32m+new" in lines[3]


def test_what_a_subagent_does_is_shown_inside_its_call() -> None:
    task = ToolStarted(call_id="t", tool="Task", name="task", title="Task `look`")
    inner = ToolStarted(call_id="i", tool="Read", name="read", title="Read `b`", parent="t")
    assert screen(
        task,
        inner,
        ToolFinished(call_id="i", outcome="completed", parent="t"),
        MessageChunk(message_id="m", text="found it", parent="t"),
        ToolFinished(call_id="t", outcome="completed"),
    ) == ["  ✓ Read b  1.0 s", "  found it", "", "✓ Task look  4.0 s"]


def test_a_subagent_in_the_background_does_not_interrupt_the_agents_sentence() -> None:
    task = ToolStarted(call_id="t", tool="Task", name="task", title="Task `look`")
    assert screen(
        task,
        ToolFinished(call_id="t", outcome="completed"),
        MessageChunk(message_id="m", text="It works "),
        MessageChunk(message_id="s", text="I begin.", parent="t"),
        ToolStarted(call_id="i", tool="Read", name="read", title="Read `b`", parent="t"),
        MessageChunk(message_id="m", text="in the background."),
        ToolFinished(call_id="i", outcome="completed", parent="t"),
    ) == [
        "✓ Task look  1.0 s",
        "  I begin.",
        "",
        "  ✓ Read b  2.0 s",
        "It works in the background.",
        "",
    ]


def test_the_policy_is_shown_only_when_it_denies() -> None:
    request = PermissionRequested(request_id="r", tool="Bash", title="Bash `x`", call_id="c1")
    allowed = RequestAnswered(request_id="r", answer=Answer("allow"), by="policy", surface="auto")
    denied = RequestAnswered(
        request_id="r", answer=Answer("deny", note="not here"), by="policy", surface="none.all"
    )
    assert screen(request, allowed) == []
    assert screen(request, denied) == ["? Bash x  → denied by policy (none.all): not here"]


def test_an_answered_question_is_kept() -> None:
    question = QuestionAsked(
        request_id="q", questions=(Question("Which?", choices=(Choice("A"), Choice("B"))),)
    )
    answer = Answer("allow", answers={"Which?": "B"})
    answered = RequestAnswered(request_id="q", answer=answer, by="person", surface="terminal")
    assert screen(question, answered) == ["? Which?  → answer: B"]


def test_the_wait_for_a_person_is_not_counted_as_call_time() -> None:
    request = PermissionRequested(request_id="r", tool="Bash", title="Bash `x`", call_id="c1")
    notices = [Notice(level="info", kind="session", text="waiting")] * 3
    answered = RequestAnswered(request_id="r", answer=Answer("allow"), by="person")
    end = ToolFinished(call_id="c1", outcome="completed")
    assert screen(BASH, request, *notices, answered, end)[-1] == "✓ Bash make  1.0 s"


def test_of_a_plan_only_changes_are_shown_again() -> None:
    plan = PlanChanged(steps=(PlanStep("one", "in_progress"), PlanStep("two"), PlanStep("three")))
    later = PlanChanged(
        steps=(PlanStep("one", "completed"), PlanStep("two", "in_progress"), PlanStep("three"))
    )
    other = PlanChanged(steps=(PlanStep("four"),))
    assert screen(plan, plan, later, other) == [
        "  ◐ one",
        "  ☐ two",
        "  ☐ three",
        "  ☑ one",
        "  ◐ two",
        "  ☐ four",
    ]


def test_a_failure_shows_the_next_step() -> None:
    failure = Failure(kind="rate_limited", message="too many\nrequests", hint="wait")
    assert screen(TurnEnded(reason="failed", failure=failure)) == [
        "error: too many requests",
        "hint: wait",
        "✗ failed",
        'session 3fa2b19c01 · to continue: tillerman run --resume 3fa2b19c01 "…"',
    ]


def test_a_prompt_typed_here_is_not_repeated() -> None:
    assert screen(TurnStarted(origin="prompt", prompt="mine"), prompts=False) == []
    assert screen(TurnStarted(origin="agent"), prompts=False) == ["● the agent continues by itself"]
    assert screen(UserMessage(text="faster", how="steer")) == ["› faster  (steer)", ""]


def test_a_cost_computed_by_tillerman_is_marked() -> None:
    used = UsageReported(input_tokens=5, output_tokens=1, cost_usd=0.25, priced="2026-09-22")
    started = TurnStarted(origin="prompt", prompt="go")
    shown = screen(started, used, TurnEnded(reason="completed"), prompts=False)
    assert any("· ≈ $0.25" in line for line in shown)


def test_a_summary_for_the_next_agent_is_not_printed() -> None:
    reported = UserMessage(text="You take over.\nWrite `a`: completed", how="handoff")
    assert screen(reported) == ["the agent gets a summary of the session so far (2 lines)"]


def test_a_withdrawn_message_that_is_not_sealed_is_dropped() -> None:
    assert screen(
        MessageChunk(message_id="m", text="wrong"),
        MessageWithdrawn(message_id="m"),
        MessageChunk(message_id="n", text="right"),
    ) == ["right", ""]


def test_live_output_stays_below_and_is_short() -> None:
    drawing = draw(
        TurnStarted(origin="prompt", prompt="x"),
        *(MessageChunk(message_id="m", text=f"line {n}\n") for n in range(50)),
    )
    assert printed([drawing.below()])[-2:] == ["line 49", ""]
    assert len(printed([drawing.below()])) <= 12
    drawing = draw(TurnStarted(origin="prompt", prompt="x"), BASH)
    assert printed([drawing.below()]) == ["⠋ Bash make  0.0 s"]


def test_markup_and_links_of_an_agent_are_not_interpreted() -> None:
    lines = screen(
        MessageChunk(message_id="m", text="[bold]x[/bold] [a](http://b.c) :smile:"),
        Notice(level="info", kind="session", text="[red]y[/red]"),
        color=True,
    )
    text = "\n".join(lines)
    assert "[bold]x[/bold]" in text
    assert "[red]y[/red]" in text
    assert ":smile:" in text
    assert "\x1b]8" not in text


ALPHABET = [
    "\x1b", "\x1b[", "\x1b]", "\x9b", "\x90", "\x07", "\x1b\\", "31m", "2J", "0;x", "8;;u", "\r",
    "\n", "\t", "&#x202e;", "&zwj;", "&#8203;", "&#155;",
    "a", "`", "*", "#", "```", "\n\n", "[", "]", "(", ")", "|", "-", "> ", "\x00", "\x7f",
    "\u202e", "\u200b", "\U000e0041", "\ud800", "é", "漢", "<b>", "&amp;", "&#27;", "1. ", "---",
]  # fmt: skip
SGR = re.compile(r"\x1b\[[0-9;]*m")
ALLOWED = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f]*")


def test_no_control_byte_of_an_agent_reaches_the_terminal() -> None:
    dice = random.Random(7)
    for _ in range(300):
        bad = ["".join(dice.choices(ALPHABET, k=dice.randint(1, 12))) for _ in range(9)]
        lines = screen(
            TurnStarted(origin="prompt", prompt=bad[0]),
            MessageChunk(message_id="m", text=bad[1]),
            MessageChunk(message_id="m", text=bad[2]),
            ThoughtChunk(message_id="t", text=bad[3]),
            ToolStarted(call_id="c", tool="Bash", name="b", title=bad[4]),
            ToolFinished(
                call_id="c", outcome="failed", content=(Text(bad[5]), Diff(bad[6], patch=bad[6]))
            ),
            Notice(level="info", kind="session", text=bad[7]),
            PlanChanged(steps=(PlanStep(bad[8]),)),
            Unrecognized(raw=bad[0]),
            TurnEnded(
                reason="failed", failure=Failure(kind="api_error", message=bad[1], hint=bad[2])
            ),
            color=True,
        )
        text = SGR.sub("", "\n".join(lines))
        assert ALLOWED.fullmatch(text), repr(text)
