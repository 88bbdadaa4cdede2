"""Main loop of the mock agent: waits for prompts, runs background tasks, ends at end of stdin."""

# Importing pathlib would double the startup time.
# ruff: noqa: PTH111
from __future__ import annotations

import contextlib
import os
import time

from .history import MockHistory
from .script import choose
from .stdio import StdinClosed, StdioPeer
from .turn import MockTurn, send_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .stdio import Message
    from .turn import Task


def main(words: list[str]) -> None:
    flags = {name[2:]: value for name, value in zip(words[::2], words[1::2], strict=True)}
    state = (
        flags.get("state")
        or os.environ.get("TILLERMAN_MOCK_STATE")
        or os.path.expanduser("~/.local/state/tillerman/mock")
    )
    memory = MockHistory(state, flags.get("resume"), fork="fork" in flags)
    host = StdioPeer({"model": "mock-quick", "mode": "agent", "effort": "", "system": "", **flags})
    with contextlib.suppress(StdinClosed, BrokenPipeError):
        live(host, memory)


def live(host: StdioPeer, memory: MockHistory) -> None:
    tasks: list[Task] = []
    host.say("ready", native_id=memory.native_id, model=host.settings["model"])
    while True:
        left_over = bool(host.prompts)  # prompts sent during a turn that did not read them
        due = min((task[0] for task in tasks), default=None)
        left = None if due is None else max(0.0, due - time.monotonic())
        host.listen(left, lambda: host.interrupted or bool(host.prompts) or host.hung_up)
        if host.hung_up and not host.prompts:
            return
        if host.interrupted:
            if host.take_interrupt():
                host.say("end", reason="cancelled")
            elif tasks:
                tasks.clear()
                send_tasks(host, tasks)
            left_over = False
            if not host.prompts:
                continue
        if host.prompts:
            if left_over:
                host.say("took_up")
            respond(host, memory, tasks, host.prompts.pop(0))
        elif tasks:
            task = min(tasks)
            tasks.remove(task)
            _, _, title, steps = task
            host.say("woke")
            send_tasks(host, tasks)
            MockTurn(host, memory, tasks, 0, {"text": title}).play(steps)


def respond(host: StdioPeer, memory: MockHistory, tasks: list[Task], prompt: Message) -> None:
    try:
        steps, pace = choose(prompt["text"], memory, host.settings)
    except ValueError as error:
        steps, pace = [{"fail": "agent_failed", "message": f"mock: {error}"}], 0.0
    if memory.lost:
        why = f"mock: no conversation {memory.lost!r}"
        steps, pace = [{"fail": "history_lost", "message": why}], 0.0
    MockTurn(host, memory, tasks, pace, prompt).play(steps)
