"""The Python API without an event loop of the caller's, for scripts and notebooks.

with tillerman.sync.open() as harness:
    session = harness.start("claude", approve="edits")
    print(session.ask("Add a test for the parser").text)

The same objects run in an event loop of a thread of their own; callbacks are called there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack

from tillerman.config import Config, Paths
from tillerman.core.agent import File, Mode
from tillerman.core.errors import UsageError
from tillerman.core.events import Answer, Entry
from tillerman.core.session_options import Preset, ResumeOptions, StartOptions, WhenBusy
from tillerman.core.transcript.transcript import Transcript
from tillerman.core.transcript.turn_result import Result
from tillerman.harness import harness as aio
from tillerman.harness import query as aio_query
from tillerman.sessions import session as aio_session
from tillerman.store.session_row import SessionRow

P = ParamSpec("P")
T = TypeVar("T")

_NAME = "tillerman"  # of the threads
CHECK_INTERVAL = 1.0  # seconds until a signal is handled that came just before a wait

__all__ = ["SyncHarness", "SyncSession", "ask", "open", "query"]


class _LoopThread:
    """An event loop in a thread, which runs coroutines for callers in other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=_NAME, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def run(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Calls it in the loop, and waits for the result.

        An interrupt (Ctrl-C), which may come at any instruction, cancels the call and waits for its
        end.
        """
        if self._loop.is_closed():
            raise UsageError(
                "the harness is closed", hint="use it inside `with tillerman.sync.open()`"
            )
        if threading.current_thread() is self._thread:
            raise UsageError(
                "a callback cannot call the synchronous API",
                hint="make it a coroutine function that uses `tillerman.open()`'s objects",
            )
        return _LoopCall(self._loop, partial(function, *args, **kwargs)).result()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.run(self._loop.shutdown_asyncgens)
        self.run(self._loop.shutdown_default_executor)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _LoopCall(Generic[T]):
    """One call into the loop.

    Its coroutine is created in the loop: an interrupt may come between any two instructions here,
    and leaves neither a coroutine that nobody awaits nor a task that nobody cancels.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._over = False
        self._wakes = threading.Lock()  # an Event could be left locked by an interrupt
        self._wakes.acquire()

    def result(self) -> T:
        try:
            self._loop.call_soon_threadsafe(self._start)
            self._wait()
        except BaseException:
            self._loop.call_soon_threadsafe(self._cancel)
            self._wait()
            raise
        assert self._task
        return self._task.result()

    def _wait(self) -> None:
        while not self._over:
            self._wakes.acquire(timeout=CHECK_INTERVAL)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        if self._task is None:
            self._end()  # interrupted before it was passed on
        else:
            self._task.cancel()

    def _end(self, task: asyncio.Task[T] | None = None) -> None:
        if not self._over:
            self._over = True
            self._wakes.release()

    async def _run(self) -> T:
        return await self._work()


def open(
    *, config: Config | None = None, cwd: Path | str = ".", paths: Paths | None = None
) -> SyncHarness:
    """Like `tillerman.open`; the harness is a context manager, or is closed by `close`."""
    return SyncHarness(aio.open_harness(config=config, cwd=cwd, paths=paths))


def ask(
    prompt: str,
    *,
    agent: str | None = None,
    files: Sequence[File] = (),
    title: str | None = None,
    **options: Unpack[StartOptions],
) -> Result:
    """Like `tillerman.ask`."""
    thread = _LoopThread()
    try:
        return thread.run(aio_query.ask, prompt, agent=agent, files=files, title=title, **options)
    finally:
        thread.close()


def query(
    prompt: str,
    *,
    agent: str | None = None,
    files: Sequence[File] = (),
    title: str | None = None,
    **options: Unpack[StartOptions],
) -> Iterator[Entry]:
    """Like `tillerman.query`; leaving the loop early cancels the turn."""
    thread = _LoopThread()
    try:
        entries = aio_query.query(prompt, agent=agent, files=files, title=title, **options)
        yield from _each(thread, entries)
    finally:
        thread.close()


class SyncHarness:
    """Like `tillerman.Harness`."""

    def __init__(self, opening: AbstractAsyncContextManager[aio.Harness]) -> None:
        self._opening = opening
        self._thread = _LoopThread()
        self._closed = False
        try:
            self.aio = self._thread.run(_enter, opening)
        except BaseException:
            self._thread.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def start(
        self, agent: str | None = None, *, title: str | None = None, **options: Unpack[StartOptions]
    ) -> SyncSession:
        return SyncSession(
            self._thread, self._thread.run(self.aio.start, agent, title=title, **options), self
        )

    def resume(
        self, session: str | SyncSession, *, fork: bool = False, **options: Unpack[ResumeOptions]
    ) -> SyncSession:
        resumed = self._thread.run(self.aio.resume, _aio(session), fork=fork, **options)
        return SyncSession(self._thread, resumed, self)

    def handoff(
        self, session: str | SyncSession, agent: str, **options: Unpack[ResumeOptions]
    ) -> SyncSession:
        handed = self._thread.run(self.aio.handoff, _aio(session), agent, **options)
        return SyncSession(self._thread, handed, self)

    def find(self, session: str | SyncSession) -> SessionRow:
        return self.aio.find(_aio(session))

    def list(self, limit: int = 50) -> Sequence[SessionRow]:
        """The newest sessions."""
        self.aio.need_open()
        return self.aio.sessions.catalog.list(limit=limit)

    def agents(self) -> Sequence[str]:
        return self.aio.agents()

    def close(self) -> None:
        """Closes all sessions and the store; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self._thread.run(_exit, self._opening)
        finally:
            self._thread.close()


async def _enter(opening: AbstractAsyncContextManager[aio.Harness]) -> aio.Harness:
    return await opening.__aenter__()


async def _exit(opening: AbstractAsyncContextManager[aio.Harness]) -> None:
    await opening.__aexit__(None, None, None)


class SyncSession:
    """Like `tillerman.Session`; `aio` is that session."""

    def __init__(
        self, thread: _LoopThread, session: aio_session.Session, harness: SyncHarness
    ) -> None:
        self._thread = thread
        self._harness = harness  # which would be closed when nothing refers to it
        self.aio = session
        self.id = session.id  # in the store; for `resume` and the command line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def agent(self) -> str:
        return self.aio.agent

    def ask(self, text: str, *, files: Sequence[File] = ()) -> Result:
        return self._thread.run(self.aio.ask, text, files=files)

    def run(self, text: str, *, files: Sequence[File] = ()) -> Iterator[Entry]:
        """Yields every entry of the turn; leaving the loop early cancels the turn."""
        yield from _each(self._thread, self.aio.run(text, files=files))

    def prompt(
        self, text: str, *, files: Sequence[File] = (), when_busy: WhenBusy = "queue"
    ) -> None:
        self._thread.run(self.aio.prompt, text, files=files, when_busy=when_busy)

    def idle(self) -> None:
        self._thread.run(self.aio.idle)

    def answer(self, request_id: str, answer: Answer) -> None:
        self._thread.run(_call, self.aio.answer, request_id, answer)

    def cancel(self) -> None:
        self._thread.run(self.aio.cancel)

    def configure(
        self, *, model: str | None = None, mode: Mode | None = None, approve: Preset | None = None
    ) -> None:
        self._thread.run(self.aio.configure, model=model, mode=mode, approve=approve)

    def transcript(self) -> Transcript:
        return self.aio.transcript()

    def result(self, turn: int | None = None) -> Result:
        return self.aio.result(turn)

    def close(self) -> None:
        if not self._thread.closed:
            self._thread.run(self.aio.close)


def _each(thread: _LoopThread, entries: AsyncGenerator[Entry, None]) -> Iterator[Entry]:
    try:
        while (entry := thread.run(_next, entries)) is not None:
            yield entry
    finally:
        if not thread.closed:
            thread.run(entries.aclose)


async def _next(entries: AsyncGenerator[Entry, None]) -> Entry | None:
    return await anext(entries, None)


async def _call(function: Any, *arguments: Any) -> None:
    function(*arguments)


def _aio(session: str | SyncSession) -> str | aio_session.Session:
    return session.aio if isinstance(session, SyncSession) else session
