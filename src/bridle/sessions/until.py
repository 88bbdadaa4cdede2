"""A check of the user's after each turn: while it fails, its last words are the next prompt.

Some agents have hooks for this, and none has them everywhere: Cursor's `stop` does not fire where
nobody sits before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from bridle.core.agent import Exit, Host
from bridle.core.events import Notice
from bridle.core.terminal import clean
from bridle.sessions.terms import Until

LONGEST = 1800.0  # seconds of one check
TAIL = 8_000  # bytes of what it said last


class Outcome(NamedTuple):
    notice: Notice
    prompt: str | None  # None: the agent may rest


class Check:
    """Its rounds are those of one prompt: `renew` begins them anew."""

    def __init__(self, until: Until, cwd: Path, host: Callable[[], Host]) -> None:
        self._until = until
        self._cwd = cwd
        self._host = host
        self._round = 0

    @property
    def wanted(self) -> bool:
        return bool(self._until.command)

    def renew(self) -> None:
        self._round = 0

    async def run(self) -> Outcome:
        command, rounds = self._until.command, self._until.rounds
        try:
            exit, said = await self._ran()
        except TimeoutError:
            return _over("warning", f"`{command}` took longer than {LONGEST:g} s and was ended")
        except OSError as error:
            return _over("error", f"`{command}` could not be run: {error}")
        if exit.clean:
            return _over("info", f"`{command}` succeeds")
        how = f"signal {exit.signal}" if exit.signal else f"exit code {exit.code}"
        if self._round >= rounds:
            return _over("warning", f"`{command}` still fails ({how}) after {rounds} more turns")
        self._round += 1
        text = f"`{command}` fails ({how}): the agent is told, {self._round} of {rounds}"
        prompt = f"`{command}` fails ({how}). Go on until it succeeds."
        if said:
            prompt += f" It says:\n\n{said}"
        return Outcome(Notice(level="info", kind="session", text=text), prompt)

    async def _ran(self) -> tuple[Exit, str]:
        from bridle.agents.pipes import PipeReader

        argv = ["/bin/sh", "-c", f"exec 2>&1\n{self._until.command}"]
        child = await self._host().spawn(argv, cwd=self._cwd, stdin=False)
        told, unused = PipeReader(child.stdout), PipeReader(child.stderr)
        said = b""
        ending = asyncio.create_task(child.wait())
        ending.add_done_callback(lambda _: told.finish())
        try:
            async with asyncio.timeout(LONGEST):
                while chunk := await told.read():
                    said = (said + chunk)[-TAIL:]
                exit = await ending
        finally:
            told.close()
            unused.close()
            await asyncio.shield(child.kill())  # with all that it has started
            ending.cancel()
        return exit, clean(said.decode("utf-8", "replace")).strip()


def _over(level: Literal["info", "warning", "error"], text: str) -> Outcome:
    return Outcome(Notice(level=level, kind="session", text=text), None)
