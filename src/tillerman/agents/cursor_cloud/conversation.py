"""Conversation with one cloud agent: launches it, follows its runs, sends follow-ups, stops it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tillerman.agents.cursor_cloud.api_objects import is_v0
from tillerman.agents.cursor_cloud.client import CursorCloudClient
from tillerman.agents.cursor_cloud.failures import NAME, CloudRequestFailed
from tillerman.agents.cursor_cloud.request_bodies import prompt_body
from tillerman.agents.cursor_cloud.run_events import RunEvents
from tillerman.agents.decoding.token_meter import TokenCounts
from tillerman.core.agent import DecodedLine, Mode, Prompt
from tillerman.core.cloud import RUNNING, CloudAgent, CloudLaunch
from tillerman.core.errors import SessionBusy, TillermanError, Unsupported
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Answer,
    Event,
    Notice,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from tillerman.core.failure import Failure
from tillerman.core.tools import ToolClass

GRACE = 10.0  # seconds for a stopped run to report its end
USAGE = 10.0  # seconds to wait for the usage of a run
WAKE_CHECK = 1.0  # seconds between looks for a webhook


class CloudConversation:
    """`agent`: the one to continue; None: the first prompt launches one."""

    asks: frozenset[ToolClass] = frozenset()

    def __init__(
        self,
        client: CursorCloudClient,
        launch: CloudLaunch,
        agent: CloudAgent | None,
        *,
        wake_file: Callable[[str], Path] | None = None,  # by the id of an agent
        grace: float = GRACE,
    ) -> None:
        self._client = client
        self._launch = launch
        self._agent = agent
        self._wake_file = wake_file
        self._grace = grace
        self._run: str | None = agent.run if agent else None
        self._output: asyncio.Queue[list[DecodedLine] | None] = asyncio.Queue()
        self._work: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._turn_open = agent is not None and agent.state in RUNNING
        self._turn_over = asyncio.Event()
        self._cancelling = False

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        """Not a coroutine, so that it can raise before a new turn is reported."""
        if self._turn_open:
            raise SessionBusy("the cloud agent is working already", hint="send it later")
        prompt_body(prompt)  # may refuse a file
        self._begin()
        return self._start(prompt)

    async def steer(self, prompt: Prompt) -> None:
        raise Unsupported(NAME, "steering", hint="queue the prompt instead")

    async def answer(self, request_id: str, answer: Answer) -> None:
        """It asks nothing."""

    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None:
        if mode == "ask":
            raise _no_ask_mode()
        if model and self._agent:
            raise Unsupported(NAME, "another model after the launch", hint="launch a new agent")
        self._launch = replace(
            self._launch, model=model or self._launch.model, mode=mode or self._launch.mode
        )

    async def cancel(self) -> None:
        """Stops the run in the cloud; if it does not report its end, the turn ends without it."""
        if not self._turn_open:
            return
        self._cancelling = True
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.create_task(self._stop())
        try:
            async with asyncio.timeout(self._grace):
                await self._turn_over.wait()
        except TimeoutError:
            if self._work:
                self._work.cancel()
            self._end(TurnEnded(reason="cancelled"))

    async def close(self) -> None:
        """The cloud agent goes on working: it can be resumed."""
        tasks = [task for task in (self._work, self._stopping) if task and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._client.connection.close()
        self._output.put_nowait(None)

    async def batches(self) -> AsyncIterator[Sequence[DecodedLine]]:
        first: list[Event] = [AgentStarted(agent=NAME)]
        if self._agent:
            first.append(self._ready(self._agent))
            if self._turn_open:
                first.append(TurnStarted(origin="agent"))
                self._work = asyncio.create_task(self._guarded(self._follow()))
        yield [DecodedLine(None, first)]
        while (batch := await self._output.get()) is not None:
            yield batch
        last: list[Event] = [AgentExited(code=0)]
        if self._turn_open:
            last.append(TurnEnded(reason="cancelled"))
            self._turn_open = False
        yield [DecodedLine(None, last)]

    # -- a turn ----------------------------------------------------------------------------------

    async def _start(self, prompt: Prompt) -> None:
        self._work = asyncio.create_task(self._guarded(self._send(prompt)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Ends the turn whatever happens."""
        try:
            await work
        except CloudRequestFailed as error:
            self._end(_failed(error.failure))
        except TillermanError as error:
            failure = Failure(kind="agent_failed", message=error.message, hint=error.hint)
            self._end(_failed(failure))
        except Exception as error:
            message = self._client.connection.redact_text(f"{type(error).__name__}: {error}")
            self._end(_failed(Failure(kind="agent_failed", message=message)))
        if self._turn_open:
            failure = Failure(kind="stream_broken", message="the cloud agent gave no result")
            self._end(_failed(failure))

    async def _send(self, prompt: Prompt) -> None:
        known = 0
        if self._agent is None:
            self._agent = await self._client.launch(replace(self._launch, prompt=prompt))
            self._run = self._agent.run
            self._put(self._ready(self._agent))
            self._put(_where(self._agent))
        else:
            if is_v0(self._agent.id):
                known = await self._client.message_count(self._agent.id)
            self._run = await self._client.start_run(self._agent.id, prompt, self._launch.mode)
        if self._cancelling:
            await self._stop()
        await self._follow(known)

    async def _follow(self, known: int = 0) -> None:
        agent = self._agent
        assert agent is not None
        if is_v0(agent.id):
            await self._poll(agent.id, known)
        elif self._run:
            decoder = RunEvents(self._run)
            async for event in self._client.stream(agent.id, self._run).events():
                raw = f"event: {event.kind}\ndata: {event.data}".encode("utf-8", "replace")
                events = decoder.decode(event)
                ending = events.pop() if events and isinstance(events[-1], TurnEnded) else None
                if events:
                    self._output.put_nowait([DecodedLine(raw, events)])
                if isinstance(ending, TurnEnded):
                    await self._report_usage(agent.id, self._run)
                    self._end(ending)

    async def _poll(self, id: str, known: int) -> None:
        wake = asyncio.create_task(self._watch_wake_file(id))
        try:
            async for news in self._client.poll_v0(id, known):
                for event in news.events:
                    if isinstance(event, TurnEnded):
                        self._end(event)
                    elif not isinstance(event, UserMessage):  # the prompt is in the log
                        self._put(event)
        finally:
            wake.cancel()

    async def _watch_wake_file(self, id: str) -> None:
        """A webhook may arrive at another process, which touches this file."""
        if self._wake_file is None:
            return
        file = self._wake_file(id)
        before = _changed(file)
        while True:
            await asyncio.sleep(WAKE_CHECK)
            now = _changed(file)
            if now != before:
                before = now
                self._client.wake.set()

    async def _report_usage(self, id: str, run: str) -> None:
        """What cannot be read is left out: it must not fail the turn."""
        with suppress(TillermanError, TimeoutError):
            async with asyncio.timeout(USAGE):
                used = await self._client.usage(id, run)
                counts = TokenCounts(
                    input=used.input_tokens + used.cache_write_tokens,
                    output=used.output_tokens,
                    cached=used.cache_read_tokens,
                )
                if used.total_tokens or any(counts[:3]):
                    self._put(counts.reported())

    async def _stop(self) -> None:
        agent = self._agent
        if agent is None:
            return  # it is being launched, and stopped after that
        try:
            if is_v0(agent.id) or not self._run:
                await self._client.stop(agent.id)
            else:
                await self._client.cancel_run(agent.id, self._run)
        except TillermanError as error:
            text = f"the cloud agent could not be stopped: {error.message}"
            self._put(Notice(level="warning", kind="session", text=text))

    # -- events ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._turn_open, self._cancelling = True, False
        self._turn_over.clear()

    def _end(self, event: TurnEnded) -> None:
        if not self._turn_open:
            return
        if self._cancelling and event.reason != "completed":
            event = TurnEnded(reason="cancelled")
        self._turn_open = False
        self._put(event)
        self._turn_over.set()

    def _put(self, event: Event) -> None:
        self._output.put_nowait([DecodedLine(None, [event])])

    def _ready(self, agent: CloudAgent) -> AgentReady:
        return AgentReady(native_id=agent.id, model=self._launch.model)


def _where(agent: CloudAgent) -> Notice:
    return Notice(level="info", kind="session", text=f"cloud agent {agent.id}: {agent.url}")


def _failed(failure: Failure) -> TurnEnded:
    return TurnEnded(reason="failed", failure=failure)


def _no_ask_mode() -> Unsupported:
    return Unsupported(NAME, "ask mode", hint="use plan mode")


def _changed(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
