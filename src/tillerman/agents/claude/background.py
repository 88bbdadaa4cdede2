"""Work that the agent left running, and the moment at which it is surely over.

A finished task wakes the agent, but first come a few lines in which nothing seems to happen.
So a task stays listed until its wake-up has been served, or the CLI says that it is idle:
between the two a reader must never find the session at rest.

2.1.197 tells a task's end when its wake-up begins, and keeps no list. Later versions tell it at
once, keep a list, and name in the wake-up's result the task (`runId`) that caused it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.core.events import BackgroundChanged, BackgroundTask

_OVER = frozenset({"completed", "failed", "killed", "stopped"})


class _Task(Struct, frozen=True):
    task_id: str
    title: str
    call_id: str | None = None
    run_id: str = ""
    background: bool = False
    over: bool = False  # and the CLI has told so: no wake-up will tell it again


class ClaudeBackground:
    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._listed = False  # this version sends the whole list
        self._told: tuple[BackgroundTask, ...] = ()
        self.tells_idle = False

    def started(self, line: Table) -> Iterator[BackgroundChanged]:
        """`task_started`: comes for slow work in the foreground too."""
        task_id = text(line, "task_id")
        known = self._tasks.get(task_id) or _Task(task_id, "")
        self._tasks[task_id] = replace(
            known,
            title=text(line, "description") or known.title,
            call_id=text(line, "tool_use_id") or known.call_id,
            run_id=text(line, "run_id") or known.run_id,
            background=known.background or line.get("is_backgrounded") is True,
        )
        yield from self._tell()

    def listed(self, line: Table) -> Iterator[BackgroundChanged]:
        """`background_tasks_changed`: all that runs now."""
        if not isinstance(line.get("tasks"), list):
            return
        self._listed = True
        running = {text(task, "task_id"): task for task in tables(line, "tasks")}
        for task_id, task in running.items():
            known = self._tasks.get(task_id) or _Task(task_id, text(task, "description"))
            run_id = text(task, "run_id") or known.run_id
            self._tasks[task_id] = replace(known, run_id=run_id, background=True, over=False)
        for task_id in self._tasks.keys() - running.keys():
            if self._tasks[task_id].background:
                self._over(task_id)
        yield from self._tell()

    def notified(self, line: Table) -> Iterator[BackgroundChanged]:
        """`task_notification`: it is over."""
        if text(line, "status") in _OVER | {""}:
            self._over(text(line, "task_id"))
        yield from self._tell()

    def call_ended(self, call_id: str) -> Iterator[BackgroundChanged]:
        """A task that outlives its call runs in the background."""
        for task_id, task in self._tasks.items():
            if task.call_id == call_id and not task.over:
                self._tasks[task_id] = replace(task, background=True)
        yield from self._tell()

    def call_of(self, agent_id: str) -> str | None:
        """The call that a subagent works inside: it is a task, in the background or not."""
        task = self._tasks.get(agent_id)
        return task.call_id if task else None

    def woke(self) -> Iterator[BackgroundChanged]:
        """The agent begins a turn by itself."""
        if not self._listed:
            yield from self._forget_told()

    def served(self, result: Table) -> Iterator[BackgroundChanged]:
        """A turn ends."""
        run_id = text(table(result, "origin"), "runId")
        for task in list(self._tasks.values()):
            named = run_id != "" and task.run_id == run_id
            if task.over and (named or not self.tells_idle):
                del self._tasks[task.task_id]
        yield from self._tell()

    def state(self, state: str) -> Iterator[BackgroundChanged]:
        self.tells_idle = True
        if state == "idle":
            yield from self._forget_told()

    def _over(self, task_id: str) -> None:
        task = self._tasks.get(task_id)
        if task and task.background:
            self._tasks[task_id] = replace(task, over=True)
        else:
            self._tasks.pop(task_id, None)

    def _forget_told(self) -> Iterator[BackgroundChanged]:
        self._tasks = {key: task for key, task in self._tasks.items() if not task.over}
        yield from self._tell()

    def _tell(self) -> Iterator[BackgroundChanged]:
        tasks = tuple(
            BackgroundTask(task.task_id, task.title, task.call_id)
            for task in self._tasks.values()
            if task.background
        )
        if tasks != self._told:
            self._told = tasks
            yield BackgroundChanged(tasks=tasks)
