"""The table of workspace processes: rows are durable before they are reported, and end once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import apsw
import msgspec

from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.store.database import Database
from tillerman.store.session_row import bindable

COLUMNS = tuple(field.name for field in msgspec.structs.fields(WorkspaceProcess))
CHANGEABLE = frozenset(COLUMNS) - {"id", "session", "command", "cwd", "began_at", "owner"}
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM processes"
_INSERT = (
    f"INSERT INTO processes ({', '.join(COLUMNS)}) "
    f"VALUES ({', '.join(':' + name for name in COLUMNS)})"
)
_LIVE = "status IN ('starting', 'running')"


class ProcessTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, process: str) -> WorkspaceProcess | None:
        found = self._rows("WHERE id = ?", (bindable(process),))
        return found[0] if found else None

    def list(self, session: str | None = None, *, live: bool = False) -> Sequence[WorkspaceProcess]:
        """Lists processes of one session or of all, oldest first."""
        return self._rows(
            f"WHERE (?1 IS NULL OR session = ?1) {f'AND {_LIVE}' if live else ''} ORDER BY number",
            (bindable(session),),
        )

    def expired(self, before: str) -> Sequence[WorkspaceProcess]:
        """Lists processes that ended before this timestamp (RFC 3339), to be removed."""
        return self._rows(f"WHERE ended_at < ? AND NOT {_LIVE} ORDER BY number", (before,))

    def add(self, process: WorkspaceProcess) -> Future[None]:
        values = {name: bindable(getattr(process, name)) for name in COLUMNS}

        def work(connection: apsw.Connection) -> None:
            connection.execute(_INSERT, values)

        # urgent: the rows are small, and running processes must be recorded on a full disk too
        return self._database.write(work, line=process.id, urgent=True)

    def change(self, process: str, **fields: Any) -> Future[bool]:
        """Changes a process that has not ended yet; False when it has ended or is unknown."""
        if unknown := fields.keys() - CHANGEABLE:
            raise TypeError(f"{sorted(unknown)} of a process cannot be changed")
        values = [bindable(value) for value in fields.values()]
        assignments = ", ".join(f"{name} = ?" for name in fields)

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                f"UPDATE processes SET {assignments} WHERE id = ? AND {_LIVE}", (*values, process)
            )
            return bool(connection.changes())

        return self._database.write(work, line=process, urgent=True)

    def remove(self, processes: Sequence[str]) -> Future[None]:
        def work(connection: apsw.Connection) -> None:
            connection.executemany(
                "DELETE FROM processes WHERE id = ?", [(process,) for process in processes]
            )

        return self._database.write(work)

    def _rows(self, clause: str, bindings: tuple[Any, ...]) -> Sequence[WorkspaceProcess]:
        rows = self._database.query(f"{_SELECT} {clause}", bindings)
        try:
            return [
                msgspec.convert(dict(zip(COLUMNS, values, strict=True)), WorkspaceProcess)
                for values in rows
            ]
        except msgspec.MsgspecError as error:
            raise self._database.damaged(f"the list of processes: {error}") from error
