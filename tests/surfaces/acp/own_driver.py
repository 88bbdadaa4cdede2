"""`tillerman acp -a mock` behind our own ACP driver: the mock's script goes through both."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.agents.mock.mock_scene import SERVER, MockScene
from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.testing.scenario_sessions import ScenarioSessions

ROW = AcpAgentRow(
    name="tillerman-acp",
    title="tillerman over ACP",
    command=(sys.executable, "-m", "tillerman", "acp", "-a", "mock"),
    can=frozenset({"fork"}),
    modes={"agent": "agent", "plan": "plan", "ask": "ask"},
    parent="_meta.parentToolCallId",
)


class OwnDriverScene(MockScene):
    """Its agent asks our policy for what its own leaves open."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "mock"
        left_out = {
            "schema_repaired": "its script comes with the prompt, which a repair is not",
            "cancel_in_repair": "its script comes with the prompt, which a repair is not",
            "cost_limit": "its model costs nothing",
        }
        ScenarioSessions.__init__(
            self,
            AcpAgent(ROW),
            folder,
            environment={
                "TILLERMAN_HOME": str(folder / "inner"),
                "TILLERMAN_MOCK_STATE": str(self._state),
            },
            left_out=left_out,
            server={"command": sys.executable, "args": [str(SERVER)]},
        )

    def forget(self) -> None:
        shutil.rmtree(self.home.parent / "inner")
