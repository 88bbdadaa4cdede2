"""Imports an agent's native session as a tillerman session."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tillerman.core.agent import DecodedLine
from tillerman.core.agent_admin import NativeSession
from tillerman.core.errors import UsageError
from tillerman.core.events import AgentReady, Entry, Event, MessageChunk, UserMessage
from tillerman.core.timestamps import rfc3339
from tillerman.paths import make_private
from tillerman.sessions.agent.host import SpillFile
from tillerman.sessions.log.sanitizer import EventSanitizer
from tillerman.sessions.log.size_limits import DiskBudget
from tillerman.sessions.prestart import new_session
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.store.search import Role
from tillerman.store.session_row import SessionRow
from tillerman.supervision.secrets import Secrets

_MOST = 100_000  # sessions of one agent that are checked


async def adopt(
    sessions: Sessions,
    agent: str,
    native: NativeSession,
    history: Sequence[Event],
    run_settings: RunSettings,
    spill_folder: Path,
) -> SessionRow:
    """Imports the session. Resuming it continues the native conversation; the history is for users.

    The stored history is redacted and capped, like all output of an agent. It belongs to turn 0,
    before the first turn.
    """
    _refuse_twice(sessions, agent, native)
    secrets = Secrets()
    for name, value in run_settings.secrets:
        secrets.register(name, value)
    now = rfc3339(datetime.now(UTC))
    row = SessionRow(
        id=new_session(),
        agent=agent,
        cwd=native.cwd or str(Path.cwd()),
        created_at=now,
        title=secrets.redact_text(native.title) or None,
        settings={"approve": run_settings.approve},
    )
    events = list(_within_limits(history, secrets, run_settings, spill_folder / row.id, row.cwd))
    reported = [AgentReady(native_id=native.native_id), *events]
    entries = [
        Entry(session=row.id, seq=seq, turn=0, at=now, event=event)
        for seq, event in enumerate(reported, 1)
    ]
    await asyncio.wrap_future(sessions.catalog.create(row))
    await asyncio.wrap_future(sessions.log.append([(None, entries)]))
    await asyncio.wrap_future(sessions.search.index(row.id, 0, list(_whole_messages(events))))
    return sessions.catalog.get(row.id)


def _refuse_twice(sessions: Sessions, agent: str, native: NativeSession) -> None:
    for row in sessions.catalog.list(agent=agent, limit=_MOST):
        if row.native_id == native.native_id and row.forked_from is None:
            raise UsageError(
                f"this conversation is already session {row.id}",
                hint=f"`tillerman run --resume {row.id}` resumes it",
            )


def _within_limits(
    history: Sequence[Event], secrets: Secrets, run_settings: RunSettings, folder: Path, cwd: str
) -> Iterator[Event]:
    budget = DiskBudget(run_settings.turn_cap)
    numbers = itertools.count(1)

    def spill() -> SpillFile:
        make_private(folder)
        path = folder / f"{next(numbers):05}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return SpillFile(path.name, fd, run_settings.spill_cap, secrets, budget)

    intake = EventSanitizer(
        secrets, output_cap=run_settings.output_cap, budget=budget, spill=spill, cwd=cwd
    )
    for event in history:
        for received in intake.sanitize([DecodedLine(None, [event])]):
            yield from received.events
    yield from intake.flush()


def _whole_messages(events: Sequence[Event]) -> Iterator[tuple[Role, str]]:
    """Joins chunks into whole messages for full-text search."""
    for (kind, _), group in itertools.groupby(events, _message):
        words = [e.text for e in group if isinstance(e, UserMessage | MessageChunk)]
        match kind:
            case "user":
                yield from (("user", text) for text in words)
            case "agent":
                yield "agent", "".join(words)


def _message(event: Event) -> tuple[str, str]:
    match event:
        case UserMessage():
            return "user", ""
        case MessageChunk(message_id=message_id):
            return "agent", message_id
    return "", ""
