"""OpenCode as an agent of bridle: where it is, who is signed in, what it offers and keeps."""

from __future__ import annotations

from bridle.agents.stdio import StdioAgent
from bridle.core.agent import AgentInfo, SessionSpec, Wire

INSTALL = "npm install -g opencode-ai"
VARIABLES = (
    "OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_API_KEY", "GOOGLE_*", "OPENROUTER_API_KEY",
    "GROQ_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "MISTRAL_API_KEY", "AWS_*", "AZURE_*",
)  # fmt: skip


def _run_wire(spec: SessionSpec) -> Wire:
    from bridle.agents.opencode.run import OpencodeRunWire

    return OpencodeRunWire(spec)


RUN = StdioAgent(
    AgentInfo(
        name="opencode",
        title="OpenCode",
        can=frozenset(
            {"thinking", "resume", "fork", "cancel", "modes", "model", "effort", "mcp", "system",
             "usage"}
        ),
        binary="opencode",
        install=INSTALL,
        variables=VARIABLES,
    ),
    _run_wire,
)  # fmt: skip
