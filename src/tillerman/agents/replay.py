"""Replays a stored session as an agent, at recorded speed or faster.

Options: `file` (entries as JSON lines, as printed by `--json` and written by `sessions export`),
`speed` (`recorded`, `full`, or a factor such as 2) and `ask` (requests wait for a new answer).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from tillerman.agents.stdio.capability_check import refuse_unsupported
from tillerman.core.agent import (
    AgentInfo,
    Conversation,
    DecodedLine,
    Host,
    Mode,
    Prompt,
    SessionSpec,
)
from tillerman.core.errors import Unsupported, UsageError
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Answer,
    Event,
    FilesChanged,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
    decode_event,
)
from tillerman.core.failure import Failure

LONGEST_PAUSE = 2.0  # seconds; long recorded pauses are shortened to this

INFO = AgentInfo(
    name="replay",
    title="Replay",
    can=frozenset({
        "streaming", "thinking", "resume", "cancel", "permissions", "questions", "subagents",
        "background", "usage",
    }),
    runs_tools=False,
)  # fmt: skip

# The harness writes these events itself for every session, so they are not replayed.
OURS = (AgentStarted, AgentReady, AgentExited, UserMessage, FilesChanged)


class ReplayAgent:
    info = INFO

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        refuse_unsupported(self.info, spec)
        file = spec.native.options.get("file")
        if not file:
            raise UsageError("nothing to replay", hint="give a session or a file: `replay:FILE`")
        recording = ReplayFile(Path(file))
        return ReplayConversation(
            recording,
            after=int(spec.resume or 0),
            speed=_factor(spec.native.options.get("speed", "recorded")),
            ask=bool(spec.native.options.get("ask")),
        )


class RecordedEntry(msgspec.Struct, frozen=True):
    """The fields of an entry that a replay needs; the event may be of another schema version."""

    at: str
    event: msgspec.Raw


class ReplayFile:
    """A file of entries, split into scenes: a prompt and everything up to the next prompt."""

    def __init__(self, path: Path) -> None:
        self.model: str | None = None
        self.scenes: list[list[tuple[float, Event]]] = []
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        self._add(line, f"{path}:{number}")
        except OSError as error:
            raise UsageError(
                f"cannot read {path}: {error.strerror}",
                hint="give a file that `tillerman sessions export --format jsonl` wrote",
            ) from error

    def _add(self, line: bytes, where: str) -> None:
        try:
            moment = msgspec.json.decode(line, type=RecordedEntry)
            at = datetime.fromisoformat(moment.at).timestamp()
        except (msgspec.MsgspecError, ValueError) as error:
            raise UsageError(
                f"{where} is not an entry of a session: {error}",
                hint="`tillerman sessions export ID --format jsonl` creates such a file",
            ) from error
        event = decode_event(bytes(moment.event))
        match event:
            case TurnStarted(origin="prompt"):
                self.scenes.append([(at, event)])
            case AgentReady(model=str(model)):
                self.model = model
            case _ if self.scenes and not isinstance(event, OURS):
                self.scenes[-1].append((at, event))


class ReplayConversation:
    asks = INFO.asks

    def __init__(
        self, recording: ReplayFile, *, after: int, speed: float | None, ask: bool
    ) -> None:
        self._recording = recording
        self._scene = after
        self._speed = speed
        self._ask = ask
        self._prompts: asyncio.Queue[Prompt | None] = asyncio.Queue()
        self._cut = asyncio.Event()
        self._answers: dict[str, asyncio.Event] = {}

    async def prompt(self, prompt: Prompt) -> None:
        self._cut.clear()
        self._prompts.put_nowait(prompt)

    async def steer(self, prompt: Prompt) -> None:
        raise Unsupported(INFO.name, "steering", hint="queue the prompt instead")

    async def answer(self, request_id: str, answer: Answer) -> None:
        self._answers.setdefault(request_id, asyncio.Event()).set()

    async def cancel(self) -> None:
        self._cut.set()

    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None:
        raise Unsupported(
            INFO.name,
            "settings that differ from the recording",
            hint="omit them, or use the agent that was recorded",
        )

    async def close(self) -> None:
        self._cut.set()
        self._prompts.put_nowait(None)

    async def batches(self) -> AsyncIterator[Sequence[DecodedLine]]:
        yield [DecodedLine(None, [AgentStarted(agent=INFO.name)])]
        while await self._prompts.get():
            self._scene += 1
            ready = AgentReady(native_id=str(self._scene), model=self._recording.model)
            yield [DecodedLine(None, [ready])]
            async for event in self._play():
                yield [DecodedLine(None, [event])]
        yield [DecodedLine(None, [AgentExited(code=0)])]

    async def _play(self) -> AsyncIterator[Event]:
        if self._scene > len(self._recording.scenes):
            message = f"the recording has {len(self._recording.scenes)} prompts, and no more"
            yield TurnEnded(reason="failed", failure=Failure(kind="agent_failed", message=message))
            return
        ended = False
        for (before, _), (at, event) in pairwise(self._recording.scenes[self._scene - 1]):
            if await self._interrupted(at - before):
                if not ended:
                    yield TurnEnded(reason="cancelled")
                return
            match event:
                case (
                    PermissionRequested(request_id=request_id)
                    | QuestionAsked(request_id=request_id)
                ):
                    self._answers.setdefault(request_id, asyncio.Event())
                case RequestAnswered(request_id=request_id, by=by) if by != "withdrawn":
                    if await self._answered(request_id):
                        continue
                case TurnStarted():
                    ended = False
                case TurnEnded():
                    ended = True
            yield event
        if not ended:
            failure = Failure(kind="stream_broken", message="the recording ends during the turn")
            yield TurnEnded(reason="failed", failure=failure)

    async def _interrupted(self, pause: float) -> bool:
        """Waits for the recorded pause and returns whether the turn was cancelled meanwhile."""
        if self._speed is None:
            await asyncio.sleep(0)
        elif pause > 0:
            try:
                async with asyncio.timeout(min(pause, LONGEST_PAUSE) / self._speed):
                    await self._cut.wait()
            except TimeoutError:
                pass
        return self._cut.is_set()

    async def _answered(self, request_id: str) -> bool:
        """Whether the host gives a new answer that replaces the recorded one."""
        answer = self._answers.setdefault(request_id, asyncio.Event())
        if self._ask:
            waits = [asyncio.create_task(event.wait()) for event in (answer, self._cut)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            return True
        await asyncio.sleep(0)  # lets a host with a policy decide as soon as it sees the request
        return answer.is_set()


def _factor(speed: Any) -> float | None:
    """Returns the speed factor; None means as fast as possible."""
    if speed == "full":
        return None
    if speed == "recorded":
        return 1.0
    try:
        factor = float(speed)
    except (TypeError, ValueError):
        factor = 0.0
    if factor <= 0:
        raise UsageError(
            f"unknown speed: {speed!r}", hint="use `recorded`, `full`, or a factor such as 2"
        )
    return factor


agent = ReplayAgent()
