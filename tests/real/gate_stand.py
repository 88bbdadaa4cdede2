"""A harness in a separate process, with a real agent and a gate that can be broken."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from tests.real.desk import processes_with
from tests.real.gate_harness import Order
from tests.real.gate_sides import Side
from tillerman.core.events import Entry, TurnEnded, decode_entry
from tillerman.core.tools import ToolClass

MAX_WAIT = 180.0  # seconds for a turn; some CLIs start in five on an idle machine
GONE_WITHIN = 10.0
LONGEST_LINE = 64 * 1024 * 1024

E = TypeVar("E")
_NAMES = (f"gate{number}" for number in count(1))


class Stand:
    """One harness and its session; `marks` are those of the calls in it."""

    def __init__(
        self, side: Side, folder: Path, process: asyncio.subprocess.Process, errors: Path
    ) -> None:
        self.side = side
        self.marks = side.marks
        self.folder = folder  # of this harness alone
        self.tillerman_home = folder / "tillerman"
        self.process = process
        self.log: list[Entry] = []  # of the last turn
        self.rests = True
        self.name = ""  # of what the model plays
        self._errors = errors
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def start(
        cls,
        side: Side,
        folder: Path,
        *,
        approve: str = "auto",
        request: float | None = None,
        program: Path | None = None,
        clock: Path | None = None,
    ) -> Stand:
        """`clock` is a library that shifts the time while `folder/shifted` exists."""
        folder.mkdir()
        moved = {}
        if clock:
            moved = {"LD_PRELOAD": str(clock), "CLOCK_SHIFT": str(folder / "shifted")}
        order = Order(
            agent=side.agent,
            cwd=str(side.project),
            marks=str(side.marks.folder),
            approve=approve,
            environment=side.environment | moved,
            options={**side.options, "binary": str(program or side.program)},
            model=side.model,
            request=request,
        )
        (folder / "order.json").write_bytes(msgspec.json.encode(order))
        errors = folder / "stderr"
        with errors.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, Path(__file__).with_name("gate_harness.py")),
                folder / "order.json",
                env={
                    "PATH": os.defpath,
                    "HOME": str(folder),
                    "TILLERMAN_HOME": str(folder / "tillerman"),
                    **moved,
                },
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                limit=LONGEST_LINE,
                start_new_session=True,
            )
        return cls(side, folder, process, errors)

    # -- turns -------------------------------------------------------------------------------

    async def begin(self, *kinds: ToolClass, held: bool = False) -> None:
        """Starts a turn with a call of each class; if it is held, not before `release`."""
        self.name = next(_NAMES)
        self.marks.clear()
        self.log.clear()
        self.rests = False
        self._report(self.side.script(self.name, kinds, held=held))
        if held:
            await self.until(lambda: self.side.holds(self.name), "the model is not asked")

    def release(self) -> None:
        self.side.release(self.name)

    async def rest(self) -> list[Entry]:
        await self.until(lambda: self.rests, "the turn does not end")
        return self.log

    async def event(self, kind: type[E]) -> E:
        await self.until(lambda: bool(self.of(kind)) or self.rests, f"no {kind.__name__}")
        assert self.of(kind), f"no {kind.__name__}: {self.log}"
        return self.of(kind)[0]

    def of(self, kind: type[E]) -> list[E]:
        return [entry.event for entry in self.log if isinstance(entry.event, kind)]

    @property
    def bypassed(self) -> bool:
        """Whether the turn failed because a bypass was detected."""
        failures = [end.failure for end in self.of(TurnEnded)]
        return any(failure and failure.kind == "gate_bypassed" for failure in failures)

    async def until(
        self, condition: Callable[[], object], otherwise: str, within: float = MAX_WAIT
    ) -> None:
        try:
            async with asyncio.timeout(within):
                while not condition():  # noqa: ASYNC110 - it is other processes that change it
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{otherwise}: {self._state()}") from None
        if self._receiving.done():
            self._receiving.result()

    # -- what can be broken ------------------------------------------------------------------

    @property
    def hooks(self) -> Path:
        """The folder of the hook socket."""
        [key] = self.tillerman_home.rglob("hooks/key")
        return key.parent

    @property
    def shim(self) -> Path:
        [file] = (self.tillerman_home / "cache" / "shim").iterdir()
        return file

    def shims(self) -> list[int]:
        """The running shims that a call waits for."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                is_gate = len(words) > 3 and not words[3].startswith(b"-")
                if is_gate and words[0] == os.fsencode(self.shim):
                    found.append(int(process.name))
        return found

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    # -- the end -----------------------------------------------------------------------------

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._nothing_left()

    async def close(self) -> None:
        """Closes it normally, or else kills it, which is a failure."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            async with asyncio.timeout(MAX_WAIT):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            raise AssertionError(f"the harness does not end: {self._state()}") from None
        await self._nothing_left()

    async def _nothing_left(self) -> None:
        home = f"HOME={self.side.home}"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GONE_WITHIN):
                while processes_with(home):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        left = processes_with(home)
        for line in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
        assert left == []

    def _report(self, prompt: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(msgspec.json.encode(prompt) + b"\n")

    async def _receive(self) -> None:
        assert self.process.stdout
        async for line in self.process.stdout:
            if line == b"null\n":
                self.rests = True
            else:
                self.log.append(decode_entry(line))
        self.rests = True

    def _state(self) -> str:
        events = [entry.event for entry in self.log[-12:]]
        return f"{events}\n{self._errors.read_text()[-3000:]}"
