"""Keeps agents started for the settings in recent use, so that a new session need not wait.

A warm agent is a program of a session that does not exist yet: it runs under a warden of its own,
and nobody reads its output or writes to it. The session that takes it starts as any other does. It
takes it only if all of its settings are the same, and if nothing has changed that the program may
have read since. Else the program is ended: it is never adapted.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tillerman.core.errors import TillermanError
from tillerman.sessions.enforcement.temporary_folder import remove_scratch_of
from tillerman.sessions.prestart import Prestart, early_program
from tillerman.sessions.warm.start_state import StartState, start_state
from tillerman.supervision.client.child_processes import GONE_WITHIN
from tillerman.supervision.linux import process_table

if TYPE_CHECKING:
    from tillerman.paths import Paths
    from tillerman.sessions.run_settings import LaunchPlan

CHECK = 5.0  # seconds between two checks; an agent is started once nothing changed between them
AGE = 600.0  # seconds after their last use for which settings keep an agent
MEMORY = 1 << 30  # bytes of all warm agents together
_log = logging.getLogger("tillerman")


class _Slot:
    """Settings in recent use, and their warm agent."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self.used_at = time.monotonic()
        self.state: StartState | None = None  # at the last check; before its agent was started
        self.agent: Prestart | None = None


class WarmAgents:
    """At most `most` agents, for the settings that were used last."""

    def __init__(
        self,
        paths: Paths,
        most: int,
        *,
        check: float = CHECK,
        age: float = AGE,
        memory: int = MEMORY,
    ) -> None:
        self._paths = paths
        self._most = most
        self._check_every = check
        self._age = age
        self._memory = memory
        self._slots: list[_Slot] = []  # the last used one is the last
        self._maintaining: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        return sum(slot.agent is not None for slot in self._slots)

    def used(self, plan: LaunchPlan) -> None:
        """Keeps an agent for these settings from now on, if that is possible."""
        if not may_be_warm(plan):
            return
        slot = self._find(plan) or _Slot(plan)
        slot.used_at = time.monotonic()
        self._slots = [one for one in self._slots if one is not slot] + [slot]
        for old in self._slots[: -self._most]:
            self._forget(old)
        if self._maintaining is None or self._maintaining.done():
            self._maintaining = asyncio.create_task(self._maintain())

    async def take(self, plan: LaunchPlan) -> Prestart | None:
        """The warm agent of exactly these settings; it belongs to the caller."""
        slot = self._find(plan)
        if slot is None or slot.agent is None:
            return None
        agent, slot.agent = slot.agent, None  # before any pause: nobody else may take it
        try:
            if await start_state(plan, self._paths) == slot.state and agent.running:
                return agent
        except BaseException:
            self._end(agent)
            raise
        self._end(agent)
        return None

    async def close(self) -> None:
        if self._maintaining:
            self._maintaining.cancel()
            await asyncio.wait([self._maintaining])
        for slot in list(self._slots):
            self._forget(slot)
        if self._ending:
            await asyncio.wait(self._ending)

    def _find(self, plan: LaunchPlan) -> _Slot | None:
        return next((slot for slot in self._slots if same_settings(slot.plan, plan)), None)

    async def _maintain(self) -> None:
        while self._slots:
            await asyncio.sleep(self._check_every)
            for slot in list(self._slots):
                try:
                    await self._check(slot)
                except (OSError, RuntimeError, TillermanError) as error:
                    _log.info("no agent is kept for %s: %s", slot.plan.spec.cwd, error)
                    self._forget(slot)
            await self._limit_memory()

    async def _check(self, slot: _Slot) -> None:
        state = await start_state(slot.plan, self._paths)
        ended = slot.agent and not slot.agent.running  # it would end again
        if state is None or ended or time.monotonic() > slot.used_at + self._age:
            self._forget(slot)
            return
        if state != slot.state and slot.agent:
            self._end(slot.agent)
            slot.agent = None
        if slot not in self._slots:
            return
        if state == slot.state and slot.agent is None:
            await self._start(slot)
        slot.state = state

    async def _start(self, slot: _Slot) -> None:
        agent = Prestart(self._paths.spawns, slot.plan.run_settings.supervision)
        try:
            await asyncio.to_thread(agent.spawn, *slot.plan)
        except BaseException:
            self._end(agent)
            raise
        if slot in self._slots and agent.launched.early:
            slot.agent = agent
        else:
            self._end(agent)

    async def _limit_memory(self) -> None:
        if not self.count:
            return
        wardens = [
            slot.agent.launched.process.pid
            for slot in self._slots
            if slot.agent and slot.agent.launched.process
        ]
        used = await asyncio.to_thread(_memory_of, wardens)
        for slot in list(self._slots):  # the oldest first
            if sum(used.values()) <= self._memory:
                break
            if slot.agent and slot.agent.launched.process:
                used.pop(slot.agent.launched.process.pid, None)
                self._forget(slot)

    def _forget(self, slot: _Slot) -> None:
        if slot in self._slots:
            self._slots.remove(slot)
        if slot.agent:
            self._end(slot.agent)
            slot.agent = None

    def _end(self, agent: Prestart) -> None:
        agent.drop()
        ending = asyncio.ensure_future(asyncio.to_thread(_ended, agent))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def may_be_warm(plan: LaunchPlan) -> bool:
    """Whether the agent's program is known before its session, and what it reads at its start."""
    spec, run_settings = plan.spec, plan.run_settings
    if spec.resume or spec.tools.servers or run_settings.bench or run_settings.functions:
        return False  # their command lines name the session, or files of it
    if plan.agent.info.start_files is None:
        return False
    try:
        return early_program(plan.agent, spec, run_settings) is not None
    except TillermanError:
        return False


def same_settings(one: LaunchPlan, other: LaunchPlan) -> bool:
    """Whether both are the same in everything that a session is given, except its notices."""
    return (
        type(one.agent) is type(other.agent)
        and one.agent.info == other.agent.info
        and one.spec == other.spec
        and replace(one.run_settings, notices=()) == replace(other.run_settings, notices=())
    )


def _ended(agent: Prestart) -> None:
    """Waits until the warden has ended its programs and itself."""
    process = agent.launched.process
    assert process is not None
    try:
        process.wait(GONE_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()  # its keepers end the programs
        process.wait()
    if process.stderr:
        process.stderr.close()
    remove_scratch_of(agent.session)


def _memory_of(wardens: list[int]) -> dict[int, int]:
    """Resident bytes of each tree; none where the system does not tell."""
    table = process_table.snapshot()
    used = {}
    for warden in wardens:
        used[warden] = 0
        for pid in {warden} | process_table.descendants([warden], table):
            with suppress(OSError):
                pages = process_table.read(f"/proc/{pid}/statm").split()[1]
                used[warden] += int(pages) * process_table.PAGE
    return used
