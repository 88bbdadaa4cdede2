"""Tracks background tasks of Claude Code, and when they are really over.

A finished task starts a new turn of the agent, but only after a few lines without activity. So a
task stays listed until that turn has ended, or the CLI reports that it is idle: between the two a
reader must never see the session as idle.

2.1.197 reports a task's end when its turn starts, and has no task list. Later versions report it at
once, send a list, and name the task (`runId`) in the result of the turn that it caused.
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
    over: bool = False  # and the CLI has reported it: no later turn will


class ClaudeBackground:
    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._listed = False  # this version sends the whole list
        self._reported: tuple[BackgroundTask, ...] = ()
        self.reports_idle = False

    def started(self, line: Table) -> Iterator[BackgroundChanged]:
        """Handles `task_started`, which is sent for slow foreground work too."""
        task_id = text(line, "task_id")
        known = self._tasks.get(task_id) or _Task(task_id, "")
        self._tasks[task_id] = replace(
            known,
            title=text(line, "description") or known.title,
            call_id=text(line, "tool_use_id") or known.call_id,
            run_id=text(line, "run_id") or known.run_id,
            background=known.background or line.get("is_backgrounded") is True,
        )
        yield from self._report()

    def listed(self, line: Table) -> Iterator[BackgroundChanged]:
        """Handles `background_tasks_changed`: all tasks that run now."""
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
        yield from self._report()

    def notified(self, line: Table) -> Iterator[BackgroundChanged]:
        """Handles `task_notification`: the task is over."""
        if text(line, "status") in _OVER | {""}:
            self._over(text(line, "task_id"))
        yield from self._report()

    def call_ended(self, call_id: str) -> Iterator[BackgroundChanged]:
        """Moves tasks that outlive their call to the background."""
        for task_id, task in self._tasks.items():
            if task.call_id == call_id and not task.over:
                self._tasks[task_id] = replace(task, background=True)
        yield from self._report()

    def call_of(self, agent_id: str) -> str | None:
        """The call of a subagent, which is a task in the foreground or background."""
        task = self._tasks.get(agent_id)
        return task.call_id if task else None

    def woke(self) -> Iterator[BackgroundChanged]:
        """The agent starts a turn by itself."""
        if not self._listed:
            yield from self._drop_reported()

    def served(self, result: Table) -> Iterator[BackgroundChanged]:
        """A turn ends."""
        run_id = text(table(result, "origin"), "runId")
        for task in list(self._tasks.values()):
            named = run_id != "" and task.run_id == run_id
            if task.over and (named or not self.reports_idle):
                del self._tasks[task.task_id]
        yield from self._report()

    def state(self, state: str) -> Iterator[BackgroundChanged]:
        self.reports_idle = True
        if state == "idle":
            yield from self._drop_reported()

    def _over(self, task_id: str) -> None:
        task = self._tasks.get(task_id)
        if task and task.background:
            self._tasks[task_id] = replace(task, over=True)
        else:
            self._tasks.pop(task_id, None)

    def _drop_reported(self) -> Iterator[BackgroundChanged]:
        self._tasks = {key: task for key, task in self._tasks.items() if not task.over}
        yield from self._report()

    def _report(self) -> Iterator[BackgroundChanged]:
        tasks = tuple(
            BackgroundTask(task.task_id, task.title, task.call_id)
            for task in self._tasks.values()
            if task.background
        )
        if tasks != self._reported:
            self._reported = tasks
            yield BackgroundChanged(tasks=tasks)
