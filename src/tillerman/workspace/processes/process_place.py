"""Settings of where a session's commands run, and errors for unknown or failed processes."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tillerman.workspace.files.refusal import Refused, refused

if TYPE_CHECKING:
    from tillerman.supervision.client.warden_client import WardenClient

CAP = 256 * 1024 * 1024  # bytes of one output file
LINGER = 30.0  # seconds that a background process outlives its server


class ExecEnforcement(Protocol):
    """Has the execs of commands checked by the rules of a session."""

    def enforcement(self, environment: Mapping[str, str]) -> Mapping[str, Any]: ...
    def attach(self, warden: WardenClient) -> None: ...
    def started(self, failed: dict[str, str]) -> None: ...


class ProcessPlace(NamedTuple):
    """The workspace, and the folders of all sessions' processes and of all wardens."""

    workspace: Path
    folder: Path
    records: Path
    level: str = "auto"
    linger: float = LINGER
    cap: int = CAP
    exec_rules: ExecEnforcement | None = None


class UnknownProcess(Refused):
    def __init__(self, process: str) -> None:
        super().__init__(
            f"process {process} not found or access denied",
            hint="`list_processes` shows those of this session",
        )


def not_started(error: OSError, cwd: Path) -> Refused:
    if error.filename == str(cwd):
        return refused(error, str(cwd))
    if error.errno == errno.E2BIG:
        return Refused(
            "the command with its variables is too long to be started",
            hint="write a script or an input file with write_file, and run that",
        )
    return Refused(
        f"the command could not be started: {error.strerror or error}",
        hint="`tillerman doctor` shows what works here",
    )
