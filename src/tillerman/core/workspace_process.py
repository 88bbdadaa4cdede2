"""A shell command of a session's workspace, as the list of processes knows it."""

from __future__ import annotations

from typing import Literal

import msgspec

Mode = Literal["sync", "async", "background"]
Status = Literal["starting", "running", "finished", "failed", "killed", "lost"]

LIVE: frozenset[Status] = frozenset({"starting", "running"})


class WorkspaceProcess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`finished` ended by itself with 0, `failed` with another code or never began; `killed` ended
    by a signal; `lost` ended while nobody looked after it, and how is not known."""

    id: str
    session: str
    command: str
    cwd: str
    mode: Mode
    isolation: str
    status: Status = "starting"
    pid: int | None = None  # pid, start time and boot together name it for good
    started: str | None = None  # in the kernel's ticks
    boot: str | None = None
    code: int | None = None
    signal: int | None = None
    began_at: str  # UTC, RFC 3339
    ended_at: str | None = None
    stdout_bytes: int = 0  # all that it wrote
    stderr_bytes: int = 0
    stdout_kept: int = 0  # what of it is in the file
    stderr_kept: int = 0
    why: str | None = None  # it failed, was killed or lost
    warden: str | None = None  # the marker of the warden that looks after it
    owner: str | None = None  # the client that started it, where a session has several

    @property
    def live(self) -> bool:
        return self.status in LIVE
