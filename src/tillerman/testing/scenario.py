"""Test scenario of one agent: a test scripts its model and observes whole sessions.

A story is a list of replies, each a list of acts: what the agent's model says, thinks and does, in
terms that every scenario supports, with a real CLI and a scripted model or with a stand-in.
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

MAX_WAIT = 60.0  # seconds for a turn

E = TypeVar("E")


class UnsupportedAction(Exception):
    """This scenario cannot make its agent do that; the message is the reason."""


class ToolAction(msgspec.Struct, frozen=True):
    """A tool call.

    `shell` (command), `read` (path), `write` (path, text), `edit` (path, old, new), `ask`
    (question, one choice, another), `todo` (one item, another), `mcp` (server, tool, text),
    `result` (the requested JSON).
    """

    tool: str
    words: tuple[str, ...]


Act = (
    Say | Think | ToolAction | ReplyHold | Stall | ConnectionCut | Close | Fail | Usage
)  # the usage that a reply reports
Part = Sequence[Act] | Fail | Attempts
Story = Sequence[Part]


def do(tool: str, *words: str | Path) -> ToolAction:
    return ToolAction(tool, tuple(map(str, words)))


class Scenario(Protocol):
    """The interface that a test of any agent needs.

    `differs` describes, by case, known differences of the agent; such a case must fail. `left_out`
    names the cases that are skipped, with reasons.
    """

    agent: Agent
    project: Path
    server: dict[str, Any]  # an MCP server whose tool `shout` returns a text in capitals
    differs: dict[str, str]
    left_out: dict[str, str]
    at_work: float  # seconds until a prompted agent works, even on a busy machine

    def script(self, *replies: Part) -> str: ...  # a prompt that plays this
    def release(self, name: str) -> None: ...  # ends a `ReplyHold`
    def model_input(self) -> str: ...  # everything in the model's last request, as JSON
    async def requested(self) -> None: ...  # waits until the model is asked for the last script
    def age(self, seconds: float) -> None: ...  # shifts the sessions stored by the agent back
    def forget(self) -> None: ...  # removes the sessions stored by the agent
    async def start(self, **settings: Any) -> Session: ...  # fields of SessionSpec and RunSettings
    async def resume(self, session: str, *, fork: bool = False) -> Session: ...
    async def reopen(self) -> None: ...  # ends all processes; the store stays
    def left(self) -> list[str]: ...  # processes of the agent that still run


async def play(session: Session, prompt: str, *, starts: int = 1, **more: Any) -> list[Entry]:
    """All entries from a prompt until the agent is idle, after `starts` agent starts."""
    async with asyncio.timeout(MAX_WAIT * starts):
        return [entry async for entry in session.run(prompt, **more)]


async def until(
    session: Session, kind: type[E], where: Callable[[E], bool] = lambda event: True
) -> E:
    """Waits for the first such event."""
    async with asyncio.timeout(MAX_WAIT):
        async for entry in session.entries():
            if isinstance(entry.event, kind) and where(entry.event):
                return entry.event
    raise AssertionError(f"no {kind.__name__} before the session ended")


def of(entries: Iterable[Entry], kind: type[E]) -> list[E]:
    return [entry.event for entry in entries if isinstance(entry.event, kind)]


def agent_text(entries: Iterable[Entry]) -> str:
    """The agent's text, without withdrawn messages."""
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
    """The only call of such a tool, and its end."""
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
    """Checks the invariants of every session log."""
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
