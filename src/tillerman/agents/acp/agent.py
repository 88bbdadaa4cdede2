"""Agent class for ACP agents, built from a row of data and an optional dialect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.stdio.agent import INTERRUPT_GRACE, StdioAgent
from tillerman.core.agent import SessionSpec
from tillerman.core.agent_admin import Dialog, Installed, RunCommand
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Launch, Wire

T = TypeVar("T")


class AcpAgent(StdioAgent):
    def __init__(
        self,
        row: AcpAgentRow,
        dialect: type[AcpDialect] = AcpDialect,
        *,
        grace: float = INTERRUPT_GRACE,
    ) -> None:
        self.row = row
        self.dialect = dialect(row)
        super().__init__(row.info, self._wire, grace=grace)

    def _wire(self, spec: SessionSpec) -> Wire:
        from tillerman.agents.acp.wire import AcpWire  # not before the program starts

        return AcpWire(self.dialect, spec)

    def program(self, spec: SessionSpec) -> Launch | None:
        return self.dialect.launch(spec)

    async def installed(self, run: RunCommand) -> Installed:
        from tillerman.agents.commands.locate import installed

        return await installed(run, self.info)

    async def ask(
        self,
        run: RunCommand,
        cwd: Path,
        dialog: Dialog[T],
        *,
        env: Mapping[str, str] = {},
        limit: float = 20,
    ) -> T:
        """Runs a dialog with a separate process of the agent, outside any session."""
        from tillerman.agents.commands.locate import binary

        launch = self.dialect.launch(session_spec(cwd=cwd))
        words = {name: word for name, word in launch.env.items() if isinstance(word, str)}
        argv = [binary(run, self.info), *launch.argv[1:]]
        return await run.dialog(argv, dialog, env={**words, **env}, limit=limit)
