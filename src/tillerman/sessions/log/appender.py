"""The only writer of a session's log: numbers entries, and publishes them once durable."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime

from tillerman.core.events import Entry, Event
from tillerman.core.timestamps import rfc3339
from tillerman.sessions.log.broadcast import Broadcast
from tillerman.sessions.log.loop_waker import LoopWaker
from tillerman.sessions.log.sanitizer import ChunkBatch
from tillerman.sessions.log.size_limits import weight
from tillerman.store.event_log import EventLog
from tillerman.store.row_codec import Line

IN_FLIGHT = 16  # batches in flight to disk before backpressure on the agent
IN_FLIGHT_BYTES = 4 * 1024 * 1024
TOGETHER = 0.004  # seconds that the start of a tool call may wait for the rest of it

_NO_LINE: tuple[int, int, None] = (0, 0, None)


class LogAppender:
    def __init__(self, session: str, log: EventLog, broadcast: Broadcast) -> None:
        self._loop = asyncio.get_running_loop()
        self._waker = LoopWaker.of(self._loop)
        self._session = session
        self._log = log
        self._broadcast = broadcast
        self._seq = broadcast.last_seq
        self._at = ""
        self._entries: list[Entry] = []
        self._lines: list[Line] = []
        self._size = 0
        self._gathering = False  # the pending batch may wait for more entries
        self._in_flight: deque[Future[None]] = deque()
        self._in_flight_bytes = 0
        self.failure: BaseException | None = None  # why nothing is stored any more
        self.on_failure: Callable[[], None] = lambda: None

    def write(
        self, turn: int, event: Event, raw: bytes | None = None, *, more_follows: bool = False
    ) -> None:
        """Appends an entry. Entries of one line are consecutive, each with the same `raw`. With
        `more_follows`, entries of the next milliseconds are flushed together with it."""
        if self.failure:
            return  # the next number is not known to be free
        self._begin_batch(more_follows=more_follows)
        self._seq += 1
        entry = Entry(session=self._session, seq=self._seq, turn=turn, at=self._at, event=event)
        self._entries.append(entry)
        self._size += weight(event)
        if raw is None:
            return
        first, last, line = self._lines[-1] if self._lines else _NO_LINE
        if line is raw and last == self._seq - 1:
            self._lines[-1] = (first, self._seq, raw)
        else:
            self._lines.append((self._seq, self._seq, raw))
            self._size += len(raw)

    def write_chunks(self, turn: int, chunks: ChunkBatch) -> None:
        if self.failure:
            return
        self._begin_batch()
        session, at, seq = self._session, self._at, self._seq
        for raw, (event,), _ in chunks.lines:
            seq += 1
            entry = Entry(session=session, seq=seq, turn=turn, at=at, event=event)
            self._entries.append(entry)
            if raw is not None:
                self._lines.append((seq, seq, raw))
        self._seq = seq
        self._size += chunks.size

    def _begin_batch(self, *, more_follows: bool = False) -> None:
        """Starts a batch, if there is none, and schedules its flush."""
        if not self._entries:
            self._at = rfc3339(datetime.now(UTC))
        elif more_follows or not self._gathering:
            return  # its flush is already scheduled
        self._gathering = more_follows
        if more_follows:
            self._loop.call_later(TOGETHER, self._flush)
        else:
            self._loop.call_soon(self._flush)

    def write_urgent(self, turn: int, event: Event) -> None:
        """On a full disk: writes with all pending entries, into the disk reserve."""
        self.write(turn, event)
        self._flush(urgent=True)

    def _flush(self, *, urgent: bool = False) -> None:
        if not self._entries:
            return
        entries, lines, size = self._entries, self._lines, self._size
        self._entries, self._lines, self._size = [], [], 0
        done = self._log.write(entries, lines, urgent=urgent)
        self._in_flight.append(done)
        self._in_flight_bytes += size
        # The future is not in its own callback: a reference cycle is memory until the collector
        # runs.
        done.add_done_callback(
            lambda done: self._waker.call(self._loop, self._durable, done, entries, size)
        )

    def submit(self) -> None:
        """Hands the pending batch to the store now, unless it waits for more entries."""
        if not self._gathering:
            self._flush()

    @property
    def behind(self) -> bool:
        """Whether the store is behind, and `room` waits for it."""
        return len(self._in_flight) >= IN_FLIGHT or self._in_flight_bytes >= IN_FLIGHT_BYTES

    async def room(self) -> None:
        """Waits while the store is behind, so that the pipe fills and the agent slows down."""
        while self.behind:
            await asyncio.wrap_future(self._in_flight[0])
        self._raise_failure()

    @property
    def settled(self) -> bool:
        return not self._entries and not self._in_flight

    async def durable(self) -> None:
        self._flush()
        while self._in_flight:
            await asyncio.wrap_future(self._in_flight[-1])
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self.failure:
            raise self.failure

    def _durable(self, done: Future[None], entries: Sequence[Entry], size: int) -> None:
        self._in_flight.remove(done)
        self._in_flight_bytes -= size
        if error := done.exception():
            if self.failure is None:
                self.failure = error
                self.on_failure()
            self._broadcast.fail(self.failure)
        elif entries:
            self._broadcast.publish(entries, size)

    def wake_readers(self) -> None:
        self._broadcast.wake()
