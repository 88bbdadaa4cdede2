"""Conversation with a JSON-lines CLI that runs one process per turn."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from tillerman.agents.stdio.conversation import BaseConversation
from tillerman.agents.stdio.line_process import LineProcess
from tillerman.core.agent import AgentInfo, DecodedLine, Host, Prompt, SessionSpec
from tillerman.core.errors import AgentError, TillermanError, Unsupported
from tillerman.core.events import AgentReady, AgentStarted, TurnEnded
from tillerman.core.failure import Failure
from tillerman.core.wire import Launch, Wire


class PerTurnConversation(BaseConversation):
    """Runs one process per turn; the native session id connects them."""

    def __init__(
        self, info: AgentInfo, wire: Wire, spec: SessionSpec, host: Host, grace: float
    ) -> None:
        super().__init__(info, wire, spec, host, grace)
        self._started: asyncio.Queue[LineProcess | TurnEnded | None] = asyncio.Queue()
        self._feeding: asyncio.Task[None] | None = None

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        """Not a coroutine, so that it can raise before a new turn is reported."""
        launch = self._program(prompt)
        for place in launch.places:
            if place.instead is None and os.path.lexists(place.path):
                raise AgentError(
                    self._info.name,
                    f"{self._info.name} needs to create a file that already exists: {place.path}",
                    hint="move it away, or add the session's content to it",
                )
        return self._begin(launch)

    async def _begin(self, launch: Launch) -> None:
        try:
            stdin = self._put(launch)
            process = await self._start(launch)
        except (OSError, TillermanError) as error:
            self._host.remove_placed_files()
            self._started.put_nowait(_not_started(error))
            return
        self._opened()
        await self._send(self._wire.greet())
        if stdin is not None:
            # Not awaited: an agent that does not read must not block a cancel.
            self._feeding = asyncio.create_task(_feed(process, stdin))
        self._started.put_nowait(process)

    def _put(self, launch: Launch) -> bytes | None:
        """Places the temporary files and returns the bytes for stdin."""
        before = b""
        if launch.places:
            self._spec.cwd.stat()  # raises for a deleted project, which would be created again
        for place in launch.places:
            if self._host.place_file(place.path, place.content):
                continue
            if place.instead is None:
                raise FileExistsError(0, "a file already exists, or cannot be created", place.path)
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

    async def batches(self) -> AsyncIterator[Sequence[DecodedLine]]:
        while process := await self._started.get():
            if isinstance(process, TurnEnded):
                yield [DecodedLine(None, [process])]
                continue
            yield [
                DecodedLine(
                    None, [AgentStarted(agent=self._info.name, supervision=self._host.level)]
                )
            ]
            reported: TurnEnded | None = None
            async for batch in self._receive(process):
                for event in [event for received in batch for event in received.events]:
                    match event:
                        case AgentReady(native_id=native_id):
                            self._spec = replace(self._spec, resume=native_id, fork=False)
                        case TurnEnded() if not self._cancelling:
                            reported = reported or event
                yield [_without_end(received) for received in batch]
                del batch
            exit = await process.exit()
            self._host.remove_placed_files()
            end = self._ending(reported, exit, process)
            self._closed()
            yield [DecodedLine(None, [self._exited(exit, process), end])]


def _without_end(received: DecodedLine) -> DecodedLine:
    """Removes the end of the turn, which is reported after the process has ended."""
    raw, events, images = received
    return DecodedLine(raw, [event for event in events if not isinstance(event, TurnEnded)], images)


async def _feed(process: LineProcess, stdin: bytes) -> None:
    await process.write(stdin)
    process.close_stdin()


def _not_started(error: OSError | TillermanError) -> TurnEnded:
    what, hint = str(error), "run `tillerman doctor`"
    if isinstance(error, TillermanError):
        hint = error.hint
    elif error.strerror:
        what = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    message = f"the agent could not be started: {what}"
    return TurnEnded(
        reason="failed", failure=Failure(kind="agent_failed", message=message, hint=hint)
    )
