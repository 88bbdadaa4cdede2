"""Agent with two transports: ACP, and a more limited native one that older versions support."""

from __future__ import annotations

from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.commands.json_files import packaged_version
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.capability_check import refuse
from tillerman.core.agent import Conversation, Host, SessionSpec
from tillerman.core.version_check import standing
from tillerman.core.wire import Launch


class TwoTransportAgent(AcpAgent):
    """Selects the transport for each session.

    `surface` is the config value that selects the native transport: `[agents.NAME] surface = "…"`.
    It is also used for versions before `since`, which have no ACP.
    """

    def __init__(
        self,
        row: AcpAgentRow,
        dialect: type[AcpDialect],
        other: StdioAgent,
        *,
        surface: str,
        since: str = "",
    ) -> None:
        super().__init__(row, dialect)
        self.other = other
        self._surface = surface
        self._since = since

    def program(self, spec: SessionSpec) -> Launch | None:
        return None if self._is_named(spec) else super().program(spec)

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        if self._is_named(spec):
            return await self.other.open(spec, host)
        refuse(self.info, spec)
        if self._is_too_old(spec, host):
            return await self.other.open(spec, host)
        return await self.open_acp(spec, host)

    async def open_acp(self, spec: SessionSpec, host: Host) -> Conversation:
        return await super().open(spec, host)

    def _is_named(self, spec: SessionSpec) -> bool:
        return bool(spec.native.options.get("surface") == self._surface)

    def _is_too_old(self, spec: SessionSpec, host: Host) -> bool:
        if not self._since:
            return False
        program = host.find(str(spec.native.options.get("binary") or self.row.command[0]))
        known = packaged_version(program) if program else None
        return standing((self._since, self._since), known) == "older"
