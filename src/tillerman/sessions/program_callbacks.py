"""Runs the callbacks of the program: with a time limit, and a clear result if one fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct, json

from tillerman.core.events import (
    Answer,
    Event,
    Notice,
    PermissionRequested,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
)
from tillerman.core.program.callbacks import Callbacks, ToolCall, returned

if TYPE_CHECKING:
    from tillerman.core.transcript.turn_result import Result

_logger = logging.getLogger(__name__)

MOST_CALLS = 1_000  # running calls that are followed; an agent may start any number


class CallbackOutcome(Struct, frozen=True):
    """What a callback returned: an answer or none, and a notice if it failed."""

    answer: Answer | None = None
    notice: Notice | None = None


class ProgramCallbacks:
    """The callbacks of one session. `limit`: seconds that a request may wait for one."""

    def __init__(self, callbacks: Callbacks, limit: float | None) -> None:
        self._callbacks = callbacks
        self._limit = limit
        self._calls: dict[str, ToolStarted] = {}

    @property
    def checks_calls(self) -> bool:
        return self._callbacks.before_call is not None

    @property
    def follows_calls(self) -> bool:
        return self._callbacks.after_call is not None

    def answers(self, request: PermissionRequested | QuestionAsked) -> bool:
        if isinstance(request, QuestionAsked):
            return self._callbacks.on_question is not None
        return self._callbacks.on_permission is not None

    async def before_call(self, request: PermissionRequested) -> CallbackOutcome:
        """The answer before any rule; a check that fails denies the call."""
        return await self._asked("before_call", request)

    async def answer(self, request: PermissionRequested | QuestionAsked) -> CallbackOutcome:
        """The answer to what no rule decides; a callback that fails denies."""
        asks = isinstance(request, QuestionAsked)
        return await self._asked("on_question" if asks else "on_permission", request)

    async def prompt(self, text: str) -> str:
        """The text to send. An exception of the callback is the caller's."""
        if self._callbacks.before_prompt is None:
            return text
        changed: str | None = await returned(self._callbacks.before_prompt(text))
        if changed is not None and not isinstance(changed, str):
            raise TypeError(f"before_prompt must return a string or None, not {changed!r}")
        return text if changed is None else changed

    def finished_call(self, event: Event) -> ToolCall | None:
        """Follows the running calls; returns one that has just ended."""
        match event:
            case ToolStarted(call_id=call_id) if len(self._calls) < MOST_CALLS:
                self._calls[call_id] = event
            case ToolFinished(call_id=call_id):
                if started := self._calls.pop(call_id, None):
                    return ToolCall(started, event)
        return None

    @property
    def after_turn(self) -> Callable[[Result], Awaitable[str | None]] | None:
        """The callback after a turn: it returns a prompt to continue with, or None."""
        return self._after_turn if self._callbacks.after_turn else None

    async def _after_turn(self, result: Result) -> str | None:
        assert self._callbacks.after_turn
        prompt: str | None = await returned(self._callbacks.after_turn(result))
        if prompt is not None and not isinstance(prompt, str):
            raise TypeError(f"it must return a string or None, not {prompt!r}")
        return prompt

    async def after_call(self, call: ToolCall) -> Notice | None:
        assert self._callbacks.after_call
        try:
            await returned(self._callbacks.after_call(call))
        except Exception as error:  # the program's own code may raise anything
            return _failed("after_call", error)
        return None

    async def _asked(
        self, name: str, request: PermissionRequested | QuestionAsked
    ) -> CallbackOutcome:
        try:
            async with asyncio.timeout(self._limit):
                answer = await returned(getattr(self._callbacks, name)(request))
            if answer is not None and not isinstance(answer, Answer):
                raise TypeError(f"it must return an Answer or None, not {answer!r}")
            if answer is not None:  # its fields are not checked before
                answer = json.decode(json.encode(answer), type=Answer)
        except Exception as error:
            notice = _failed(name, error)
            return CallbackOutcome(Answer("deny", note=notice.text), notice)
        return CallbackOutcome(answer)


def _failed(name: str, error: Exception) -> Notice:
    reason = str(error) or type(error).__name__
    _logger.error("%s failed", name, exc_info=error)  # with its traceback, for the programmer
    return Notice(level="error", kind="session", text=f"{name} failed: {reason}")
