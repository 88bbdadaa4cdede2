"""Notes in results about a command's isolation level and the setting that allows more."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.workspace.processes.output_reader import ends

LEVELS: Sequence[str] = ("basic", "medium", "high")
_SETTING = '`isolation = "basic"` under `[workspace]`, or `tillerman mcp serve --isolation basic`'
_HAS = {
    "medium": "it has no network, and only files of the workspace and the system",
    "high": "it has an isolated network, and only files of the workspace and the system",
}
_READ = 8_000  # bytes of each end of a stream
_REFUSED = re.compile(
    "|".join([
        *(
            re.escape(os.strerror(number))
            for number in (
                errno.EACCES, errno.EPERM, errno.EROFS, errno.EAFNOSUPPORT, errno.ENETUNREACH,
                errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.EHOSTUNREACH,
            )
        ),
        r"\bE(ACCES|PERM|ROFS|AFNOSUPPORT|NETUNREACH|CONNREFUSED|AI_AGAIN|NOTFOUND)\b",
        "[Cc]ould not resolve", "[Cc]ouldn't connect", "[Ff]ailed to connect",
        "name resolution", "Name or service not known",
        "[Cc]ould not read from remote", "does not appear to be a git repository",
        "No matching distribution found",
        rf"(?<![\w.])(/|\.\./)[^\n]*{re.escape(os.strerror(errno.ENOENT))}",
        rf"{re.escape(os.strerror(errno.ENOENT))}[^\n]*(?<![\w.])(/|\.\./)",
    ])
)  # fmt: skip


def setting(process: WorkspaceProcess, least: str) -> str:
    """Returns the setting that allows more; `least` is the level that the session requires."""
    if LEVELS.index(process.isolation) > LEVELS.index(least):
        return f'this call requested it: `isolation: "{least}"` allows more'
    return f"{_SETTING}, allows more"


def on_start(process: WorkspaceProcess, least: str) -> list[str]:
    """Returns notes for a background command such as a server: which processes reach its ports."""
    if process.isolation == "basic":
        return []
    ports = (
        "it cannot listen"
        if process.isolation == "medium"
        else "its ports are not reachable from outside"
    )
    return [f"at isolation {process.isolation} {ports}; {setting(process, least)}"]


def on_end(process: WorkspaceProcess, least: str, folder: Path) -> list[str]:
    """Returns notes for a failed command whose output suggests a denial by the level."""
    if process.isolation == "basic" or process.status != "failed":
        return []
    written = [ends(folder / stream, _READ, _READ) for stream in ("stderr", "stdout")]
    if not any(_REFUSED.search(f"{one.head}\n{one.tail}") for one in written):
        return []
    level = process.isolation
    return [f"it ran at isolation {level}, where {_HAS[level]}; {setting(process, least)}"]
