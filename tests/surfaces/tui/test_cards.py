"""Cards: names of agents and files cannot damage the screen, and all of it fits."""

from __future__ import annotations

from rich.console import RenderableType

from tillerman.core.errors import UsageError
from tillerman.core.events import Entry, ToolStarted, TurnStarted
from tillerman.core.transcript.blocks import Message, Turn
from tillerman.core.transcript.transcript import Transcript
from tillerman.surfaces.rendering import tables
from tillerman.surfaces.tui import clipboard
from tillerman.surfaces.tui.conversation import block_styles, command_output
from tillerman.surfaces.tui.conversation.blocks import BlockList, CommandBlock, ConversationBlock
from tillerman.surfaces.tui.terminal.rich_lines import RichLineRenderer

HOSTILE = "a\x1b]0;pwned\x07\x1b[2J\u202eb\nc"


def drawn(body: RenderableType, width: int = 79) -> list[str]:
    piece = ConversationBlock(CommandBlock("Title", body))
    return [
        line.text.rstrip()
        for line in RichLineRenderer().lines(block_styles.draw(piece, width), width)
    ]


def test_a_table_is_as_wide_as_it_needs_and_cleaned() -> None:
    lines = drawn(command_output.table(("NAME", "WHAT"), [("x", "one"), (HOSTILE, "two")]))
    assert lines[1] == "  ▌ NAME  WHAT"
    assert lines[2] == "  ▌ x     one"
    assert lines[3].split() == ["▌", "ab", "c", "two"]
    assert not any(character in "".join(lines) for character in "\x1b\x07\u202e")


def test_a_table_that_is_too_wide_folds_its_last_column_within_the_screen() -> None:
    row = ("0b6c3b10ab", "12 min ago", "claude-agent-acp", "completed", "12", "$0.0123", "w " * 40)
    for width in (79, 60, 40):
        lines = drawn(command_output.table(tables.SESSIONS, [row]), width)
        assert max(map(len, lines)) <= width
    assert "0b6c3b10ab" in "".join(drawn(command_output.table(tables.SESSIONS, [row])))


def test_lines_are_one_line_each() -> None:
    assert drawn(command_output.lines("first", HOSTILE))[1:3] == ["  ▌ first", "  ▌ ab c"]


def test_commands_in_an_error_hint_have_a_slash() -> None:
    error = UsageError("no", hint="set KEY; then: tillerman status gemini, or `tillerman mcp add`")
    assert (
        command_output.worded(error).hint == "set KEY; then: /status gemini, or `tillerman mcp add`"
    )


def test_a_notice_replaces_the_previous_one() -> None:
    outline = BlockList()
    first = outline.report(CommandBlock("first", ""))
    outline.report(CommandBlock("second", ""))
    outline.report(CommandBlock("changed", ""), instead=first)
    outline.refresh()
    titles = [
        piece.thing.title for piece in outline.pieces if isinstance(piece.thing, CommandBlock)
    ]
    assert titles == ["changed", "second"]


def test_notices_stay_when_more_history_is_shown() -> None:
    outline, longer = BlockList(), BlockList()
    reported = outline.report(CommandBlock("told", ""))
    longer.take_over(outline)
    assert longer.pieces == [reported]


def test_unfolded_blocks_stay_so_when_more_history_is_shown() -> None:
    calls = [
        ToolStarted(call_id=f"c{number}", tool="Read", name="read", title="") for number in range(4)
    ]
    events = [TurnStarted(origin="prompt", prompt="go"), *calls]
    story = [
        Entry(session="s", seq=seq, turn=1, at="2026-01-01T00:00:00Z", event=event)
        for seq, event in enumerate(events, 1)
    ]
    outline, longer = BlockList(), BlockList()
    outline.add(story[3:])
    outline.refresh()
    outline.pieces[-1].toggle()
    longer.add(story)
    longer.take_over(outline)
    assert [piece.unfolded for piece in longer.pieces] == [False] * 4 + [True]


def test_code_is_found_in_fences_and_by_indent_and_cleaned() -> None:
    reported = Message("m", "Look:\n\n~~~sh\nls \x1b[31m-l\n~~~\n\nor\n\n    indented\n\nend")
    transcript = Transcript(turns=[Turn(1, blocks=[reported, Message("n", "  ")]), Turn(2)])
    assert clipboard.last_code(transcript) == "indented\n"
    assert "\x1b" not in clipboard.last_message(transcript)
