"""ACP dialect of GitHub Copilot CLI."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tillerman.agents.acp.dialect import AcpDialect, Outcome
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.copilot.tool_names import NAMES, without_exit
from tillerman.agents.decoding.fields import Table, table, text
from tillerman.core.agent import SecretFile, SessionSpec, Word
from tillerman.core.wire import Launch

if TYPE_CHECKING:  # the program is started before these are imported
    from tillerman.agents.jsonrpc.peer import RpcError
    from tillerman.core.failure import Failure

_PLANNING = "was blocked. Plan mode does not permit"
_MODE = "https://agentclientprotocol.com/protocol/session-modes#"

ROW = AcpAgentRow(
    name="copilot",
    command=("copilot", "--acp"),
    title="GitHub Copilot",
    install="npm install -g @github/copilot",
    login="run `copilot login`, or set COPILOT_GITHUB_TOKEN or COPILOT_PROVIDER_API_KEY",
    variables=("COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"),
    tested=("1.0.102", "1.0.102"),
    can=frozenset({"folders", "subagents", "tools", "changed_input", "retries"}),
    asks=frozenset({"read", "write", "shell", "network", "mcp"}),
    model_flag="--model",
    folder_flag="--add-dir",
    modes={"agent": f"{_MODE}agent", "plan": f"{_MODE}plan", "ask": f"{_MODE}agent"},
    tools=NAMES,
    notice_prefixes=("Info: ", "Warning: "),
    hides_resources=True,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    stops=True,
)
ENV = {"COPILOT_ALLOW_ALL": "false"}  # overrides a user's setting with which it never asks


class CopilotDialect(AcpDialect):
    def launch(self, spec: SessionSpec) -> Launch:
        argv: list[Word] = [*self.row.command]
        return Launch([*argv, *words(spec)], env=ENV)

    def session(self, spec: SessionSpec) -> Table:
        """Sends no MCP servers: it accepts stdio servers only on its command line."""
        return {"mcpServers": []}

    def tool_name(self, call: Table) -> str:
        """Derives the tool from the kind, title and input, since the name is not sent."""
        input, title, kind = table(call, "rawInput"), text(call, "title"), text(call, "kind")
        match kind:
            case "execute":
                return "bash"
            case "edit" if "file_text" in input:
                return "create"
            case "edit":
                return "edit"
            case "read" if "pattern" in input:
                return "glob" if title.startswith("Finding ") else "grep"
            case "read":
                return "view"
            case "fetch":
                return "web_fetch"
        if "agent_type" in input:
            return "task"
        return "sql" if "query" in input and title != "sql" and "-" not in title else title

    def outcome(self, status: str, call: Table) -> Outcome | None:
        raw = table(call, "rawOutput")
        refused = text(raw, "code") in ("denied", "rejected") or _PLANNING in text(raw, "message")
        return "denied" if status == "failed" and refused else None

    def output(self, call: Table) -> str | None:
        message = text(table(call, "rawOutput"), "content")
        return without_exit(message) if text(call, "kind") == "execute" and message else None

    def failure(self, error: RpcError) -> Failure | None:
        from tillerman.agents.copilot import failures

        message = error.message.removeprefix("Internal error: ")
        data = error.data if isinstance(error.data, dict) else {}
        more = text(data, "message") or text(data, "details")
        if message.lower() == "internal error" and more:
            message = more
        why = failures.failure_of(message, text(data, "errorType"))
        return why if why.kind != "agent_failed" else None


def words(spec: SessionSpec) -> list[Word]:
    """The command-line arguments common to both transports."""
    argv: list[Word] = []
    if spec.model:
        argv.append(f"--model={spec.model}")
    if spec.effort:
        argv.append(f"--reasoning-effort={spec.effort}")
    if spec.tools.servers:
        servers = {name: dict(server) for name, server in spec.tools.servers.items()}
        config = json.dumps({"mcpServers": servers}).encode()
        argv.append(SecretFile("--additional-mcp-config=@", config))
    argv += [f"--add-dir={folder}" for folder in spec.folders]
    argv += [f"--allow-tool={tool}" for tool in spec.tools.allowed]
    argv += [f"--deny-tool={tool}" for tool in spec.tools.denied]
    return argv
