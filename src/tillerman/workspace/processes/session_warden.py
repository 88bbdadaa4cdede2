"""The warden of a session's commands: started for the first one, rejoined after a restart."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from tillerman.paths import private_folder
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.linux.process_table import ancestors
from tillerman.workspace.processes.process_place import ProcessPlace


class SessionWarden:
    def __init__(self, place: ProcessPlace) -> None:
        self._place = place
        self._warden: WardenClient | None = None
        self._starting = asyncio.Lock()

    @property
    def marker(self) -> str | None:
        """Name of its folder among the records; None if there is no warden."""
        return self._warden.folder.name if self._warden else None

    async def ready(self) -> WardenClient:
        """Returns the warden; starts one if there is none or it was killed."""
        async with self._starting:
            if self._warden is None or self._warden.lost:
                private_folder(self._place.records)
                self._attach(
                    await WardenClient.start(
                        level=self._place.level,
                        records=self._place.records,
                        marker=f"{secrets.token_hex(8)}-ws",
                        linger=self._place.linger,
                    )
                )
            assert self._warden
            return self._warden

    async def rejoin(self, marker: str) -> WardenClient | None:
        """Reconnects to a warden of an earlier server; None when it has ended."""
        warden = await WardenClient.rejoin(self._place.records / marker)
        if warden:
            self._attach(warden)
        return warden

    def _attach(self, warden: WardenClient) -> None:
        self._warden = warden
        if self._place.exec_rules:
            self._place.exec_rules.attach(warden)

    def enforcement(self, env: Mapping[str, str]) -> Mapping[str, Any]:
        return self._place.exec_rules.enforcement(env) if self._place.exec_rules else {}

    def started(self, pid: int) -> bool:
        """Returns whether the pid is one of its programs, or a descendant of one."""
        return self._warden is not None and self._warden.pid in ancestors(pid)

    async def close(self) -> None:
        """Ends the warden with all programs."""
        if self._warden:
            await self._warden.close()
            self._warden = None

    def release(self) -> None:
        """Disconnects: lasting programs continue."""
        if self._warden:
            self._warden.release()
            self._warden = None
