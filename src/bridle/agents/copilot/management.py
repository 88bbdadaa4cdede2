"""GitHub Copilot CLI as an agent of bridle: where it is, who is signed in, what it offers."""

from __future__ import annotations

from bridle.agents.stdio import StdioAgent
from bridle.core.agent import AgentInfo, SessionSpec, Wire

INSTALL = "npm install -g @github/copilot"
VARIABLES = ("COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST")


def _json_wire(spec: SessionSpec) -> Wire:
    from bridle.agents.copilot.lines import CopilotJsonWire

    return CopilotJsonWire(spec)


JSON = StdioAgent(
    AgentInfo(
        name="copilot",
        title="GitHub Copilot",
        can=frozenset(
            {"streaming", "thinking", "resume", "cancel", "modes", "model", "effort", "mcp",
             "system", "folders", "tools", "subagents"}
        ),
        binary="copilot",
        install=INSTALL,
        variables=VARIABLES,
    ),
    _json_wire,
)  # fmt: skip
