"""Supervision levels: their names, which of them work here, and what each needs."""

from __future__ import annotations

import asyncio
import marshal
import subprocess
from enum import StrEnum

from tillerman.supervision.protocol.launch_warden import command


class Level(StrEnum):
    NAMESPACE = "namespace"
    CGROUP = "cgroup"
    SUBREAPER = "subreaper"
    GROUP = "group"


async def probe() -> dict[Level, str | None]:
    """Returns each level with the reason it is unavailable here; None when it works."""
    found = await asyncio.to_thread(
        subprocess.run,
        command("warden.supervision_level"),
        stdout=subprocess.PIPE,
        env={},
        check=True,
    )
    return {Level(level): reason or None for level, reason in marshal.loads(found.stdout)}


HINTS = {
    "auto": "`tillerman doctor` shows the requirements of each level",
    "namespace": "run as root, allow user namespaces (sysctl user.max_user_namespaces),"
    ' or set supervision = "auto"',
    "cgroup": "start inside a delegated group (systemd-run --user --scope -p Delegate=yes),"
    ' or set supervision = "auto"',
    "subreaper": 'only available on Linux; set supervision = "auto"',
}
