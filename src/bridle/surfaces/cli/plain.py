"""For pipes and files: the answer on standard output, progress on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import IO

from bridle.core.events import (
    Entry,
    Notice,
    PlanChanged,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
)
from bridle.core.terminal import clean
from bridle.surfaces.cli import phrases
from bridle.surfaces.cli.outcome import Outcome, Outcomes
from bridle.surfaces.cli.output import write


class PlainView:
    def __init__(self) -> None:
        self.outcomes = Outcomes()
        self._titles: dict[str, str] = {}
        self._answers = 0

    async def show(self, page: Sequence[Entry]) -> None:
        ended = self.outcomes.note(page)
        progress = [line for entry in page for line in self._progress(entry)]
        await self._write(sys.stderr, progress)
        for outcome in ended:
            if answer := _answer(outcome):
                await self._write(sys.stdout, [*([""] if self._answers else []), answer])
                self._answers += 1
            lines = [*phrases.failure(outcome), phrases.summary(outcome)]
            lines.append(phrases.how_to_resume(page[-1].session))
            await self._write(sys.stderr, lines)

    async def tell(self, text: str) -> None:
        await self._write(sys.stderr, [text])

    async def close(self) -> None:
        pass

    def _progress(self, entry: Entry) -> list[str]:
        match entry.event:
            case ToolStarted() as call:
                self._titles[call.call_id] = phrases.one_line(call.title)
                return []
            case ToolFinished() as end:
                title = self._titles.pop(end.call_id, phrases.one_line(end.call_id))
                return [f"{phrases.STATES[end.outcome]} {title}"]
            case RequestAnswered() as settled if settled.answer.option != "allow":
                return [f"  {phrases.answered(settled)}"]
            case Notice() as notice:
                return [f"{notice.level}: {phrases.one_line(notice.text)}"]
            case PlanChanged(steps=steps):
                done = sum(step.status == "completed" for step in steps)
                return [f"plan: {done} of {len(steps)} steps done"]
            case _:
                return []

    async def _write(self, stream: IO[str], lines: Sequence[str]) -> None:
        if lines:
            text = "".join(line + "\n" for line in lines)
            await asyncio.to_thread(write, stream, text)


def _answer(outcome: Outcome) -> str:
    if outcome.output is None:
        return clean(outcome.text).rstrip("\n")
    import msgspec

    return msgspec.json.encode(outcome.output).decode()
