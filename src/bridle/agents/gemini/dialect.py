"""How Gemini CLI speaks ACP."""

from __future__ import annotations

from bridle.agents.acp.dialect import Dialect, Outcome
from bridle.agents.fields import Table, parse, table, tables, text
from bridle.agents.gemini.launch import acp
from bridle.agents.jsonrpc import RpcError
from bridle.core.agent import SessionSpec
from bridle.core.failure import Failure
from bridle.core.wire import Launch

_PLANNING = "Access denied: plan path"
_CANCELLED = "Command cancelled by user."


class GeminiDialect(Dialect):
    def launch(self, spec: SessionSpec) -> Launch:
        return acp(spec)

    def preamble(self, spec: SessionSpec) -> str:
        """The system prompt is in a file."""
        return ""

    def input(self, call: Table) -> Table:
        """It tells none, but that of an MCP tool in words when it asks."""
        if text(call, "status") != "pending" or not self.tool_name(call).startswith("mcp_"):
            return super().input(call)
        said = (text(table(part, "content"), "text") for part in tables(call, "content"))
        found = (parse(words.encode()) for words in said)
        return next((input for input in found if isinstance(input, dict)), {})

    def outcome(self, status: str, call: Table) -> Outcome | None:
        """Of a plan's own rules, and of a cancelled command, it tells in words alone."""
        for words in (text(table(part, "content"), "text") for part in tables(call, "content")):
            if status == "failed" and _PLANNING in words:
                return "denied"
            if status == "completed" and words == _CANCELLED:
                return "cancelled"
        return None

    def failure(self, error: RpcError) -> Failure | None:
        from bridle.agents.gemini import failures  # not before the program has been started

        return failures.failure(error)
