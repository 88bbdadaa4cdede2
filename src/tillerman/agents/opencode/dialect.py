"""ACP dialect of OpenCode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.agents.acp.dialect import AcpDialect, Outcome
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.decoding.fields import Table, table, text
from tillerman.agents.opencode.config import asking, environment
from tillerman.agents.opencode.retries import LOGGED
from tillerman.agents.opencode.tool_names import NAMES
from tillerman.core.agent import SessionSpec
from tillerman.core.wire import Launch

if TYPE_CHECKING:  # the program is started before these are imported
    from tillerman.agents.jsonrpc.peer import RpcError
    from tillerman.core.failure import Failure

_NO_TOOL = "Invalid Tool"  # called in place of a tool that does not exist

ROW = AcpAgentRow(
    name="opencode",
    command=("opencode", "acp"),
    title="OpenCode",
    install="npm install -g opencode-ai",
    login="run `opencode auth login`, or set the key of the model's provider",
    variables=(
        "OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_API_KEY", "GOOGLE_*",
        "OPENROUTER_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY",
        "MISTRAL_API_KEY", "AWS_*", "AZURE_*",
    ),
    tested=("1.18.33", "1.18.33"),
    can=frozenset({"fork", "retries", "cost"}),
    asks=frozenset({"read", "write", "shell", "network", "mcp"}),
    modes={"agent": "build", "plan": "plan", "ask": "build"},
    tool_name="title",
    tools=NAMES,
    usage="call",
    stops=True,
    drops_images=True,
)  # fmt: skip


class OpencodeDialect(AcpDialect):
    def launch(self, spec: SessionSpec) -> Launch:
        return Launch((*self.row.command, *LOGGED), env=environment(spec, asking()))

    def preamble(self, spec: SessionSpec) -> str:
        """Empty: the system prompt is in its instructions."""
        return ""

    def asks_early(self, call: Table) -> bool:
        """True for requests about a call; others have an id that starts with `per_`."""
        return not text(call, "toolCallId").startswith("per_")

    def outcome(self, status: str, call: Table) -> Outcome | None:
        from tillerman.agents.opencode import tools

        raw = table(call, "rawOutput")
        if text(call, "title") == _NO_TOOL:
            return "failed"
        if status == "failed":
            return tools.outcome({"status": "error", "error": text(raw, "error")})
        return tools.outcome({"status": status, **raw})

    def failure(self, error: RpcError) -> Failure | None:
        """Maps `Internal error: ` and the provider's message, which have no status."""
        from tillerman.agents.opencode import failures

        data = error.data if isinstance(error.data, dict) else {}
        name = text(data, "errorName")
        if not name:
            return None
        message = error.message.removeprefix("Internal error: ")
        return failures.failure({"name": name, "data": {"message": message}})
