"""Owner socket of a running session: other processes follow, answer, prompt and cancel it.

One JSON object per line, both ways, over a Unix socket that only this user can open. A call is
answered with `{"ok": true}` or an error; after `follow`, `{"seq": N}` reports that entries up to N
are in the log. The entries themselves are read from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tillerman.core import errors
from tillerman.core.agent import File, Mode, Prompt
from tillerman.core.errors import SessionBusy, TillermanError, UsageError
from tillerman.core.events import (
    Answer,
    Event,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
)
from tillerman.core.session_options import Preset, WhenBusy
from tillerman.hooks.peer_credentials import peer_of
from tillerman.sessions.log.broadcast import Broadcast
from tillerman.sessions.remote.private_socket import PrivateSocketServer

if TYPE_CHECKING:
    from tillerman.sessions.runner.runner import Runner

STORED_WITHIN = 5.0  # seconds
LINE_CAP = 64 * 1024 * 1024  # a prompt with images is one line


class Follow(msgspec.Struct, frozen=True, tag="follow"):
    since: int = 0


class FollowRequests(msgspec.Struct, frozen=True, tag="follow_requests"):
    """Follows new requests that need a user: `{"seq": N}` is a request or its answer."""


class SendPrompt(msgspec.Struct, frozen=True, tag="prompt"):
    text: str
    when_busy: WhenBusy = "queue"
    files: tuple[tuple[str, str, bytes], ...] = ()


class GiveAnswer(msgspec.Struct, frozen=True, tag="answer"):
    request_id: str
    answer: Answer
    surface: str


class ForgetRule(msgspec.Struct, frozen=True, tag="forget_rule"):
    told: str


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    pass


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    model: str | None = None
    mode: Mode | None = None
    approve: Preset | None = None


Call = Follow | FollowRequests | SendPrompt | GiveAnswer | ForgetRule | Cancel | Configure


class OwnerResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A response of the owner."""

    ok: bool | None = None
    seq: int | None = None
    error: str | None = None  # the name of the error class
    message: str = ""
    hint: str = ""


_calls: msgspec.json.Decoder[Call] = msgspec.json.Decoder(Call)
_said = msgspec.json.Decoder(OwnerResponse)
_encode = msgspec.json.Encoder().encode


class OwnerServer:
    def __init__(self, runner: Runner, broadcast: Broadcast) -> None:
        self._runner = runner
        self._broadcast = broadcast
        self._server = PrivateSocketServer(self._receive, limit=LINE_CAP)

    async def open(self, path: Path) -> None:
        await self._server.open(path)

    async def close(self) -> None:
        await self._server.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        feeds: list[asyncio.Task[None]] = []
        try:
            while line := await _line(reader):
                writer.write(_encode(await self._serve(line, writer, feeds)) + b"\n")
                await writer.drain()
        finally:
            for feed in feeds:
                feed.cancel()

    async def _serve(
        self, line: bytes, writer: asyncio.StreamWriter, feeds: list[asyncio.Task[None]]
    ) -> OwnerResponse:
        try:
            match _calls.decode(line):
                case Follow(since=since):
                    feeds.append(asyncio.create_task(self._feed(since, writer)))
                case FollowRequests():
                    feeds.append(asyncio.create_task(self._feed_requests(writer)))
                case SendPrompt(text=text, when_busy=when_busy, files=files):
                    prompt = Prompt(text, tuple(File(*file) for file in files))
                    await self._runner.prompt(prompt, when_busy)
                    await self._stored()
                case GiveAnswer(request_id=request_id, answer=answer, surface=surface):
                    self._runner.answer(request_id, answer, surface=surface)
                    await self._stored()
                case ForgetRule(told=rule):
                    self._runner.forget_rule(rule)
                    await self._stored()
                case Cancel():
                    await self._runner.cancel()
                case Configure(model=model, mode=mode, approve=approve):
                    await self._runner.configure(model=model, mode=mode, approve=approve)
                    await self._stored()
        except TillermanError as error:
            return OwnerResponse(error=type(error).__name__, message=error.message, hint=error.hint)
        except msgspec.MsgspecError as error:
            return OwnerResponse(error="UsageError", message=f"unknown call: {error}")
        return OwnerResponse(ok=True)

    async def _stored(self) -> None:
        """Waits until a call is in the log, before the caller is told that it was done."""
        with contextlib.suppress(TimeoutError):  # the disk is full
            async with asyncio.timeout(STORED_WITHIN):
                await self._runner.durable()

    async def _feed(self, since: int, writer: asyncio.StreamWriter) -> None:
        while True:
            last = await self._broadcast.updates(since)
            if last > since:
                writer.write(_encode(OwnerResponse(seq=last)) + b"\n")
                await writer.drain()
                since = last
            elif self._broadcast.closed:
                writer.close()
                return

    async def _feed_requests(self, writer: asyncio.StreamWriter) -> None:
        waiting = set(self._runner.open_requests)
        with contextlib.suppress(TillermanError):  # nothing more is stored: the session ends
            async for page in self._broadcast.pages(self._broadcast.last_seq):
                updates = [entry.seq for entry in page if self._concerns(entry.event, waiting)]
                if updates:
                    writer.write(
                        b"".join(_encode(OwnerResponse(seq=seq)) + b"\n" for seq in updates)
                    )
                    await writer.drain()
        writer.close()

    def _concerns(self, event: Event, waiting: set[str]) -> bool:
        """Whether the event concerns a user. A request answered by the policy is already closed."""
        match event:
            case PermissionRequested(request_id=id) | QuestionAsked(request_id=id):
                if id in self._runner.open_requests:
                    waiting.add(id)
                    return True
            case RequestAnswered(request_id=id) if id in waiting:
                waiting.discard(id)
                return True
        return False


class OwnerClient:
    """Client of an owner socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, path: str) -> OwnerClient | None:
        """Connects; None if no owner is listening."""
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=LINE_CAP)
        except OSError:
            return None
        if not peer_of(writer.get_extra_info("socket")).is_us:
            writer.close()
            return None
        return cls(reader, writer)

    async def call(self, call: Call) -> None:
        line = _encode(call) + b"\n"
        if len(line) > LINE_CAP:
            raise UsageError(
                f"the files are too large for a session that another process runs: "
                f"{len(line) >> 20} MB, at most {LINE_CAP >> 20}",
                hint="send them one by one",
            )
        self._writer.write(line)
        with contextlib.suppress(ConnectionError):  # then no response arrives either
            await self._writer.drain()
        while reply := await self._receive():
            if reply.error:
                raise _rebuilt(reply)
            if reply.ok:
                return
        raise SessionBusy(
            "the process that ran the session ended", hint="try again to take over the session"
        )

    async def updates(self) -> AsyncIterator[int]:
        """Yields numbers of the last durable entry; ends with the owner."""
        while reply := await self._receive():
            if reply.seq is not None:
                yield reply.seq

    def leave(self) -> None:
        self._writer.close()

    async def _receive(self) -> OwnerResponse | None:
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return _said.decode(line) if line else None


def _rebuilt(reply: OwnerResponse) -> TillermanError:
    """Recreates the owner's error in this process."""
    kind: type[TillermanError] = getattr(errors, reply.error or "", TillermanError)
    error = kind.__new__(kind)
    TillermanError.__init__(error, reply.message, hint=reply.hint)
    return error


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Reads a line; empty at the end, or for a line that is too long."""
    try:
        return await reader.readline()
    except ValueError:
        return b""
