"""The conversation below its widget: pieces of the log, the window on them, and their rendering."""

from __future__ import annotations

import pytest
from rich.console import Console
from textual.strip import Strip

from tillerman.core.events import (
    Diff,
    Entry,
    Event,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tillerman.surfaces.rendering.diff import SIDE_BY_SIDE, difference
from tillerman.surfaces.tui.conversation.block_styles import BlockStyle, draw
from tillerman.surfaces.tui.conversation.blocks import (
    BlockList,
    CommandBlock,
    ConversationBlock,
    MessageBlock,
    PromptBlock,
    StreamingBlock,
    TurnEndBlock,
)
from tillerman.surfaces.tui.conversation.viewport import MOST, Viewport
from tillerman.surfaces.tui.terminal.ansi_colors import colored
from tillerman.surfaces.tui.terminal.rich_lines import RichLineRenderer

AT = "2026-01-01T00:00:00.000Z"


class Log:
    """Entries of one session, numbered in order."""

    def __init__(self) -> None:
        self._seq = 0
        self.turn = 0

    def __call__(self, *events: Event) -> list[Entry]:
        entries = []
        for event in events:
            self._seq += 1
            self.turn += isinstance(event, TurnStarted)
            entry = Entry(session="s", seq=self._seq, turn=self.turn, at=AT, event=event)
            entries.append(entry)
        return entries


def begun(prompt: str = "go") -> TurnStarted:
    return TurnStarted(origin="prompt", prompt=prompt)


def call(number: int) -> ToolStarted:
    return ToolStarted(call_id=f"c{number}", tool="Bash", name="run", title="Bash `ls`")


def shown(outline: BlockList) -> list[str]:
    outline.refresh()
    return [type(piece.thing).__name__ for piece in outline.pieces]


def text_of(piece: ConversationBlock, width: int = 80) -> str:
    lines = RichLineRenderer().lines(draw(piece, BlockStyle(width)), width)
    return "\n".join(line.text.rstrip() for line in lines)


# -- pieces ----------------------------------------------------------------------------------------


def test_a_message_is_sealed_block_by_block_and_its_rest_is_the_tail() -> None:
    log, outline = Log(), BlockList()
    outline.add(log(begun(), MessageChunk(message_id="m", text="One.\n\nTw")))
    assert shown(outline) == ["PromptBlock", "MessageBlock", "StreamingBlock"]
    first = outline.pieces[1]
    outline.add(log(MessageChunk(message_id="m", text="o.\n\nThree")))
    assert shown(outline) == ["PromptBlock", "MessageBlock", "MessageBlock", "StreamingBlock"]
    assert outline.pieces[1] is first  # what is sealed is never drawn again
    outline.add(log(TurnEnded(reason="completed")))
    assert shown(outline) == [
        "PromptBlock",
        "MessageBlock",
        "MessageBlock",
        "MessageBlock",
        "TurnEndBlock",
    ]


def test_only_what_changed_is_redrawn() -> None:
    log, outline = Log(), BlockList()
    outline.add(log(begun(), call(1), call(2)))
    outline.refresh()
    for piece in outline.pieces:
        piece.drawn = (80, [Strip.blank(1)])
    outline.add(log(ToolFinished(call_id="c2", outcome="completed")))
    outline.refresh()
    assert [piece.drawn is None for piece in outline.pieces] == [False, False, True]


def test_animated_lines_are_redrawn_with_each_tick() -> None:
    log, outline = Log(), BlockList()
    outline.add(log(begun(), call(1)))
    outline.refresh(tick=1)
    outline.pieces[1].drawn = (80, [])
    outline.refresh(tick=2)
    assert outline.pieces[1].drawn is None


def test_a_call_of_an_earlier_turn_ends_in_its_place() -> None:
    log, outline = Log(), BlockList()
    outline.add(log(begun(), call(1), TurnEnded(reason="completed"), begun("then")))
    outline.refresh()
    outline.add(log(ToolFinished(call_id="c1", outcome="failed")))
    assert shown(outline) == ["PromptBlock", "ToolCallBlock", "TurnEndBlock", "PromptBlock"]
    assert "failed" in text_of(outline.pieces[1])


def test_a_withdrawn_message_is_gone() -> None:
    log, outline = Log(), BlockList()
    outline.add(log(begun(), MessageChunk(message_id="m", text="wrong"), call(1)))
    assert shown(outline) == ["PromptBlock", "MessageBlock", "ToolCallBlock"]
    outline.add(log(MessageWithdrawn(message_id="m")))
    assert shown(outline) == ["PromptBlock", "ToolCallBlock"]


def test_a_notice_is_shown_where_it_was_reported() -> None:
    log, outline = Log(), BlockList()
    outline.add(log(begun(), TurnEnded(reason="completed")))
    outline.report(CommandBlock("Status", "well"))
    outline.add(log(begun("then")))
    assert shown(outline) == ["PromptBlock", "TurnEndBlock", "CommandBlock", "PromptBlock"]


def test_a_thought_is_folded_with_its_length() -> None:
    log, outline = Log(), BlockList()
    outline.add(log(begun(), ThoughtChunk(message_id="t", text="first line\nsecond line")))
    outline.refresh()
    piece = outline.pieces[1]
    assert "4 words" in text_of(piece)
    assert len(text_of(piece).splitlines()) == 1
    piece.toggle()
    assert "second line" in text_of(piece)


# -- the window ------------------------------------------------------------------------------------


def document(pieces: int, height: int = 20) -> tuple[Viewport, BlockList, list[ConversationBlock]]:
    """A document of pieces of three lines each, and those that were drawn."""
    log, outline = Log(), BlockList()
    outline.add(
        log(begun(), *(Notice(level="info", kind="session", text="x") for _ in range(pieces)))
    )
    outline.refresh()
    drawn: list[ConversationBlock] = []

    def lines(piece: ConversationBlock, width: int) -> list[Strip]:
        drawn.append(piece)
        return [Strip.blank(1)] * 3

    made = Viewport(outline, lines, 80)
    made.end(height)
    return made, outline, drawn


def test_opening_draws_a_screen_and_not_the_session() -> None:
    made, outline, drawn = document(5_000)
    assert len(outline.pieces) == 5_001
    assert len(drawn) == 7
    assert made.height == 21
    assert made.at_end and not made.at_start


def test_scrolling_up_grows_the_window_and_reports_by_how_much() -> None:
    made, outline, _ = document(100)
    top = made.place(0)
    assert top
    added = made.before()
    assert added >= 60
    assert made.place(added) == top
    while not made.at_start:
        made.before()
    assert made.height == 3 * len(outline.pieces)


def test_the_window_does_not_grow_while_it_follows() -> None:
    made, outline, _ = document(10)
    log = Log()
    log.turn, log._seq = 1, 11
    for _ in range(40):
        notices = [Notice(level="info", kind="session", text="x") for _ in range(25)]
        outline.add(log(*notices))
        outline.refresh()
        made.follow()
        assert made.at_end
        assert made.height <= MOST + 3 * 26
    assert sum(piece.drawn is not None for piece in outline.pieces) * 3 <= MOST + 100


def test_another_width_keeps_the_visible_lines() -> None:
    made, _, _ = document(200)
    made.before()
    stored = made.place(30)
    assert stored
    assert made.place(made.rewidth(40, stored, 20)) == stored
    made.after()
    assert made.height > 21


# -- looks -----------------------------------------------------------------------------------------

OLD = "import os\n\nx = 1\n"
NEW = "import os\nimport sys\n\nx = 2\n"


def drawn_text(change: Diff, width: int, limit: int = 40) -> str:
    console = Console(width=width, record=True, force_terminal=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(difference(change, width, limit))
    return console.export_text()


def test_a_narrow_diff_is_shown_in_one_column_and_a_wide_one_side_by_side() -> None:
    change = Diff("a.py", old=OLD, new=NEW)
    narrow = drawn_text(change, 80)
    assert "- x = 1" in narrow and "+ x = 2" in narrow and "+ import sys" in narrow
    wide = drawn_text(change, SIDE_BY_SIDE)
    line = next(line for line in wide.splitlines() if "x = 1" in line)
    assert line.index("- x = 1") < SIDE_BY_SIDE // 2 < line.index("+ x = 2")


def test_a_one_sided_diff_is_shown_in_one_column() -> None:
    reported = drawn_text(Diff("a.py", old="", new=NEW), SIDE_BY_SIDE)
    assert reported.startswith(" 1+ import os")


def test_line_numbers_are_those_of_the_file() -> None:
    patch = "@@ -10,2 +10,3 @@\n a\n+b\n c\n@@ -40 +41 @@\n-d\n+e\n"
    lines = [line.split() for line in drawn_text(Diff("a", patch=patch), 80).splitlines()]
    assert lines == [["10", "a"], ["11+", "b"], ["12", "c"], ["⋯"], ["40-", "d"], ["41+", "e"]]


def test_a_long_change_reports_how_much_is_left_out() -> None:
    new = "".join(f"line {number}\n" for number in range(100))
    assert "… 90 more lines" in drawn_text(Diff("a.txt", old="", new=new), 80, limit=10)


@pytest.mark.parametrize("path", ["x.py", "x.unknown", "Makefile", "a\x1b]0;t\x07.rs", ""])
def test_any_path_is_shown_without_its_sequences(path: str) -> None:
    reported = drawn_text(Diff(path, old="\x1b[31mred\n", new="\u202eblue\n"), 80)
    assert "␛[31mred" in reported and "⟨202e⟩blue" in reported


def test_colors_of_a_program_are_styles_and_other_sequences_are_shown() -> None:
    reported = colored("\x1b[31mred\x1b[0m plain \x1b[2J\x1b]0;title\x07")
    assert reported.plain == "red plain ␛[2J␛]0;title␇"
    assert any(span.style.color for span in reported.spans if not isinstance(span.style, str))


def test_each_kind_of_piece_is_drawn_at_any_width() -> None:
    log, outline = Log(), BlockList()
    outline.add(log(begun(), MessageChunk(message_id="m", text="# A\n\n- b\n\n```py\nx\n```\n\nc")))
    outline.add(
        log(call(1), ToolFinished(call_id="c1", outcome="denied"), TurnEnded(reason="failed"))
    )
    outline.refresh()
    kinds = {type(piece.thing) for piece in outline.pieces}
    assert {PromptBlock, MessageBlock, TurnEndBlock} <= kinds and StreamingBlock not in kinds
    for piece in outline.pieces:
        for width in (1, 2, 5, 40, 200):
            assert isinstance(text_of(piece, width), str)
