"""A session of a service: the same calls as a session of this process, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from tillerman.core.agent import File, Mode
from tillerman.core.errors import SessionError, SessionNotFound
from tillerman.core.events import Answer, Entry, TurnEnded, TurnStarted, decode_entry
from tillerman.core.session_options import Preset, WhenBusy, check_options, check_required
from tillerman.remote.http_client import ConnectionLost, HttpClient
from tillerman.store.session_row import SessionRow

if TYPE_CHECKING:
    from tillerman.core.transcript.transcript import Transcript
    from tillerman.core.transcript.turn_result import Result

RETRIES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before connecting again; then the error is raised


class _Sent(msgspec.Struct):
    since: int


class RemoteSession:
    def __init__(
        self, http: HttpClient, id: str, options: dict[str, Any], *, new: bool = False
    ) -> None:
        self.id = id
        self._new = new  # nobody has read its first entries
        self._http = http
        self._options = options  # for the prompt that resumes it
        self._path = f"/sessions/{quote(id, safe='')}"

    async def row(self) -> SessionRow:
        return await self._http.read(SessionRow, self._path)

    async def prompt(
        self, text: str, *, files: Sequence[File] = (), when_busy: WhenBusy = "queue"
    ) -> int:
        """Starts a turn, whichever process runs the session; if none does, the service resumes it.

        Returns the number after which the entries of the turn come.
        """
        check_required(when_busy=when_busy)
        body = {"text": text, "files": attached(files), "when_busy": when_busy, **self._options}
        sent = await self._http.read(_Sent, f"{self._path}/turns", method="POST", body=body)
        self._options = {}
        return sent.since

    async def run(self, text: str, *, files: Sequence[File] = ()) -> AsyncIterator[Entry]:
        """Prompts, and yields every new entry until the turn has ended."""
        sent = await self.prompt(text, files=files)
        since, self._new = (0 if self._new else sent), False
        async for entry in self._turn_after(since):
            yield entry

    async def ask(self, text: str, *, files: Sequence[File] = ()) -> Result:
        """Prompts, and returns the result of the turn."""
        turn = 0
        async for entry in self.run(text, files=files):
            turn = entry.turn
        return await self.result(turn)

    async def entries(self, since: int = 0) -> AsyncIterator[Entry]:
        """Yields past entries, then live ones, of every process that runs the session.

        A connection that breaks is made again, and continues where it was.
        """
        delays = iter(RETRIES)
        while True:
            events = self._http.events(f"{self._path}/events?since={since}")
            try:
                async with aclosing(events):  # type: ignore[type-var]
                    async for data in events:
                        entry = decode_entry(data)
                        since, delays = entry.seq, iter(RETRIES)
                        yield entry
                lost = None  # the service ended
            except ConnectionLost as error:
                lost = error
            except SessionNotFound:
                if not since:
                    raise
                return  # it was deleted
            delay = next(delays, None)
            if delay is None and lost:
                raise lost
            await asyncio.sleep(delay or RETRIES[-1])

    async def answer(self, request_id: str, answer: Answer) -> None:
        """The first answer wins; a later one raises `RequestNotOpen`."""
        path = f"{self._path}/requests/{quote(request_id, safe='')}"
        await self._http.call("POST", path, answer)

    async def forget_rule(self, told: str) -> None:
        await self._http.call("DELETE", f"{self._path}/rules?told={quote(told, safe='')}")

    async def cancel(self) -> None:
        """Cancels the running turn, and drops queued prompts."""
        await self._http.call("POST", f"{self._path}/cancel", {})

    async def configure(
        self,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        approve: Preset | None = None,
    ) -> None:
        """Changes these settings of the running session; None: no change."""
        given = {"model": model, "mode": mode, "approve": approve}
        check_options(given)
        await self._http.call("PATCH", f"{self._path}/settings", given)

    async def result(self, turn: int | None = None) -> Result:
        """The result of a turn, by default of the last one."""
        from tillerman.core.transcript.turn_result import Result

        if turn is None:
            turn = (await self.row()).turns
        if not turn:
            raise SessionError(f"session {self.id} has no turns yet", hint="send a prompt first")
        return await self._http.read(Result, f"{self._path}/turns/{turn}")

    async def transcript(self) -> Transcript:
        """The log, folded for reading: its turns, messages and calls."""
        from tillerman.core.transcript.transcript import Fold

        folding, since = Fold(), 0
        while True:
            page = await self._http.read(list[Entry], f"{self._path}/entries?since={since}")
            if not page:
                return folding.transcript
            for entry in page:
                folding.add(entry)
            since = page[-1].seq

    async def close(self) -> None:
        """Ends its agent, if the service runs it. The session can be resumed."""
        await self._http.call("POST", f"{self._path}/close", {})

    async def _turn_after(self, since: int) -> AsyncIterator[Entry]:
        """The entries up to the end of the next turn that a prompt starts."""
        turn = None
        entries = self.entries(since)
        async with aclosing(entries):  # type: ignore[type-var]
            async for entry in entries:
                yield entry
                match entry.event:
                    case TurnStarted(origin="prompt") if turn is None:
                        turn = entry.turn
                    case TurnEnded() if entry.turn == turn:
                        return


def attached(files: Sequence[File]) -> list[dict[str, Any]]:
    return [{"name": one.name, "mime": one.mime, "data": one.data} for one in files]
