"""Replays recorded bytes to an agent, as if its process had written them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.line_decoder import LineDecoder, LineSplitter
from tillerman.agents.stdio.pipes import PipeWriter
from tillerman.core.agent import Child, Exit, Prompt, Word
from tillerman.core.events import Event, Notice, TurnEnded, TurnStarted
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Wire
from tillerman.hooks.server import HookAsked, HookServer

LINE_CAP = 16 * 1024 * 1024
SPEC = session_spec(cwd=Path("/proj"), accept_advisory=True)
PROMPT = Prompt("go")
KILLED = Exit(None, signal.SIGKILL)


class TurnCount:
    """Counts starts and ends of turns, as the host and the agent report them."""

    def __init__(self) -> None:
        self.open = 0
        self.begun = 0
        self.unbegun = 0  # ends without a start

    def begin(self) -> None:
        self.open += 1
        self.begun += 1

    def receive(self, events: Iterable[object]) -> None:
        for event in events:
            match event:
                case TurnStarted():
                    self.begin()
                case TurnEnded() if self.open:
                    self.open -= 1
                case TurnEnded():
                    self.unbegun += 1


def listener(agent: StdioAgent) -> Wire:
    """A wire in the middle of its first turn."""
    wire = agent.wire(SPEC)
    if wire.lifetime == "session":
        list(wire.greet())
        list(wire.prompt(PROMPT))
    else:
        wire.launch(SPEC, PROMPT)
    return wire


def receive(agent: StdioAgent, data: bytes, chunk: int) -> list[Event]:
    """The events of these bytes when they arrive in chunks of that size."""
    lines = LineSplitter(LINE_CAP, NullSpill)
    receiving = LineDecoder(listener(agent), LINE_CAP)
    events: list[Event] = []
    for start in range(0, len(data), chunk):
        received, _ = receiving.decode_batch(lines.feed(data[start : start + chunk]))
        events += [event for one in received for event in one.events]
    received, _ = receiving.decode_batch(lines.end())
    return events + [event for one in received for event in one.events]


async def play_conversation(
    agent: StdioAgent, parts: Sequence[Sequence[bytes]], *, cut: int | None = None
) -> tuple[list[Event], TurnCount]:
    """Runs a conversation with a simulated process; SIGKILL ends it, at the cut."""
    host = RecordedHost()
    conversation = await agent.open(SPEC, host)
    per_turn = agent.wire(SPEC).lifetime == "turn"
    turns = TurnCount()
    events: list[Event] = []
    batches = conversation.batches()
    left = cut
    for part in parts:
        if not turns.open:
            turns.begin()
            await conversation.prompt(PROMPT)
        whole = b"".join(line + b"\n" for line in part)
        data = whole if left is None else whole[:left]
        left = None if left is None else left - len(data)
        saying = asyncio.create_task(host.child.say(data))
        expected = sum(1 for line in data.split(b"\n")[:-1] if line.strip())
        while expected > 0 or (per_turn and turns.open):
            if expected <= 0:
                host.child.end(Exit(0, None) if data == whole else KILLED)
            for received in await anext(batches):
                expected -= received.raw is not None
                events += received.events
                turns.receive(received.events)
        await saying
        if left == 0:
            break
    host.child.end(KILLED)
    await conversation.close()
    async for batch in batches:
        for received in batch:
            events += received.events
            turns.receive(received.events)
    return events, turns


class RecordedHost:
    """A host that returns a child without a process for every program."""

    level = "none"
    line_cap = LINE_CAP
    request_timeout = None

    def __init__(self) -> None:
        self.child: RecordedChild

    def find(self, binary: str) -> str:
        return binary

    def variable(self, name: str) -> str | None:
        return None

    def report(self, notice: Notice) -> None:
        pass

    def place_file(self, path: Path, content: bytes) -> bool:
        return True

    def remove_placed_files(self) -> None:
        pass

    def spill(self) -> NullSpill:
        return NullSpill()

    async def hooks(
        self, asked: Callable[[HookAsked], None], overdue: Callable[[int | None], None]
    ) -> HookServer:
        raise NotImplementedError("no program runs that could have hooks")

    async def spawn(
        self,
        argv: Sequence[Word],
        *,
        cwd: Path,
        env: Mapping[str, Word] = {},
        stdin: bool = True,
        enforced: bool = True,
    ) -> Child:
        self.child = RecordedChild()
        return self.child


class RecordedChild:
    pid = 0

    def __init__(self) -> None:
        self.stdin: int | None = os.open(os.devnull, os.O_WRONLY)
        self.stdout, reported = os.pipe()
        self.stderr, complained = os.pipe()
        for fd in (self.stdout, reported, self.stderr):
            os.set_blocking(fd, False)
        os.close(complained)
        self._stdout = PipeWriter(reported)
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    async def say(self, data: bytes) -> None:
        await self._stdout.write(data)

    def end(self, exit: Exit) -> None:
        if not self._exit.done():
            self._exit.set_result(exit)

    async def wait(self) -> Exit:
        exit = await self._exit
        self._stdout.close()
        return exit

    def signal(self, number: int) -> None:
        self.end(Exit(None, number))

    async def kill(self) -> None:
        self.end(KILLED)


class NullSpill:
    """A spill that stores nothing."""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> str:
        return "nowhere"
