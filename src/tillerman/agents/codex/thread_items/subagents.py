"""Tracks Codex's subagents: each runs in its own thread, inside the call that started it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tillerman.agents.decoding.fields import Table, strings, text
from tillerman.core import tools
from tillerman.core.events import (
    BackgroundChanged,
    BackgroundTask,
    Event,
    Text,
    ToolFinished,
    ToolStarted,
)


class Subagents:
    """A call stays open until the turn of its subagent ends.

    A subagent that outlasts the turn of its parent runs in the background.
    """

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}  # call by thread
        self._open: dict[str, tuple[str, str | None]] = {}  # title and parent by call
        self._waiting: list[str] = []  # calls whose thread is not known yet
        self._turns: dict[str, str] = {}  # running turn by thread
        self._words: dict[str, str] = {}  # last message by thread
        self._background: dict[str, BackgroundTask] = {}  # by call

    def parent_of(self, thread: str) -> str:
        """The call of this thread; assigns a waiting call to a new thread."""
        if thread not in self._parents and self._waiting:
            self._parents[thread] = self._waiting.pop(0)
        return self._parents.get(thread, thread)

    def inside(self, thread: str) -> str | None:
        """The call of this thread, if it is already known."""
        return self._parents.get(thread)

    @property
    def running(self) -> dict[str, str]:
        return self._turns

    def spawning(self, item: Table, parent: str | None) -> Iterator[Event]:
        """Handles the start of a `collabAgentToolCall` that spawns."""
        call_id = text(item, "id")
        self._waiting.append(call_id)
        yield self._start(call_id, text(item, "prompt"), parent)

    def spawned(self, item: Table, parent: str | None) -> Iterator[Event]:
        call_id = text(item, "id")
        if call_id in self._waiting:
            self._waiting.remove(call_id)
        threads = strings(item, "receiverThreadIds")
        self._parents |= dict.fromkeys(threads, call_id)
        if not threads and call_id not in self._parents.values():
            yield from self._finish(call_id, "failed", "")

    def active(self, item: Table, parent: str | None) -> Iterator[Event]:
        """Handles `subAgentActivity`, the newer report of a start or end."""
        thread = text(item, "agentThreadId")
        match text(item, "kind"):
            case "started" if thread not in self._parents:
                self._parents[thread] = text(item, "id")
                yield self._start(text(item, "id"), text(item, "agentPath"), parent)
            case "completed":
                yield from self.ended(thread, "completed")
            case "interrupted":
                yield from self.ended(thread, "cancelled")

    def began(self, thread: str, turn: str) -> None:
        self._turns[thread] = turn

    def said(self, thread: str, words: str) -> None:
        self._words[thread] = words

    def ended(
        self, thread: str, outcome: Literal["completed", "failed", "cancelled"]
    ) -> Iterator[Event]:
        self._turns.pop(thread, None)
        call_id = self._parents.get(thread, "")
        yield from self._finish(call_id, outcome, self._words.pop(thread, ""))
        if self._background.pop(call_id, None):
            yield BackgroundChanged(tasks=tuple(self._background.values()))

    def leave(self, *, run_on: bool) -> Iterator[Event]:
        """Ends the main turn: running subagents continue in the background, or were stopped."""
        for call_id, (title, parent) in list(self._open.items()):
            if run_on and parent is None:
                self._background[call_id] = BackgroundTask(call_id, title, call_id)
                yield from self._finish(call_id, "completed", "Works in the background.")
            elif not run_on:
                yield from self._finish(call_id, "cancelled", "")
        if run_on and self._background:
            yield BackgroundChanged(tasks=tuple(self._background.values()))

    def _start(self, call_id: str, task: str, parent: str | None) -> ToolStarted:
        input = {"description": task}
        title = tools.title("Task", input)
        self._open[call_id] = (title, parent)
        return ToolStarted(
            call_id=call_id,
            tool="Task",
            name="spawn_agent",
            title=title,
            input=input,
            parent=parent,
        )

    def _finish(
        self, call_id: str, outcome: Literal["completed", "failed", "cancelled"], message: str
    ) -> Iterator[Event]:
        title, parent = self._open.pop(call_id, ("", None))
        if title:
            content = (Text(message),) if message else ()
            yield ToolFinished(call_id=call_id, outcome=outcome, content=content, parent=parent)
