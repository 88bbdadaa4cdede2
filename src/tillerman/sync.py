"""The Python API without an event loop of the caller's, for scripts and notebooks.

with tillerman.sync.open() as harness:
    session = harness.start("claude", approve="edits")
    print(session.ask("Add a test for the parser").text)

The same objects run in an event loop of a thread of their own; callbacks are called there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

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

T = TypeVar("T")

_NAME = "tillerman"  # of the threads

__all__ = ["SyncHarness", "SyncSession", "ask", "open"]


class _LoopThread:
    """An event loop in a thread, which runs coroutines for callers in other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=_NAME, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for the result; an interrupt (Ctrl-C) cancels the work first."""
        if self._loop.is_closed():
            work.close()
            raise UsageError(
                "the harness is closed", hint="use it inside `with tillerman.sync.open()`"
            )
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError(
                "a callback cannot call the synchronous API",
                hint="make it a coroutine function that uses `tillerman.open()`'s objects",
            )
        future = None
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            return future.result()
        except BaseException:
            if future is None:  # interrupted before it was passed on
                self._loop.call_soon_threadsafe(work.close)
            elif future.cancel():
                asyncio.run_coroutine_threadsafe(_cancelled(), self._loop).result()
            raise

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancelled() -> None:
    """Waits for the tasks that are being cancelled."""
    cancelled = [task for task in asyncio.all_tasks() if task.cancelling()]
    await asyncio.gather(*cancelled, return_exceptions=True)


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
        return thread.run(aio_query.ask(prompt, agent=agent, files=files, title=title, **options))
    finally:
        thread.close()


class SyncHarness:
    """Like `tillerman.Harness`."""

    def __init__(self, opening: AbstractAsyncContextManager[aio.Harness]) -> None:
        self._opening = opening
        self._thread = _LoopThread()
        self._closed = False
        try:
            self.aio = self._thread.run(opening.__aenter__())
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
            self._thread, self._run(self.aio.start(agent, title=title, **options)), self
        )

    def resume(
        self, session: str | SyncSession, *, fork: bool = False, **options: Unpack[ResumeOptions]
    ) -> SyncSession:
        resumed = self._run(self.aio.resume(_aio(session), fork=fork, **options))
        return SyncSession(self._thread, resumed, self)

    def handoff(
        self, session: str | SyncSession, agent: str, **options: Unpack[ResumeOptions]
    ) -> SyncSession:
        handed = self._run(self.aio.handoff(_aio(session), agent, **options))
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
            self._thread.run(_exit(self._opening))
        finally:
            self._thread.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)


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
        self.id = session.id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def agent(self) -> str:
        return self.aio.agent

    def ask(self, text: str, *, files: Sequence[File] = ()) -> Result:
        return self._thread.run(self.aio.ask(text, files=files))

    def run(self, text: str, *, files: Sequence[File] = ()) -> Iterator[Entry]:
        """Yields every entry of the turn; leaving the loop early cancels the turn."""
        entries = self.aio.run(text, files=files)
        try:
            while (entry := self._thread.run(_next(entries))) is not None:
                yield entry
        finally:
            if not self._thread.closed:
                self._thread.run(entries.aclose())

    def prompt(
        self, text: str, *, files: Sequence[File] = (), when_busy: WhenBusy = "queue"
    ) -> None:
        self._thread.run(self.aio.prompt(text, files=files, when_busy=when_busy))

    def idle(self) -> None:
        self._thread.run(self.aio.idle())

    def answer(self, request_id: str, answer: Answer) -> None:
        self._thread.run(_call(self.aio.answer, request_id, answer))

    def cancel(self) -> None:
        self._thread.run(self.aio.cancel())

    def configure(
        self, *, model: str | None = None, mode: Mode | None = None, approve: Preset | None = None
    ) -> None:
        self._thread.run(self.aio.configure(model=model, mode=mode, approve=approve))

    def transcript(self) -> Transcript:
        return self.aio.transcript()

    def result(self, turn: int | None = None) -> Result:
        return self.aio.result(turn)

    def close(self) -> None:
        if not self._thread.closed:
            self._thread.run(self.aio.close())


async def _next(entries: Any) -> Entry | None:
    entry: Entry | None = await anext(entries, None)
    return entry


async def _call(function: Any, *arguments: Any) -> None:
    function(*arguments)


def _aio(session: str | SyncSession) -> str | aio_session.Session:
    return session.aio if isinstance(session, SyncSession) else session
