"""An agent made from a row of data, and for some from a dialect."""

from __future__ import annotations

from bridle.agents.acp.dialect import Dialect
from bridle.agents.acp.row import Row
from bridle.agents.stdio import INTERRUPT_GRACE, StdioAgent
from bridle.core.agent import SessionSpec
from bridle.core.management import Installed, Run
from bridle.core.wire import Launch, Wire


class AcpAgent(StdioAgent):
    def __init__(
        self, row: Row, dialect: type[Dialect] = Dialect, *, grace: float = INTERRUPT_GRACE
    ) -> None:
        self.row = row
        self.dialect = dialect(row)
        super().__init__(row.info, self._wire, grace=grace)

    def _wire(self, spec: SessionSpec) -> Wire:
        from bridle.agents.acp.wire import AcpWire  # not before the program has been started

        return AcpWire(self.dialect, spec)

    def program(self, spec: SessionSpec) -> Launch:
        return self.dialect.launch(spec)

    async def installed(self, run: Run) -> Installed:
        """No version: what an unknown program does with `--version` is not known."""
        binary = self.row.command[0]
        return Installed(binary, run.find(binary), None, self.info.install)
