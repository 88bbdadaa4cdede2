"""Follows one run: server-sent events, resumed after the last one, or polls once they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from tillerman.agents.cursor_cloud.api_objects import CloudRun
from tillerman.agents.cursor_cloud.backoff import Backoff
from tillerman.agents.cursor_cloud.connection import ApiConnection
from tillerman.agents.cursor_cloud.failures import CloudRequestFailed, invalid
from tillerman.agents.cursor_cloud.sse_parser import (
    EventStreamParser,
    EventTooLong,
    ServerEvent,
)

MOST_SEEN = 200_000  # ids of events
POLL = Backoff(base=2.0, cap=60.0)


class Interrupted(Exception):
    """The server ended the stream, by an `error` event or in order, without a result."""


class RunStream:
    """Each event comes once, in order, whatever happens to the connections; the last is `result`.

    An event without an id is a state that the server sends at the start of each connection.
    """

    def __init__(
        self,
        connection: ApiConnection,
        path: str,
        read_run: Callable[[], Awaitable[CloudRun]],
        *,
        poll: Backoff = POLL,
    ) -> None:
        self._connection = connection
        self._path = path
        self._read_run = read_run
        self._poll = poll
        self._last: str | None = None
        self._seen: dict[tuple[str, str], None] = {}
        self._state = ""  # the last event without an id
        self._progress = False

    async def events(self) -> AsyncIterator[ServerEvent]:
        backoff = self._connection.settings.backoff
        attempt, empty, forgotten = 0, 0, False
        while True:
            wait = None
            self._progress, ended = False, False
            try:
                async for event in self._connected():
                    yield event
                    if event.kind == "result":
                        return
                ended = True
            except Interrupted:
                pass
            except CloudRequestFailed as error:
                wait = error.failure.retry_after
                if error.code == "invalid_last_event_id" and not forgotten:
                    self._last, forgotten = None, True  # what was seen is skipped
                elif error.status == 410 or error.code == "stream_expired":
                    yield await self._polled()
                    return
                elif error.status is not None and error.status < 500 and error.status != 429:
                    raise
            attempt = 1 if self._progress else attempt + 1
            empty = empty + 1 if ended and not self._progress else 0
            # Not after the first: what looks like an end may be a cut connection.
            if empty >= 2 and (run := await self._read_run()).ended:
                yield _result(run)
                return
            if attempt > backoff.tries:
                yield await self._polled()
                return
            await asyncio.sleep(backoff.delay(attempt, wait))

    async def _connected(self) -> AsyncIterator[ServerEvent]:
        headers = {"Last-Event-ID": self._last} if self._last else {}
        parser = EventStreamParser()
        async with self._connection.stream(self._path, headers) as response:
            try:
                async for data in response.aiter_bytes():
                    for event in parser.feed(data):
                        if event.kind == "error":
                            raise Interrupted
                        if self._is_new(event):
                            yield event._replace(data=self._connection.redact_text(event.data))
            except EventTooLong as error:
                raise invalid(str(error)) from None

    def _is_new(self, event: ServerEvent) -> bool:
        if event.id is None:
            state = f"{event.kind}:{event.data}"
            known, self._state = state == self._state, state
            return not known
        key = (event.id, event.kind)
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        self._last = event.id
        self._progress = True
        return True

    async def _polled(self) -> ServerEvent:
        """Asks for the run at growing intervals until it has ended."""
        attempt = 0
        while not (run := await self._read_run()).ended:
            attempt += 1
            await asyncio.sleep(self._poll.delay(attempt, self._poll.base / 2))
        return _result(run)


def _result(run: CloudRun) -> ServerEvent:
    fields = {"runId": run.id, "status": run.status, "text": run.text, **run.raw}
    return ServerEvent("result", msgspec.json.encode(fields).decode(), None)
