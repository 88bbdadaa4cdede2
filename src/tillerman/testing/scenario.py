"""A scene: one agent, told what to do by a test, and watched through whole sessions.

A story is a list of replies, each a list of acts: what the agent's model says, thinks and does, in
words that every scene can play, be the far side a real CLI before a scripted model or a stand-in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from tillerman.core.agent import Agent
from tillerman.core.events import (
    Entry,
    MessageChunk,
    MessageWithdrawn,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unrecognized,
)
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import (
    Attempts,
    Close,
    ConnectionCut,
    Fail,
    ReplyHold,
    Say,
    Stall,
    Think,
    Usage,
)

PATIENCE = 60.0  # seconds for a turn

E = TypeVar("E")


class UnsupportedAction(Exception):
    """This scene has no way to make its agent do that, and why."""


class ToolAction(msgspec.Struct, frozen=True):
    """A call of a tool: `shell` (command), `read` (path), `write` (path, text), `edit` (path, old,
    new), `ask` (question, one choice, another), `todo` (one thing, another), `mcp` (server, tool,
    text), `result` (JSON that was asked for)."""

    tool: str
    words: tuple[str, ...]


Act = (
    Say | Think | ToolAction | ReplyHold | Stall | ConnectionCut | Close | Fail | Usage
)  # that a reply counts
Part = Sequence[Act] | Fail | Attempts
Story = Sequence[Part]


def do(tool: str, *words: str | Path) -> ToolAction:
    return ToolAction(tool, tuple(map(str, words)))


class Scenario(Protocol):
    """What a test of any agent needs. `differs` tells, by case, what the agent does otherwise than
    most; such a case must fail. `left_out` tells which are not played at all, and why."""

    agent: Agent
    project: Path
    server: dict[str, Any]  # an MCP server whose tool `shout` says a text in capitals
    differs: dict[str, str]
    left_out: dict[str, str]
    at_work: float  # seconds after which a prompted agent works, on a busy machine too

    def script(self, *replies: Part) -> str: ...  # a prompt that plays this
    def release(self, name: str) -> None: ...  # ends a `ReplyHold`
    def told(self) -> str: ...  # all that the model was told last, as JSON
    async def requested(self) -> None: ...  # until the model was asked for the last script
    def age(self, seconds: float) -> None: ...  # of the sessions that the agent itself stored
    def forget(self) -> None: ...  # removes the sessions that the agent itself stored
    async def start(self, **wishes: Any) -> Session: ...  # fields of SessionSpec and Terms
    async def resume(self, session: str, *, fork: bool = False) -> Session: ...
    async def reopen(self) -> None: ...  # ends all processes; the store stays
    def left(self) -> list[str]: ...  # processes of the agent's that still run


async def play(session: Session, prompt: str, *, starts: int = 1, **more: Any) -> list[Entry]:
    """All entries from a prompt until the agent rests, which it `starts` so often for."""
    async with asyncio.timeout(PATIENCE * starts):
        return [entry async for entry in session.run(prompt, **more)]


async def until(
    session: Session, kind: type[E], where: Callable[[E], bool] = lambda event: True
) -> E:
    """The first such event, waited for."""
    async with asyncio.timeout(PATIENCE):
        async for entry in session.entries():
            if isinstance(entry.event, kind) and where(entry.event):
                return entry.event
    raise AssertionError(f"no {kind.__name__} before the session ended")


def of(entries: Iterable[Entry], kind: type[E]) -> list[E]:
    return [entry.event for entry in entries if isinstance(entry.event, kind)]


def said(entries: Iterable[Entry]) -> str:
    """What the agent said, less what it took back."""
    entries = list(entries)
    gone = {event.message_id for event in of(entries, MessageWithdrawn)}
    return "".join(
        event.text
        for event in of(entries, MessageChunk)
        if event.parent is None and event.message_id not in gone
    )


def thought(entries: Iterable[Entry]) -> str:
    return "".join(event.text for event in of(entries, ThoughtChunk) if event.parent is None)


def end(entries: Iterable[Entry]) -> TurnEnded:
    ends = of(entries, TurnEnded)
    assert len(ends) == 1, f"one turn was to end, not {len(ends)}"
    return ends[0]


def call(entries: Iterable[Entry], *tools: str) -> tuple[ToolStarted, ToolFinished]:
    """The one call of such a tool, and its end."""
    entries = list(entries)
    begun = [event for event in of(entries, ToolStarted) if event.tool in tools]
    names = [event.tool for event in of(entries, ToolStarted)]
    assert len(begun) == 1, f"one call of {' or '.join(tools)} was to come, not {names}"
    done = [event for event in of(entries, ToolFinished) if event.call_id == begun[0].call_id]
    assert len(done) == 1, f"{begun[0].title} was to end once, not {len(done)} times"
    return begun[0], done[0]


def shown(event: ToolFinished) -> str:
    return "\n".join(part.text for part in event.content if isinstance(part, Text))


def check_log(entries: Sequence[Entry]) -> None:
    """What holds for every session, whatever happened in it."""
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1)), "a gap in the log"
    strange = of(entries, Unrecognized)
    assert not strange, f"nobody understands {strange[0].raw[:300]!r}: {strange[0].why}"
    begun = Counter(entry.turn for entry in entries if isinstance(entry.event, TurnStarted))
    ended = Counter(entry.turn for entry in entries if isinstance(entry.event, TurnEnded))
    assert begun == ended, f"turns begun {dict(begun)} and ended {dict(ended)}"
    assert set(begun.values()) <= {1}, f"a turn began twice: {dict(begun)}"
    started = Counter(event.call_id for event in of(entries, ToolStarted))
    finished = Counter(event.call_id for event in of(entries, ToolFinished))
    assert set(started.values()) <= {1}, "a call began twice"
    assert set(finished.values()) <= {1}, "a call ended twice"
    assert finished.keys() <= started.keys(), "a call ended that never began"
