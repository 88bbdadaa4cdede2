"""A conversation with a JSON-lines CLI: one process for all turns, or one for each."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from bridle.agents.hearing import Hearing
from bridle.agents.process import LineProcess
from bridle.agents.stdio import found
from bridle.core.agent import (
    AgentInfo,
    Exit,
    ExplainsExit,
    Heard,
    Host,
    Launch,
    Mode,
    Prompt,
    SessionSpec,
    Wire,
)
from bridle.core.errors import AgentError, SessionBusy, Unsupported
from bridle.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Answer,
    Event,
    MessageChunk,
    ThoughtChunk,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from bridle.core.failure import Failure

CLOSE_GRACE = 2.0  # seconds


class _Talk:
    """What both lifetimes share: a process, a wire, and at most one open turn."""

    def __init__(
        self, info: AgentInfo, wire: Wire, spec: SessionSpec, host: Host, grace: float
    ) -> None:
        self._info = info
        self._wire = wire
        self._spec = spec
        self._host = host
        self._grace = grace
        self._hearing = Hearing(wire, host.line_cap)
        self._process: LineProcess | None = None
        self._turn_open = False
        self._turn_over = asyncio.Event()
        self._cancelling = False
        self._interrupt: asyncio.Task[None] | None = None

    async def answer(self, request_id: str, answer: Answer) -> None:
        await self._send(self._wire.answer(request_id, answer))

    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None:
        self._spec = replace(
            self._spec, model=model or self._spec.model, mode=mode or self._spec.mode
        )
        await self._send(self._wire.configure(model, mode))

    async def cancel(self) -> None:
        """The agent's own interrupt, then SIGTERM, then its whole tree."""
        process = self._process
        if not self._turn_open or process is None:
            await self._send(self._wire.cancel())  # it may still work in the background
            return
        self._cancelling = True
        # Not awaited: an agent that reads nothing must not keep us from what comes next.
        self._interrupt = asyncio.create_task(self._send(self._wire.cancel()))
        if not await self._ends_within(self._grace):
            process.signal(signal.SIGTERM)
            if not await self._ends_within(self._grace):
                await process.kill()

    def _program(self, prompt: Prompt | None) -> Launch:
        launch = self._wire.launch(self._spec, prompt)
        return found(self._info, self._spec, launch, self._host.find)

    async def _start(self, launch: Launch) -> LineProcess:
        self._process = await LineProcess.start(
            self._host, launch.argv, cwd=self._spec.cwd, env=launch.env
        )
        return self._process

    async def _send(self, messages: Iterable[dict[str, Any]]) -> None:
        if self._process:
            await self._process.send(list(messages))

    def _opened(self) -> None:
        self._turn_open = True
        self._cancelling = False
        self._turn_over.clear()

    def _closed(self) -> None:
        self._turn_open = False
        self._turn_over.set()

    async def _ends_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._turn_over.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _hear(self, process: LineProcess) -> AsyncIterator[list[Heard]]:
        async for batch in process.lines():
            heard, replies = self._hearing.understand(batch)
            if replies:
                await process.send(replies)
            yield heard
            del batch, heard, replies  # one long line in memory is enough while the next comes

    def _exited(self, exit: Exit, process: LineProcess) -> AgentExited:
        return AgentExited(code=exit.code, signal=exit.signal, detail=process.stderr_tail)

    def _ending(self, said: TurnEnded | None, exit: Exit, process: LineProcess) -> TurnEnded:
        wire = self._wire
        why = wire.explain(exit, process.stderr_tail) if isinstance(wire, ExplainsExit) else None
        return reconcile(said, exit, cancelled=self._cancelling, why=why)


class StdioConversation(_Talk):
    """One process for the whole conversation."""

    _found_awake = False

    async def start(self) -> None:
        await self._start(self._program(None))
        await self._send(self._wire.greet())

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        """Not a coroutine itself, so that it refuses before anybody is told of a new turn."""
        if self._turn_open:
            raise SessionBusy("the agent has just begun a turn by itself", hint="send it later")
        messages = list(self._wire.prompt(prompt))  # it may refuse a file
        self._opened()
        return self._send(messages)

    async def steer(self, prompt: Prompt) -> None:
        if "steer" not in self._info.can:
            raise Unsupported(self._info.name, "steering", hint="queue the prompt instead")
        if not self._turn_open:
            raise SessionBusy("the turn is just over", hint="send the words as a prompt")
        await self._send(self._wire.prompt(prompt))

    async def close(self) -> None:
        """No more words: an idle agent ends by itself, any other is ended."""
        if not (process := self._process):
            return
        self._cancelling = self._turn_open
        process.close_stdin()
        try:
            await asyncio.wait_for(process.exit(), 0 if self._turn_open else CLOSE_GRACE)
        except TimeoutError:
            await process.kill()

    async def heard(self) -> AsyncIterator[Sequence[Heard]]:
        process = self._process
        assert process is not None
        yield [Heard(None, [AgentStarted(agent=self._info.name, supervision=self._host.level)])]
        async for batch in self._hear(process):
            yield [Heard(raw, list(self._turns_in(events)), kept) for raw, events, kept in batch]
            del batch
        exit = await process.exit()
        last: list[Event] = [self._exited(exit, process)]
        if self._turn_open:
            last.append(self._ending(None, exit, process))
            self._closed()
        yield [Heard(None, last)]

    def _turns_in(self, events: Sequence[Event]) -> Iterator[Event]:
        """An agent that works outside of a turn woke, though it did not say so, or says it late."""
        for event in events:
            match event:
                case TurnStarted() if self._found_awake:
                    continue
                case TurnStarted():
                    self._opened()
                case TurnEnded():
                    yield from self._awake()
                    self._closed()
                    self._found_awake = False
                case MessageChunk() | ThoughtChunk() | ToolStarted() if event.parent is None:
                    yield from self._awake()
            yield event

    def _awake(self) -> Iterator[Event]:
        if not self._turn_open:
            self._opened()
            self._found_awake = True
            yield TurnStarted(origin="agent")


class PerTurnConversation(_Talk):
    """A process for each turn; the agent's own session id ties them together."""

    def __init__(
        self, info: AgentInfo, wire: Wire, spec: SessionSpec, host: Host, grace: float
    ) -> None:
        super().__init__(info, wire, spec, host, grace)
        self._started: asyncio.Queue[LineProcess | TurnEnded | None] = asyncio.Queue()
        self._feeding: asyncio.Task[None] | None = None

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        """Not a coroutine itself, so that it refuses before anybody is told of a new turn."""
        launch = self._program(prompt)
        for place in launch.places:
            if place.instead is None and os.path.lexists(place.path):
                raise AgentError(
                    self._info.name,
                    f"{self._info.name} needs a file of its own where there is one: {place.path}",
                    hint="move it away, or add to it what the session needs",
                )
        return self._begin(launch)

    async def _begin(self, launch: Launch) -> None:
        try:
            stdin = self._put(launch)
            process = await self._start(launch)
        except OSError as error:
            self._host.take_back()
            self._started.put_nowait(_not_started(error))
            return
        self._opened()
        await self._send(self._wire.greet())
        if stdin is not None:
            # Not awaited: an agent that reads nothing must not keep a cancel waiting.
            self._feeding = asyncio.create_task(_feed(process, stdin))
        self._started.put_nowait(process)

    def _put(self, launch: Launch) -> bytes | None:
        """Files in place, and what goes in by stdin."""
        before = b""
        for place in launch.places:
            if self._host.put(place.path, place.content):
                continue
            if place.instead is None:
                raise FileExistsError(0, "there is a file already, or none can be put", place.path)
            before += place.instead
        return before + (launch.stdin or b"") if before else launch.stdin

    async def steer(self, prompt: Prompt) -> None:
        raise Unsupported(self._info.name, "steering", hint="queue the prompt instead")

    async def cancel(self) -> None:
        if self._process and self._turn_open:
            self._process.signal(signal.SIGINT)
        await super().cancel()

    async def close(self) -> None:
        self._cancelling = self._turn_open
        if self._process:
            await self._process.kill()
        self._started.put_nowait(None)

    async def heard(self) -> AsyncIterator[Sequence[Heard]]:
        while process := await self._started.get():
            if isinstance(process, TurnEnded):
                yield [Heard(None, [process])]
                continue
            yield [Heard(None, [AgentStarted(agent=self._info.name, supervision=self._host.level)])]
            ended: Heard | None = None
            async for batch in self._hear(process):
                for i, (raw, events, kept) in enumerate(batch):
                    for event in events:
                        match event:
                            case AgentReady(native_id=native_id):
                                self._spec = replace(self._spec, resume=native_id, fork=False)
                            case TurnEnded() if ended is None:
                                ended = Heard(raw, [event])
                    if any(isinstance(event, TurnEnded) for event in events):
                        others = [e for e in events if not isinstance(e, TurnEnded)]
                        batch[i] = Heard(raw, others, kept)
                yield batch
            exit = await process.exit()
            self._host.take_back()
            said = ended.events[0] if ended else None
            assert said is None or isinstance(said, TurnEnded)
            end = self._ending(said, exit, process)
            self._closed()
            yield [Heard(None, [self._exited(exit, process), end])]


async def _feed(process: LineProcess, stdin: bytes) -> None:
    await process.write(stdin)
    process.close_stdin()


def _not_started(error: OSError) -> TurnEnded:
    what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    failure = Failure(
        kind="agent_failed",
        message=f"the agent could not be started: {what}",
        hint="`bridle doctor` checks it",
    )
    return TurnEnded(reason="failed", failure=failure)


def reconcile(
    said: TurnEnded | None, exit: Exit, *, cancelled: bool, why: Failure | None = None
) -> TurnEnded:
    """A turn's end from two sources: what the stream said, and how the process ended.

    `why`: what the process told of its end.
    """
    how = f"signal {exit.signal}" if exit.signal else f"exit code {exit.code}"
    if cancelled:
        return said if said and said.reason == "completed" else TurnEnded(reason="cancelled")
    if said is None:
        return TurnEnded(
            reason="failed",
            failure=why
            or Failure(
                kind="stream_broken" if exit.clean else "agent_crashed",
                message=f"the agent ended without a result ({how})",
                hint="its last words are in the agent_exited event; try again",
            ),
        )
    if said.reason == "completed" and not exit.clean:
        return TurnEnded(
            reason="failed",
            failure=why
            or Failure(
                kind="agent_crashed", message=f"the agent reported success, then ended with {how}"
            ),
        )
    return said
