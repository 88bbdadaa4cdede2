"""Conversation with a JSON-lines CLI that runs one process for all turns."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from tillerman.agents.stdio.agent import found
from tillerman.agents.stdio.line_decoder import Line, LineDecoder
from tillerman.agents.stdio.line_process import LineProcess
from tillerman.core.agent import AgentInfo, DecodedLine, Exit, Host, Mode, Prompt, SessionSpec
from tillerman.core.errors import SessionBusy, Unsupported
from tillerman.core.events import (
    AgentExited,
    AgentStarted,
    Answer,
    Event,
    MessageChunk,
    ThoughtChunk,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tillerman.core.failure import Failure
from tillerman.core.tools import ToolClass
from tillerman.core.wire import DecodesStderr, ExplainsExit, Launch, Wire

_TURNS = frozenset({TurnStarted, TurnEnded})
_WORK = frozenset({MessageChunk, ThoughtChunk, ToolStarted})
CLOSE_GRACE = 2.0  # seconds
LAST_LINE = 300  # characters
READING = 1.0  # seconds for an agent to read what is sent


class BaseConversation:
    """Common base of both lifetimes: a process, a wire, at most one open turn."""

    def __init__(
        self, info: AgentInfo, wire: Wire, spec: SessionSpec, host: Host, grace: float
    ) -> None:
        self._info = info
        self._wire = wire
        self._spec = spec
        self._host = host
        self._grace = grace
        self._decoder = LineDecoder(wire, host.line_cap)
        self._process: LineProcess | None = None
        self._turn_open = False
        self._turn_over = asyncio.Event()
        self._cancelling = False
        self._interrupt: asyncio.Task[None] | None = None
        self._send_task: asyncio.Task[None] | None = None

    @property
    def asks(self) -> frozenset[ToolClass]:
        return self._info.asks

    async def answer(self, request_id: str, answer: Answer) -> None:
        await self._send(self._wire.answer(request_id, answer))

    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None:
        self._spec = replace(
            self._spec, model=model or self._spec.model, mode=mode or self._spec.mode
        )
        await self._send(self._wire.configure(model, mode))

    async def cancel(self) -> None:
        """Sends the native interrupt, then SIGTERM, then kills the process tree."""
        process = self._process
        if not self._turn_open or process is None:
            await self._send(self._wire.cancel())  # background work may still be running
            return
        self._cancelling = True
        # Not awaited: an agent that does not read must not block the next step.
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

    async def _send_bounded(self, messages: Iterable[dict[str, Any]]) -> None:
        """Like `_send`, but an agent that does not read cannot block a cancel."""
        self._send_task = asyncio.create_task(self._send(messages))
        await asyncio.wait([self._send_task], timeout=READING)
        if self._send_task.done():
            self._send_task.result()

    def _opened(self) -> None:
        self._turn_open = True
        self._cancelling = False
        self._turn_over.clear()

    def _closed(self) -> None:
        self._turn_open = False
        self._turn_over.set()

    async def _ends_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._turn_over.wait()
        except TimeoutError:
            return False
        return True

    async def _receive(self, process: LineProcess) -> AsyncIterator[list[DecodedLine]]:
        wire = self._wire
        batches: AsyncIterator[list[Line] | str] = process.lines()
        if isinstance(wire, DecodesStderr):
            batches = process.lines_and_stderr()
        async for batch in batches:
            if isinstance(batch, str):
                assert isinstance(wire, DecodesStderr)
                if events := list(wire.decode_stderr(batch)):
                    yield [DecodedLine(batch.encode(), events)]
                continue
            received, replies = self._decoder.decode_batch(batch)
            if replies:
                await process.send(replies)
            yield received
            del batch, received, replies  # frees a long line before the next one is read

    def _exited(self, exit: Exit, process: LineProcess) -> AgentExited:
        return AgentExited(code=exit.code, signal=exit.signal, detail=process.stderr_tail)

    def _ending(self, reported: TurnEnded | None, exit: Exit, process: LineProcess) -> TurnEnded:
        wire = self._wire
        why = wire.explain(exit, process.stderr_tail) if isinstance(wire, ExplainsExit) else None
        last = _last_line(process.stderr_tail)
        return reconcile(reported, exit, cancelled=self._cancelling, why=why, last=last)


class StdioConversation(BaseConversation):
    """One process for the whole conversation."""

    _found_working = False
    _awaiting_work = False  # prompted, but no work seen yet
    _own_first = False  # it started its own turn before it read the prompt

    async def start(self) -> None:
        await self._start(self._program(None))
        await self._send_bounded(self._wire.greet())

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        """Not a coroutine, so that it can raise before a new turn is reported."""
        if self._turn_open:
            raise SessionBusy("the agent has just started a turn by itself", hint="send it later")
        messages = list(self._wire.prompt(prompt))  # may reject a file
        self._opened()
        self._awaiting_work = True
        return self._send_bounded(messages)

    async def steer(self, prompt: Prompt) -> None:
        if "steer" not in self._info.can:
            raise Unsupported(self._info.name, "steering", hint="queue the prompt instead")
        if not self._turn_open:
            raise SessionBusy("the turn has just ended", hint="send the text as a prompt")
        await self._send(self._wire.prompt(prompt))

    async def close(self) -> None:
        """Closes stdin: an idle agent exits by itself, any other is killed."""
        if not (process := self._process):
            return
        self._cancelling = self._turn_open
        process.close_stdin()
        try:
            async with asyncio.timeout(0 if self._turn_open else CLOSE_GRACE):
                await process.exit()
        except TimeoutError:
            await process.kill()

    async def batches(self) -> AsyncIterator[Sequence[DecodedLine]]:
        process = self._process
        assert process is not None
        yield [
            DecodedLine(None, [AgentStarted(agent=self._info.name, supervision=self._host.level)])
        ]
        async for batch in self._receive(process):
            kinds = {type(event) for received in batch for event in received.events}
            if self._turn_open and kinds.isdisjoint(_TURNS):
                self._awaiting_work = self._awaiting_work and kinds.isdisjoint(_WORK)
                yield batch  # the usual case
            else:
                yield [
                    DecodedLine(raw, list(self._turns_in(e)), images) for raw, e, images in batch
                ]
            del batch
        exit = await process.exit()
        last: list[Event] = [self._exited(exit, process)]
        if self._turn_open:
            last.append(self._ending(None, exit, process))
            self._closed()
        yield [DecodedLine(None, last)]

    def _turns_in(self, events: Sequence[Event]) -> Iterator[Event]:
        """Adds or drops turn boundaries: an agent may start a turn without or before reporting it.

        An agent that starts its own turn while our prompt is on its way does its own work first:
        within the turn of the prompt, which ends when the prompt is answered too.
        """
        for event in events:
            match event:
                case TurnStarted() if self._found_working:
                    continue
                case TurnStarted(origin="prompt"):  # starts on a prompt that was queued
                    yield from self._start_own_turn()
                    continue
                case TurnStarted() if self._awaiting_work:
                    self._awaiting_work, self._own_first = False, True
                    continue
                case TurnStarted():
                    self._opened()
                case TurnEnded() if self._own_first and not self._cancelling:
                    self._own_first = False
                    continue
                case TurnEnded():
                    yield from self._start_own_turn()
                    self._closed()
                    self._found_working = self._awaiting_work = self._own_first = False
                    if self._cancelling:  # our cancel counts, not the reported reason
                        yield TurnEnded(reason="cancelled")
                        continue
                case MessageChunk() | ThoughtChunk() | ToolStarted() if event.parent is None:
                    self._awaiting_work = False
                    yield from self._start_own_turn()
            yield event

    def _start_own_turn(self) -> Iterator[Event]:
        if not self._turn_open:
            self._opened()
            self._found_working = True
            yield TurnStarted(origin="agent")


def reconcile(
    reported: TurnEnded | None,
    exit: Exit,
    *,
    cancelled: bool,
    why: Failure | None = None,
    last: str = "",
) -> TurnEnded:
    """Decides how a turn ended from two sources: the stream and the exit of the process.

    After a cancel the reported end does not count unless it is `completed`. `why`: the failure
    decoded from the exit; `last`: the last stderr line, used if there is none.
    """
    how = f"signal {exit.signal}" if exit.signal else f"exit code {exit.code}"
    if cancelled:
        return (
            reported
            if reported and reported.reason == "completed"
            else TurnEnded(reason="cancelled")
        )
    if reported is None:
        return TurnEnded(
            reason="failed",
            failure=why
            or Failure(
                kind="stream_broken" if exit.clean else "agent_crashed",
                message=f"the agent exited without a result ({how})" + (last and f": {last}"),
                hint="try again; `tillerman sessions show ID --json` shows its last output",
            ),
        )
    if reported.reason == "completed" and not exit.clean:
        return TurnEnded(
            reason="failed",
            failure=why
            or Failure(
                kind="agent_crashed", message=f"the agent reported success, then exited with {how}"
            ),
        )
    return reported


def _last_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1][-LAST_LINE:] if lines else ""
