"""No letter of an answer is missing on a screen, whatever Markdown, HTML or code it contains."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from rich.console import Console

from tests.surfaces.rendering.answers import answer, expected, letters, visible
from tillerman.core.events import Entry, Event, MessageChunk, TurnEnded, TurnStarted
from tillerman.core.transcript.transcript import fold
from tillerman.sessions.export import to_html
from tillerman.surfaces.cli.views import scroll_view
from tillerman.surfaces.cli.views.final_text import FinalText
from tillerman.surfaces.cli.views.live_screen import LiveScreen
from tillerman.surfaces.tui.conversation.block_styles import BlockStyle, draw
from tillerman.surfaces.tui.conversation.blocks import BlockList, MessageBlock
from tillerman.surfaces.tui.terminal.rich_lines import RichLineRenderer

LEAST = 8  # columns of a conversation
WIDE = 1_500  # columns: no cell of a table is wrapped beside another
ENTITY = re.compile(r"&#?\w+;")


def streamed(text: str, seed: int) -> list[Entry]:
    """In chunks that are cut anywhere."""
    chance, at = random.Random(seed), 0
    events: list[Event] = [TurnStarted(origin="prompt")]
    while at < len(text):
        size = chance.choice((1, 3, 10, 50, 400))
        events.append(MessageChunk(message_id="m", text=text[at : at + size]))
        at += size
    events.append(TurnEnded(reason="completed"))
    return [
        Entry(session="s", seq=n, turn=1, at="2026-01-01T00:00:00Z", event=event)
        for n, event in enumerate(events, 1)
    ]


def in_the_interface(log: list[Entry], width: int) -> str:
    outline, painter = BlockList(), RichLineRenderer()
    for page in (log[: len(log) // 2], log[len(log) // 2 :]):
        outline.add(page)
        outline.refresh()
    messages = [piece for piece in outline.pieces if isinstance(piece.thing, MessageBlock)]
    lines = [
        line for piece in messages for line in painter.lines(draw(piece, BlockStyle(width)), width)
    ]
    assert all(line.cell_length <= width for line in lines)
    return "\n".join(line.text for line in lines)


def on_a_terminal(log: list[Entry], width: int) -> str:
    """As printed by `run`."""
    drawing = LiveScreen(prompts=False, resumable=False)
    for entry in log[1:-1]:
        drawing.add(entry)
    drawing.end()
    console = Console(width=width, highlight=False, markup=False, emoji=False, no_color=True)
    with console.capture() as capture:
        for piece in drawing.take():
            console.print(piece)
    return capture.get()


def shown_later(log: list[Entry], width: int, capsys: pytest.CaptureFixture[str]) -> str:
    """As printed by `sessions show`."""

    async def show() -> None:
        view = scroll_view.ScrollView(color=False, resumable=False)
        await view.show(log[1:-1])
        await view.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scroll_view, "PIPE_WIDTH", width)
        asyncio.run(show())
    return capsys.readouterr().out


def in_a_pipe(log: list[Entry]) -> str:
    """As `run` prints it to another program."""
    final = FinalText()
    for entry in log:
        final.note(entry.event)
    return "".join(final.take())


class Page(HTMLParser):
    """The text of the one message on a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._depth or ("class", "say") in attrs:
            self._depth += tag == "div"

    def handle_endtag(self, tag: str) -> None:
        self._depth -= bool(self._depth) and tag == "div"

    def handle_data(self, data: str) -> None:
        self.text += data if self._depth else ""


def on_the_page(log: list[Entry]) -> str:
    page = Page()
    page.feed(to_html(fold(log)))
    page.close()
    return page.text


def narrow(seed: int) -> int:
    return random.Random(seed).choice((2, 3, 5, 9, *range(16, 110)))


def check(seed: int, widths: tuple[int, ...], capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(seed)
    log = streamed(text, seed)
    written = Counter(filter(str.isalnum, ENTITY.sub("", visible(text))))
    whole = expected(text)
    plain = ENTITY.sub("¶", visible(text))
    dropped = Counter(filter(str.isalnum, plain)) - Counter(expected(plain))
    complete = not dropped  # else it is a cell of a table that has no head
    for width in widths:
        seen = {
            "interface": in_the_interface(log, max(width, LEAST)),
            "run": on_a_terminal(log, width),
            "show": shown_later(log, width, capsys),
        }
        for surface, screen in seen.items():
            message = f"answer {seed} in {surface} at {width}:\n{text}\n-- is shown as --\n"
            message += "\n".join(map(str.rstrip, screen.splitlines()))
            shown = letters(screen)
            assert not written - Counter(shown), message
            assert not complete or Counter(shown) == Counter(whole), message
            assert not complete or width < WIDE or shown == whole, message
    assert letters(in_a_pipe(log)) == letters(visible(text)), f"answer {seed} in a pipe"
    assert letters(on_the_page(log)) == letters(visible(text)), f"answer {seed} on the page"


def test_no_letter_of_an_answer_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(300):
        check(seed, (WIDE if seed % 2 else narrow(seed),), capsys)


@pytest.mark.torture
@pytest.mark.parametrize("part", range(10))
def test_no_letter_of_ten_thousand_answers_is_missing(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(300 + 1_000 * part, 1_300 + 1_000 * part):
        check(seed, (WIDE, narrow(seed)), capsys)
