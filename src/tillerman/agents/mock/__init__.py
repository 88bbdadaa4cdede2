"""Built-in mock agent: a real child process that runs a script, without any installation."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.capability_check import refuse
from tillerman.core.agent import AgentInfo, Conversation, Host, SessionSpec, StartFiles
from tillerman.core.agent_admin import Model, RunCommand

INFO = AgentInfo(
    name="mock",
    title="Mock",
    can=frozenset({
        "streaming", "thinking", "resume", "fork", "steer", "cancel", "permissions",
        "changed_input", "questions",
        "modes", "model", "effort", "images", "mcp", "system", "subagents", "background", "usage",
        "cost",
    }),
    variables=("TILLERMAN_MOCK_*",),
    asks=frozenset({"write", "shell", "mcp"}),
    start_files=StartFiles(),
)  # fmt: skip


class MockAgent(StdioAgent):
    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        """Checks the spec against what the mock declares.

        The option `asks = false` declares that it asks about nothing, for scripts whose steps have
        `"ask": false`.
        """
        info = self.info
        if spec.native.options.get("asks") is False:
            info = replace(info, asks=frozenset())
        refuse(info, spec)
        return await StdioAgent(info, self.wire, grace=self._grace).open(spec, host)

    async def models(self, run: RunCommand) -> Sequence[Model]:
        return [
            Model("mock-quick", "Mock Quick", provider="tillerman", default=True, context=8_000),
            Model("mock-deep", "Mock Deep", provider="tillerman", thinking=True, context=64_000),
        ]


agent = MockAgent(INFO, MockWire)
