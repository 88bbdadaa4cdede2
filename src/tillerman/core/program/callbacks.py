"""Callbacks of a program: they answer requests, check calls and prompts, and follow turns.

Each may be a function or a coroutine function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from tillerman.core.events import (
        Answer,
        PermissionRequested,
        QuestionAsked,
        ToolFinished,
        ToolStarted,
    )
    from tillerman.core.transcript.turn_result import Result

T = TypeVar("T")


class ToolCall(Struct, frozen=True):
    """A finished call of a tool: how it was started, and how it ended."""

    started: ToolStarted
    finished: ToolFinished


OnPermission = Callable[["PermissionRequested"], "Awaitable[Answer | None] | Answer | None"]
OnQuestion = Callable[["QuestionAsked"], "Awaitable[Answer | None] | Answer | None"]
BeforeCall = Callable[["PermissionRequested"], "Awaitable[Answer | None] | Answer | None"]
AfterCall = Callable[[ToolCall], "Awaitable[None] | None"]
BeforePrompt = Callable[[str], "Awaitable[str | None] | str | None"]
AfterTurn = Callable[["Result"], "Awaitable[str | None] | str | None"]


class Callbacks(Struct, frozen=True):
    """The callbacks of a session; the first two answer what no rule decides."""

    on_permission: OnPermission | None = None
    on_question: OnQuestion | None = None
    before_call: BeforeCall | None = None  # sees what the policy does not deny
    after_call: AfterCall | None = None
    before_prompt: BeforePrompt | None = None  # returns the text to send instead
    after_turn: AfterTurn | None = None  # returns a prompt to continue with


NAMES = Callbacks.__struct_fields__


async def returned(value: T | Awaitable[T]) -> T:
    """The value of a function, or of a coroutine function."""
    return await value if isinstance(value, Awaitable) else value
