"""The open requests of all sessions, with what was asked, for every surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tillerman.core.events import PermissionRequested, QuestionAsked

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness


@dataclass(frozen=True)
class OpenRequestRow:
    session: str
    opened_at: str
    request: PermissionRequested | QuestionAsked
    idle: bool = False  # no process runs its session

    @property
    def name(self) -> str:
        return f"{self.session}/{self.request.request_id}"

    def is_called(self, name: str, id: str) -> bool:
        session, slash, rest = name.partition("/")
        return name == id or bool(slash and rest == id and self.session.startswith(session))


async def open_requests(harness: Harness) -> list[OpenRequestRow]:
    rows = harness.sessions.catalog.open_requests()
    runs = {one: await harness.sessions.is_run(one) for one in {row.session for row in rows}}
    return [
        OpenRequestRow(row.session, row.opened_at, entry.event, not runs[row.session])
        for row in rows
        for entry in harness.sessions.log.since(row.session, row.seq - 1, 1)
        if isinstance(entry.event, PermissionRequested | QuestionAsked)
    ]
