"""Plain text view for pipes and files: answer on standard output, progress on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import IO

from tillerman.core.events import (
    Entry,
    Notice,
    PlanChanged,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
)
from tillerman.surfaces.cli.views.final_text import FinalText
from tillerman.surfaces.cli.views.output import write
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.turn_outcome import Outcomes, TurnOutcome


class PlainView:
    def __init__(self, *, resumable: bool) -> None:
        self._resumable = resumable
        self.outcomes = Outcomes()
        self._titles: dict[str, str] = {}
        self._session = ""
        self._text = FinalText()
        self._answered = False

    async def show(self, page: Sequence[Entry]) -> None:
        for entry in page:
            self._text.note(entry.event)
            progress = self._progress(entry)
            await self._write(sys.stderr, progress)
            for outcome in self.outcomes.note([entry]):
                await self._end(outcome)
            self._session = entry.session

    async def report(self, text: str) -> None:
        await self._write(sys.stderr, [text])

    async def close(self) -> None:
        if self.outcomes.ended and self._resumable:
            await self._write(sys.stderr, [formatting.how_to_resume(self._session)])

    def _progress(self, entry: Entry) -> list[str]:
        match entry.event:
            case ToolStarted() as call:
                self._titles[call.call_id] = formatting.unmarked(call.title)
                return []
            case ToolFinished() as end:
                title = self._titles.pop(end.call_id, formatting.one_line(end.call_id))
                return [f"{formatting.STATES[end.outcome]} {title}"]
            case RequestAnswered() as resolved if resolved.answer.option != "allow":
                return [f"  {formatting.answered(resolved)}"]
            case Notice() as notice:
                return [f"{notice.level}: {formatting.one_line(notice.text)}"]
            case PlanChanged(steps=steps):
                done = sum(step.status == "completed" for step in steps)
                return [f"plan: {done} of {len(steps)} steps done"]
            case _:
                return []

    async def _end(self, outcome: TurnOutcome) -> None:
        await asyncio.to_thread(self._answer, outcome)
        await self._write(sys.stderr, [*formatting.failure(outcome), formatting.summary(outcome)])

    def _answer(self, outcome: TurnOutcome) -> None:
        """Prints the answer; a blank line separates it from the answer of an earlier turn."""
        pieces = _document(outcome.output) if outcome.output is not None else self._text.take()
        for number, piece in enumerate(pieces):
            sys.stdout.write("\n" if self._answered and not number else "")
            sys.stdout.write(piece)
            self._answered = True
        sys.stdout.flush()
        self._text.clear()

    async def _write(self, stream: IO[str], lines: Sequence[str]) -> None:
        if lines:
            text = "".join(line + "\n" for line in lines)
            await asyncio.to_thread(write, stream, text)


def _document(output: object) -> Iterator[str]:
    import msgspec

    yield msgspec.json.encode(output).decode() + "\n"
