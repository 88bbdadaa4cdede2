"""State of a shell command in a session's workspace, as stored in the process list."""

from __future__ import annotations

from typing import Literal

import msgspec

Mode = Literal["sync", "async", "background"]
Status = Literal["starting", "running", "finished", "failed", "killed", "lost"]

LIVE: frozenset[Status] = frozenset({"starting", "running"})


class WorkspaceProcess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A shell command and its state.

    `finished`: exited with 0; `failed`: exited with another code or did not start; `killed`: ended
    by a signal; `lost`: ended while unsupervised, exit status unknown.
    """

    id: str
    session: str
    command: str
    cwd: str
    mode: Mode
    isolation: str
    status: Status = "starting"
    pid: int | None = None  # pid, start time and boot id together identify it
    started: str | None = None  # in kernel ticks
    boot: str | None = None
    code: int | None = None
    signal: int | None = None
    began_at: str  # UTC, RFC 3339
    ended_at: str | None = None
    stdout_bytes: int = 0  # total output
    stderr_bytes: int = 0
    stdout_kept: int = 0  # output stored in the file
    stderr_kept: int = 0
    why: str | None = None  # reason of failed, killed or lost
    warden: str | None = None  # the marker of the warden that supervises it
    owner: str | None = None  # the client that started it, if a session has several

    @property
    def live(self) -> bool:
        return self.status in LIVE
