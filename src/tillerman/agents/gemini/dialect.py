"""ACP dialect of Gemini CLI."""

from __future__ import annotations

from tillerman.agents.acp.dialect import AcpDialect, Outcome
from tillerman.agents.decoding.fields import Table, parse, table, tables, text
from tillerman.agents.gemini import tool_titles
from tillerman.agents.gemini.launch import acp
from tillerman.agents.jsonrpc.peer import RpcError
from tillerman.core.agent import SessionSpec
from tillerman.core.failure import Failure
from tillerman.core.wire import Launch

_PLANNING = "Access denied: plan path"
_CANCELLED = "Command cancelled by user."


class GeminiDialect(AcpDialect):
    def launch(self, spec: SessionSpec) -> Launch:
        return acp(spec)

    def preamble(self, spec: SessionSpec) -> str:
        """Empty: the system prompt is in a file."""
        return ""

    def tool_name(self, call: Table) -> str:
        """The tool name; the agent's plan file, written without asking, is not a user's file."""
        name = super().tool_name(call)
        if name.startswith("mcp_"):
            return tool_titles.server_tool(name, text(call, "title"))
        paths = (text(one, "path") for one in tables(call, "locations"))
        if name in ("write_file", "replace") and any(map(tool_titles.is_plan, paths)):
            return name if text(call, "status") == "pending" else "plan_file"
        return name

    def input(self, call: Table) -> Table:
        """Reads the input from text, since none is sent: titles, and JSON in an MCP request."""
        name, title = self.tool_name(call), text(call, "title")
        asks = text(call, "status") == "pending"
        beside = [text(table(part, "content"), "text") for part in tables(call, "content") if asks]
        if name.startswith("mcp_"):
            found = (parse(words.encode()) for words in beside)
            return next((input for input in found if isinstance(input, dict)), {})
        if name == "run_shell_command" and asks:
            return tool_titles.command(title, *beside)
        return super().input(call) or tool_titles.input(name, title)

    def denial(self, note: str) -> str:
        return f"The user denied this call: {note}"

    def outcome(self, status: str, call: Table) -> Outcome | None:
        """Detects plan-mode denials and cancelled commands, which are reported as text only."""
        for words in (text(table(part, "content"), "text") for part in tables(call, "content")):
            if status == "failed" and _PLANNING in words:
                return "denied"
            if status == "completed" and words == _CANCELLED:
                return "cancelled"
        return None

    def failure(self, error: RpcError) -> Failure | None:
        from tillerman.agents.gemini import failures  # not before the program starts

        return failures.failure(error)

    def stopped(self, reason: str) -> Failure | None:
        from tillerman.agents.gemini import failures

        return failures.stopped(reason)
