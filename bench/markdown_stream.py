"""Textual's Markdown stream at a fixed rate: `python -m bench.markdown_stream RATE SECONDS LOG`.

The baseline of bench.tui. LOG gets the timestamp of each word, as in the log of a session.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Input, Markdown

from bench.words import words


class Streamed(App[None]):
    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.anchor()
            yield Markdown()
        yield Input()

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.run_worker(self._feed())

    async def _feed(self) -> None:
        rate, seconds = int(sys.argv[1]), int(sys.argv[2])
        stream = Markdown.get_stream(self.query_one(Markdown))
        begin = time.time()
        with Path(sys.argv[3]).open("w") as log:  # noqa: ASYNC230
            for number, word in enumerate(words(rate * seconds)):
                if (early := begin + number / rate - time.time()) > 0:
                    await asyncio.sleep(early)
                log.write(f"{time.time()}\n")
                await stream.write(word)
        await stream.stop()


if __name__ == "__main__":
    Streamed().run()
