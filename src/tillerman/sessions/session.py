"""Handles of a session: one that this process owns, or one that another process runs."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, Self

from tillerman.core.agent import File, Mode, Prompt
from tillerman.core.errors import SessionBusy, SessionClosed, SessionError
from tillerman.core.events import Answer, Entry
from tillerman.core.session_options import (
    Preset,
    WhenBusy,
    as_prompt,
    check_answer,
    check_options,
    check_required,
)
from tillerman.sessions.log.broadcast import Broadcast
from tillerman.sessions.remote.owner_socket import (
    Call,
    Cancel,
    Configure,
    Follow,
    ForgetRule,
    GiveAnswer,
    OwnerClient,
    SendPrompt,
)
from tillerman.store.event_log import EventLog

if TYPE_CHECKING:
    from tillerman.core.transcript.transcript import Transcript
    from tillerman.core.transcript.turn_result import Result
    from tillerman.sessions.runner.runner import Runner
    from tillerman.sessions.workspace_tools.tool_runner import ToolRunner


class Idle(Protocol):
    """Calls for a session that no process runs; their effects are stored in the log."""

    async def answer(
        self, session: str, request_id: str, answer: Answer, surface: str, /
    ) -> None: ...
    async def forget_rule(self, session: str, rule: str, /) -> None: ...


class Session:
    """A session that this process runs; `async with` closes it."""

    def __init__(
        self,
        id: str,
        runner: Runner,
        broadcast: Broadcast,
        log: EventLog,
        on_close: Callable[[], Coroutine[Any, Any, None]],
        *,
        since: int,
        bench: ToolRunner | None = None,
    ) -> None:
        self.id = id  # in the store; for `resume`, `attach` and the command line
        self.bench = bench  # workspace tools, if requested
        self.since = since  # number of the last entry before it was opened here
        self._prompted = False
        self._closing: asyncio.Task[None] | None = None
        self._runner = runner
        self._broadcast = broadcast
        self._log = log
        self._on_close = on_close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    @property
    def closed(self) -> bool:
        return self._closing is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, nothing is queued, and every entry is durable."""
        return self._runner.is_idle()

    @property
    def agent(self) -> str:
        """Name of the current agent."""
        return self._runner.agent

    @property
    def request_limit(self) -> float | None:
        """Seconds until an unanswered request is denied."""
        return self._runner.request_limit

    @property
    def last_seq(self) -> int:
        """Number of the newest durable entry."""
        return self._broadcast.last_seq

    async def prompt(
        self, text: str, *, files: Sequence[File] = (), when_busy: WhenBusy = "queue"
    ) -> None:
        """Starts a turn. While one runs: `queue`, `refuse` (SessionBusy) or `steer` it."""
        await self._live.prompt(as_prompt(text, files), when_busy)
        self._prompted = True

    async def run(self, text: str, *, files: Sequence[File] = ()) -> AsyncGenerator[Entry, None]:
        """Prompts, and yields every new entry until the agent is idle again.

        Leaving the loop early, or cancelling the task, cancels the turn.
        """
        since = self.last_seq if self._prompted else self.since
        async with self._turn_of(text, files):
            async for entry in self.until_idle(since):
                yield entry

    async def until_idle(self, since: int = 0) -> AsyncIterator[Entry]:
        """Yields the entries after this number, until the agent is idle."""
        async for page in self.pages_until_idle(since):
            for entry in page:
                yield entry

    async def pages_until_idle(self, since: int = 0) -> AsyncIterator[Sequence[Entry]]:
        """Like `until_idle`, in pages of all new entries."""
        async for page in self._broadcast.pages(since, until=self._runner.is_idle):
            yield page

    async def ask(self, text: str, *, files: Sequence[File] = ()) -> Result:
        """Prompts, waits until the agent is idle, and returns the result of the prompt's turn.

        Cancelling the task cancels the turn.
        """
        async with self._turn_of(text, files) as prompt:
            await self.idle()
            number = self._runner.number_of(prompt)
        return self.result(number)

    @asynccontextmanager
    async def _turn_of(self, text: str, files: Sequence[File]) -> AsyncIterator[Prompt]:
        """Sends a prompt, whose turn is cancelled with the block."""
        prompt = await self._live.check(as_prompt(text, files))
        self._prompted = True
        self._live.follow(prompt)
        sending = asyncio.ensure_future(self._live.send(prompt))
        try:
            await asyncio.shield(sending)
            yield prompt
        except (asyncio.CancelledError, GeneratorExit):
            await to_the_end(self._withdraw(prompt, sending))
            raise
        finally:
            self._runner.number_of(prompt)

    async def _withdraw(self, prompt: Prompt, sending: asyncio.Future[None]) -> None:
        if not self.closed and not await self._runner.withdraw(prompt):
            sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    def entries(self, since: int = 0) -> AsyncIterator[Entry]:
        """Yields past entries, then live ones; ends when the session is closed."""
        return self._broadcast.entries(since)

    def pages(self, since: int = 0) -> AsyncIterator[Sequence[Entry]]:
        """Like `entries`, in pages of all new entries."""
        return self._broadcast.pages(since)

    def answer(self, request_id: str, answer: Answer, *, surface: str = "api") -> None:
        """The first answer wins; a later one raises `RequestNotOpen`.

        `Answer.remember` makes it a rule, for this session or for the whole project.
        """
        self._live.answer(request_id, answer, surface=surface)

    def forget_rule(self, rule: str) -> None:
        """Removes a remembered rule of this session, by its `Rule.told`."""
        self._live.forget_rule(rule)

    @property
    def open_requests(self) -> Collection[str]:
        """The ids of the requests that wait for an answer."""
        return self._runner.open_requests

    def waits_for(self, request_id: str) -> bool:
        """Whether the request is open: neither a rule nor a user has answered it."""
        return request_id in self._runner.open_requests

    async def cancel(self) -> None:
        """Cancels the running turn, and drops queued prompts."""
        await self._live.cancel()

    async def configure(
        self,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        approve: Preset | None = None,
    ) -> None:
        """Changes these settings of the session; None: no change."""
        await self._live.configure(model=model, mode=mode, approve=approve)

    async def durable(self) -> None:
        """Waits until everything that happened so far is in the store."""
        await self._runner.durable()

    async def idle(self) -> None:
        """Waits until nothing runs, nothing is queued, and every entry is durable."""
        await self._runner.idle()

    def transcript(self) -> Transcript:
        """The log, folded for reading: its turns, messages and calls."""
        from tillerman.core.transcript.transcript import fold

        return fold(read_all(self._log, self.id))

    def result(self, turn: int | None = None) -> Result:
        """The result of a turn, by default of the last one."""
        return turn_result(self.id, self.transcript(), turn)

    async def close(self) -> None:
        """Ends the agent and all its processes; a second call waits for the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._on_close())
        await asyncio.shield(self._closing)

    @property
    def _live(self) -> Runner:
        if self.closed:
            raise SessionClosed(self.id)
        return self._runner


class PreparedPrompt:
    """A prompt of a session that this process runs; `forget` it when its turn is known."""

    def __init__(self, session: Session, text: str, files: Sequence[File] = ()) -> None:
        self._runner = session._live
        self._prompt = Prompt(text, tuple(files))

    @property
    def turn(self) -> int | None:
        """Number of the turn that it began; None: not yet, or it was withdrawn."""
        return self._runner.turn_of(self._prompt)

    async def send(self, when_busy: WhenBusy = "queue") -> None:
        """Like `Session.prompt`."""
        check_required(when_busy=when_busy)
        self._prompt = await self._runner.check(self._prompt)
        self._runner.follow(self._prompt)
        await self._runner.send(self._prompt, when_busy)

    async def withdraw(self) -> bool:
        """Cancels its turn, or takes it out of the queue; False: cancel `send` instead."""
        return await self._runner.withdraw(self._prompt)

    def forget(self) -> None:
        self._runner.number_of(self._prompt)


async def to_the_end(work: Awaitable[None]) -> None:
    """Waits for the work, however often the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    task.result()


class AttachedSession:
    """A session of another process: reads the log directly, sends calls to its owner socket."""

    def __init__(self, id: str, socket: str, log: EventLog, at_rest: Idle) -> None:
        self.id = id  # in the store; for `resume`, `attach` and the command line
        self._socket = socket
        self._log = log
        self._at_rest = at_rest

    async def prompt(
        self, text: str, *, files: Sequence[File] = (), when_busy: WhenBusy = "queue"
    ) -> None:
        check_required(when_busy=when_busy)
        prompt = as_prompt(text, files)
        await self._call(SendPrompt(prompt.text, when_busy, prompt.files))

    async def answer(self, request_id: str, answer: Answer, *, surface: str = "api") -> None:
        """Answers a request; without an owner the answer is stored for the same request."""
        check_answer(answer)
        if not await self._reach(GiveAnswer(request_id, answer, surface)):
            await self._at_rest.answer(self.id, request_id, answer, surface)

    async def forget_rule(self, rule: str) -> None:
        if not await self._reach(ForgetRule(rule)):
            await self._at_rest.forget_rule(self.id, rule)

    def transcript(self) -> Transcript:
        """The log, folded for reading: its turns, messages and calls."""
        from tillerman.core.transcript.transcript import fold

        return fold(read_all(self._log, self.id))

    def result(self, turn: int | None = None) -> Result:
        """The result of a turn, by default of the last one."""
        return turn_result(self.id, self.transcript(), turn)

    async def cancel(self) -> None:
        """Cancels the running turn, and drops queued prompts."""
        await self._call(Cancel())

    async def configure(
        self,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        approve: Preset | None = None,
    ) -> None:
        check_options({"model": model, "mode": mode, "approve": approve})
        await self._call(Configure(model, mode, approve))

    async def entries(self, since: int = 0) -> AsyncIterator[Entry]:
        """Yields past entries, then live ones; ends with its owner."""
        async for page in self.pages(since):
            for entry in page:
                yield entry

    async def last_seqs(self, since: int = 0) -> AsyncIterator[int]:
        """Yields the number of the newest durable entry whenever it grows; ends with its owner."""
        client = await self._follow(since)
        if not client:
            return
        try:
            async for last in client.updates():
                yield last
        finally:
            client.leave()

    async def pages(self, since: int = 0) -> AsyncIterator[Sequence[Entry]]:
        """Like `entries`, in pages of all new entries."""
        client = await self._follow(since)
        while page := self._log.page(self.id, since):
            yield page
            since = page[-1].seq
        if not client:
            return
        try:
            async for last in client.updates():
                while since < last and (page := self._log.page(self.id, since)):
                    yield page
                    since = page[-1].seq
        finally:
            client.leave()
        while page := self._log.page(self.id, since):
            yield page
            since = page[-1].seq

    async def _follow(self, since: int) -> OwnerClient | None:
        """A connection to the owner that reports new entries; None if no process runs it."""
        client = await OwnerClient.connect(self._socket)
        if client is None:
            return None
        try:
            await client.call(Follow(since))
        except SessionBusy:  # the owner just ended
            client.leave()
            return None
        except BaseException:
            client.leave()
            raise
        return client

    async def _call(self, call: Call) -> None:
        if not await self._reach(call):
            raise SessionError(
                f"session {self.id} is not running",
                hint=f"`tillerman run --resume {self.id}` resumes it",
            )

    async def _reach(self, call: Call) -> bool:
        """Calls the owner; False if no process runs the session."""
        client = await OwnerClient.connect(self._socket)
        if client is None:
            return False
        try:
            await client.call(call)
        finally:
            client.leave()
        return True


def turn_result(session: str, transcript: Transcript, number: int | None = None) -> Result:
    """The result of the turn with this number, or of the last one."""
    turns = [turn for turn in transcript.turns if number in (None, turn.number)]
    if not turns:
        missing = "no turns yet" if number is None else f"no turn {number}"
        raise SessionError(
            f"session {session} has {missing}",
            hint="turns are numbered from 1; a prompt starts the next one",
        )
    from tillerman.core.transcript.turn_result import result

    return result(transcript, turns[-1])


def read_all(log: EventLog, session: str, seq: int = 0) -> Iterator[Entry]:
    while page := log.page(session, seq):
        yield from page
        seq = page[-1].seq
