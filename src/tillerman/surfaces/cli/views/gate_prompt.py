"""Asks about a gate in the terminal that runs the run, while other terminals may answer too."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from tillerman.core.errors import TillermanError
from tillerman.core.terminal_sanitizer import clean
from tillerman.pipelines.run_state import Answer, Gate
from tillerman.surfaces.cli.views.output import emit, is_terminal

if TYPE_CHECKING:
    from tillerman.pipelines.engine import Engine

_HELP = "answer here: `a` approves, `r WHY` rejects, `d` shows what is under review"
_LONGEST = 10_000  # characters of a line


class PausableView(Protocol):
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class GatePrompt:
    def __init__(self, engine: Engine, run: str, view: PausableView) -> None:
        self._engine = engine
        self._run = run
        self._view = view
        self._gate: Gate | None = None  # that is asked about
        self._typed = b""
        self._ended = not is_terminal(sys.stdin)

    async def look(self) -> None:
        """Asks about a gate that has opened, and takes what was typed since the last look."""
        if self._gate is None:
            self._ask()
            return
        gate = self._engine.store.gate(self._run, self._gate.path)
        if gate is None or gate.answer is not None or self._ended:
            self.close()
            return
        while self._gate and b"\n" in self._typed:
            line, _, self._typed = self._typed.partition(b"\n")
            await self._take(gate, line.decode("utf-8", "replace").strip())

    def close(self) -> None:
        if self._gate is not None:
            self._gate, self._typed = None, b""
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._view.resume()

    def _ask(self) -> None:
        if self._ended or not _in_foreground():
            return
        gates = self._engine.store.gates(self._run, unanswered=True)
        found = [gate for gate in gates if not gate.path.endswith("MERGE")]  # it needs a commit
        if found:
            self._gate = found[0]
            self._view.pause()
            with suppress(termios.error):  # what was typed before it opened is no answer
                termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            choice = "; `a ATTEMPT` chooses one" if self._gate.choices else ""
            emit(_HELP + choice)
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def _read(self) -> None:
        try:
            got = os.read(sys.stdin.fileno(), 4096) if _in_foreground() else b""
        except OSError:
            got = b""
        if got:
            self._typed = (self._typed + got)[-_LONGEST:]
        else:  # closed, or in the background now: only other terminals can answer
            self._ended = True
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    async def _take(self, gate: Gate, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "a" if gate.choices or not rest:
                answer = Answer("approve", choice=rest.strip())
            case "r":
                answer = Answer("reject", text=rest.strip())
            case "d":
                diff = (await self._engine.diff(self._run, gate.path)).decode("utf-8", "replace")
                emit(*filter(None, (clean(gate.account), clean(diff).rstrip("\n"), _HELP)))
                return
            case _:
                emit(_HELP)
                return
        try:
            await self._engine.answer(self._run, gate.path, answer)
        except TillermanError as error:
            emit(clean(error.message))
            return
        self.close()


def _in_foreground() -> bool:
    """A process in the background that reads from its terminal would be stopped."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False
