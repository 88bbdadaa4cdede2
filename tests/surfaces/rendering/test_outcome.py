from tillerman.core.events import (
    Entry,
    Event,
    FileChange,
    FilesChanged,
    MessageChunk,
    MessageWithdrawn,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.core.transcript.transcript import fold
from tillerman.core.transcript.turn_result import final_text
from tillerman.surfaces.cli.views.final_text import FinalText
from tillerman.surfaces.rendering.turn_outcome import Outcomes, TurnOutcome


def entries(*events: Event, turn: int = 1) -> list[Entry]:
    return [
        Entry(session="s", seq=n, turn=turn, at=f"2026-01-01T00:00:{n:02d}.000Z", event=event)
        for n, event in enumerate(events, 1)
    ]


def chunk(text: str, message_id: str = "m1", **more: str) -> MessageChunk:
    return MessageChunk(message_id=message_id, text=text, **more)


START = TurnStarted(origin="prompt", prompt="go")
CALL = ToolStarted(call_id="c", tool="Read", name="read", title="Read `a`")
CALL_END = ToolFinished(call_id="c", outcome="completed")
END = TurnEnded(reason="completed")


def test_an_outcome_has_everything_the_turn_reported() -> None:
    usage = UsageReported(input_tokens=3, output_tokens=4, cost_usd=0.5)
    files = (FileChange("a", "added", 1, 0),)
    page = entries(START, usage, FilesChanged(files=files), END)
    assert Outcomes().note(page) == [
        TurnOutcome(1, "completed", usage=usage, files=files, seconds=3.0)
    ]


def agent_text(events: list[Event]) -> str:
    text = FinalText()
    for event in events:
        text.note(event)
    return "".join(text.take())


def test_the_answer_equals_the_final_text_of_the_transcript() -> None:
    cases = [
        [chunk("I look."), CALL, CALL_END, chunk("It is ", "m2"), chunk("fine.", "m2")],
        [chunk("one", "m1"), chunk("two", "m2")],
        [chunk("cut inside"), CALL],
        [chunk("main"), chunk("sub", "m2", parent="c")],
        [chunk("wrong"), MessageWithdrawn(message_id="m1"), chunk("right", "m2")],
        [chunk("a"), chunk("wrong", "m2"), MessageWithdrawn(message_id="m2"), chunk("b", "m3")],
        [chunk("long " * 1_000_000)],
        [],
    ]
    for events in cases:
        expected = final_text(fold(entries(START, *events, END)).turns[0])
        assert agent_text(events) == (f"{expected}\n" if expected else "")


def test_the_answer_has_symbols_for_controls_and_ends_with_one_newline() -> None:
    assert agent_text([chunk("\x1b[31mred\u202e\n\n\n")]) == "␛[31mred⟨202e⟩\n"
    assert (
        agent_text([chunk("a\x1b]never ended, and "), chunk("words\r")])
        == "a␛]never ended, and words␍\n"
    )
    assert agent_text([chunk("a\n"), chunk("\n"), chunk("b")]) == "a\n\nb\n"
    assert agent_text([chunk("\ud800")]) == "\ufffd\n"


def test_the_exit_code_is_that_of_the_first_failed_turn() -> None:
    outcomes = Outcomes()
    assert outcomes.exit_code == 1  # no turn ended
    outcomes.note(entries(START, END, turn=1))
    assert outcomes.exit_code == 0
    denied = TurnEnded(reason="failed", failure=Failure(kind="denied", message="no"))
    outcomes.note(entries(START, denied, turn=2))
    outcomes.note(entries(START, TurnEnded(reason="cancelled"), turn=3))
    assert outcomes.exit_code == 4
    assert [outcome.exit_code for outcome in outcomes.ended] == [0, 4, 130]
