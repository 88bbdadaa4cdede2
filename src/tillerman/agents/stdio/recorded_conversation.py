"""Conversation whose answers are checked against the session file that the agent stores.

Some agents call their model again after an interrupted answer, or give up, and report neither: the
stored answer is the one that the model gets as history.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from tillerman.agents.stdio.revised_conversation import RevisedConversation
from tillerman.core.agent import AgentInfo, Host, Prompt, SessionSpec
from tillerman.core.events import (
    AgentReady,
    Event,
    MessageChunk,
    MessageWithdrawn,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.wire import Wire

_LONGEST = 1024 * 1024  # characters of an answer that is compared
_WRITES = 1.0  # seconds that the agent may take to store its answer
_POLL = 0.1
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)  # some agents store answers without them
_BROKEN = TurnEnded(
    reason="failed",
    failure=Failure(
        kind="stream_broken",
        message="the answer was cut off: the agent reported it as complete, and did not store it",
        hint="try again",
    ),
)


class Recorded(NamedTuple):
    """The last entries of the agent's session file."""

    prompt: str  # the last prompt
    reply: str | None  # the model's last reply; None: a user or tool message is last


class RecordedConversation(RevisedConversation):
    """`read` returns the last entries of a session; `opened` is called when a session is open."""

    REVISED = frozenset({AgentReady, MessageChunk, ToolStarted, TurnEnded})

    def __init__(
        self,
        info: AgentInfo,
        wire: Wire,
        spec: SessionSpec,
        host: Host,
        grace: float,
        *,
        read: Callable[[str], Recorded | None],
        opened: Callable[[str], None] = lambda native_id: None,
    ) -> None:
        super().__init__(info, wire, spec, host, grace)
        self._read = read
        self._session_opened = opened
        self._native_id = ""
        self._prompt: str | None = None  # of a turn that the agent did not start itself
        self._worked = False  # a tool was called in this turn
        self._answer: dict[str, str] = {}  # text since the last call, by message

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        sending = super().prompt(prompt)
        self._prompt, self._worked, self._answer = prompt.text.strip(), False, {}
        return sending

    async def revise(self, events: Sequence[Event]) -> Sequence[Event]:
        checked: list[Event] = []
        for event in events:
            match event:
                case AgentReady(native_id=native_id):
                    self._native_id = native_id
                    await asyncio.to_thread(self._session_opened, native_id)
                case MessageChunk(message_id=id, text=text, parent=None):
                    self._answer[id] = self._answer.get(id, "") + text
                case ToolStarted(parent=None):
                    self._worked, self._answer = True, {}
                case TurnEnded():
                    completed = event.reason == "completed"
                    checked += await self._end(event) if completed else [event]
                    self._prompt, self._answer = None, {}
                    continue
            checked.append(event)
        return checked

    async def _end(self, end: TurnEnded) -> list[Event]:
        answer, prompt = "".join(self._answer.values()), self._prompt
        if not prompt or prompt.startswith("/") or len(answer) > _LONGEST:
            return [end]  # own turn, native command, or too long to compare
        recorded = await self._recorded()
        if recorded is None or not recorded.prompt.strip().endswith(prompt):
            return [end]
        if recorded.reply is None:
            return [_BROKEN] if answer or not self._worked else [end]
        stored = stored_part(answer, recorded.reply)
        if stored is None:
            return [end]
        withdrawn = [MessageWithdrawn(message_id=id) for id in self._answer]
        return [
            *withdrawn,
            MessageChunk(message_id=f"{[*self._answer][-1]}:kept", text=stored),
            end,
        ]

    async def _recorded(self) -> Recorded | None:
        until = asyncio.get_running_loop().time() + _WRITES
        while True:
            recorded = await asyncio.to_thread(self._read, self._native_id)
            late = asyncio.get_running_loop().time() >= until
            if late or recorded is None or recorded.reply is not None:
                return recorded
            await asyncio.sleep(_POLL)


def stored_part(answer: str, reply: str) -> str | None:
    """The end of an answer that the agent stored as the whole; None if nothing precedes it."""
    reply, reported = reply.strip(), answer.rstrip()
    if not reply or not reported.endswith(reply) or _COMMENT.sub("", reported).strip() == reply:
        return None
    return answer[len(reported) - len(reply) :]
