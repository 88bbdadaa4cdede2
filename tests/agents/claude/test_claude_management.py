"""Version, account, models and sessions of Claude Code, from recorded output of its commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agents.claude.claude_playback import RECORDINGS, lines
from tillerman.agents import load
from tillerman.agents.claude.agent import ClaudeCode, account, asked, mcp_servers, mcp_tools
from tillerman.agents.claude.stored_sessions import history
from tillerman.agents.commands.runner import CommandRunner
from tillerman.core.agent_admin import Account, Installed, McpServer, McpTool, Model
from tillerman.core.capabilities import capabilities
from tillerman.core.errors import AgentError, AgentNotInstalled
from tillerman.core.events import (
    Diff,
    MessageChunk,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UserMessage,
)

MCP_LIST = """\
Checking MCP server health…

probe: /usr/bin/python3 -c pass - x - ✔ Connected
web: http://127.0.0.1:9/x (HTTP) - ✘ Failed to connect — ECONNREFUSED: Unable to connect.
new: npx thing - ⏸ Pending approval
"""

MCP_STATUS = [
    {"name": "web", "status": "failed"},
    {"name": "probe", "status": "connected", "tools": [{"name": "shout", "annotations": {}}]},
]

FAKE = f"""\
#!{sys.executable}
import json, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("2.1.325 (Claude Code)")
elif words == ["auth", "status"]:
    print(json.dumps({{"loggedIn": False, "authMethod": "none"}}, indent=2))
    sys.exit(1)
elif words[:2] == ["mcp", "list"]:
    print({MCP_LIST!r})
elif words[:2] == ["mcp", "add-json"]:
    with open(__file__ + ".log", "a") as log:
        print(json.dumps(words), file=log)
elif words[:2] == ["mcp", "remove"]:
    sys.exit('No MCP server named "probe". Configured servers: web')
elif "--input-format=stream-json" in words:
    def answer(response):
        response = {{"subtype": "success", "request_id": "tillerman", "response": response}}
        print(json.dumps({{"type": "control_response", "response": response}}), flush=True)
    assert json.loads(sys.stdin.readline())["request"]["subtype"] == "initialize"
    print(open(__file__ + ".initialize").read(), flush=True)
    assert json.loads(sys.stdin.readline())["request"] == {{
        "subtype": "mcp_reconnect", "serverName": "probe"}}
    print(json.dumps({{"type": "system", "subtype": "x"}}))
    answer({{}})
    assert json.loads(sys.stdin.readline())["request"]["subtype"] == "mcp_status"
    answer({{"mcpServers": {MCP_STATUS!r}}})
    sys.stdin.read()
"""


def agent_commands(folder: Path) -> CommandRunner:
    environment = {"PATH": str(folder), "CLAUDE_CONFIG_DIR": str(folder / "config")}
    return CommandRunner(environment, agent="claude", cwd=folder, records=folder / "r", marker="m")


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[CommandRunner]:
    fake = tmp_path / "claude"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    messages = lines(RECORDINGS / "2.1.325" / "control_misc")
    answer = next(one["msg"] for one in messages if one["dir"] == "in")
    (tmp_path / "claude.initialize").write_text(json.dumps(answer))
    async with agent_commands(tmp_path) as running:
        yield running


@pytest.fixture
def claude() -> ClaudeCode:
    return ClaudeCode()


def test_the_entry_point_gives_an_agent_with_every_capability() -> None:
    agent = load("claude")
    assert agent.info.name == "claude"
    reported = {
        "install", "auth", "about", "models", "login", "logout", "sessions", "history",
        "servers", "server-add", "server-tools",
    }  # fmt: skip
    assert capabilities(agent) == agent.info.can | reported


async def test_where_it_is_installed(
    claude: ClaudeCode, run: CommandRunner, tmp_path: Path
) -> None:
    command = "npm install -g @anthropic-ai/claude-code"
    path = str(tmp_path / "claude")
    assert await claude.installed(run) == Installed("claude", path, "2.1.325", command)
    nowhere = agent_commands(tmp_path / "nowhere")
    assert await claude.installed(nowhere) == Installed("claude", None, None, command)


async def test_an_action_that_needs_the_program_reports_how_to_install_it(
    claude: ClaudeCode, tmp_path: Path
) -> None:
    with pytest.raises(AgentNotInstalled) as caught:
        await claude.models(agent_commands(tmp_path / "nowhere"))
    assert caught.value.hint == "npm install -g @anthropic-ai/claude-code"


async def test_no_account_is_signed_in(claude: ClaudeCode, run: CommandRunner) -> None:
    hint = "run `claude auth login` or set ANTHROPIC_API_KEY"
    assert await claude.account(run) == Account(signed_in=False, hint=hint)


@pytest.mark.parametrize(
    ("said", "method", "who"),
    [
        (
            {"authMethod": "api_key", "apiKeySource": "ANTHROPIC_API_KEY"},
            "variable",
            "ANTHROPIC_API_KEY",
        ),
        ({"authMethod": "claude.ai", "email": "a@example.org"}, "browser", "a@example.org"),
        ({"authMethod": "oauth_token"}, "token", None),
        ({"authMethod": "api_key", "apiKeySource": "/login managed key"}, "api key", None),
    ],
)
def test_who_is_signed_in(said: dict[str, str], method: str, who: str | None) -> None:
    status = json.dumps({"loggedIn": True, **said}).encode()
    assert account(status) == Account(signed_in=True, method=method, who=who)


def test_an_unreadable_status_is_an_error() -> None:
    with pytest.raises(AgentError, match="auth status"):
        account(b"Segmentation fault")


async def test_the_models_come_from_the_handshake(claude: ClaudeCode, run: CommandRunner) -> None:
    models = await claude.models(run)
    assert [model.id for model in models] == ["default", "opus", "fable", "sonnet", "haiku"]
    assert models[0] == Model(
        id="default",
        title="Default (recommended)",
        provider="anthropic",
        default=True,
        thinking=True,
        efforts=("low", "medium", "high", "xhigh", "max"),
    )


def test_servers_are_listed_with_their_state() -> None:
    assert mcp_servers(MCP_LIST.encode()) == [
        McpServer("probe", "connected", "/usr/bin/python3 -c pass - x"),
        McpServer("web", "failed to connect", "http://127.0.0.1:9/x (HTTP)"),
        McpServer("new", "pending approval", "npx thing"),
    ]


async def test_the_tools_of_a_server_that_is_connected(
    claude: ClaudeCode, run: CommandRunner
) -> None:
    assert await claude.mcp_tools(run, "probe") == [McpTool("shout")]
    for name, why in {"web": "'web' is failed", "other": "has no MCP server 'other'"}.items():
        with pytest.raises(AgentError, match=why):
            mcp_tools({"mcpServers": MCP_STATUS}, name)


def test_a_refusal_is_an_error_with_the_agents_message() -> None:
    dialog = asked({"subtype": "mcp_reconnect"})
    next(dialog)
    assert dialog.send(b"a line that is no answer") == b""
    refusal = {"subtype": "error", "request_id": "tillerman", "error": "Server not found: x"}
    with pytest.raises(AgentError, match="refused 'mcp_reconnect': Server not found: x"):
        dialog.send(json.dumps({"type": "control_response", "response": refusal}).encode())


async def test_a_program_that_exits_before_its_answer_is_an_error_with_its_last_output(
    claude: ClaudeCode, run: CommandRunner, tmp_path: Path
) -> None:
    (tmp_path / "claude").write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
    with pytest.raises(AgentError, match="`claude` exited before it answered: no licence"):
        await claude.models(run)


async def test_the_agent_reports_its_version_and_account(
    claude: ClaudeCode, run: CommandRunner
) -> None:
    assert await claude.about(run) == {"provider": "firstParty", "key": "ANTHROPIC_API_KEY"}


async def test_a_server_is_added_for_the_user(
    claude: ClaudeCode, run: CommandRunner, tmp_path: Path
) -> None:
    await claude.mcp_add(run, "-x", {"command": "y"})
    added = json.loads((tmp_path / "claude.log").read_text())
    assert added == ["mcp", "add-json", "--scope=user", "--", "-x", '{"command": "y"}']


async def test_a_refusal_of_the_program_is_an_error_with_its_message(
    claude: ClaudeCode, run: CommandRunner
) -> None:
    with pytest.raises(AgentError, match='No MCP server named "probe"'):
        await claude.mcp_remove(run, "probe")


async def test_stored_sessions_are_listed_newest_first(
    claude: ClaudeCode, run: CommandRunner, tmp_path: Path
) -> None:
    cwd = tmp_path / "my_proj"
    slug = "".join(c if c.isalnum() else "-" for c in str(cwd))
    folder = tmp_path / "config" / "projects" / slug
    folder.mkdir(parents=True)
    prompt = {"type": "user", "message": {"role": "user", "content": "Fix  the\nbug"}}
    meta = {"type": "user", "isMeta": True, "message": {"content": "not the user"}}
    _store(folder / "old.jsonl", 1, meta, prompt)
    _store(folder / "new.jsonl", 2, prompt, {"type": "x" * 200_000}, {"customTitle": "A title"})
    _store(folder / "empty.jsonl", 3, {"type": "mode"})
    (folder / "broken.jsonl").write_bytes(b"\xff\xff\n{")
    found = await claude.native_sessions(run, cwd)
    assert [(each.native_id, each.title, each.updated) for each in found] == [
        ("new", "A title", "1970-01-01T00:00:02Z"),
        ("old", "Fix the bug", "1970-01-01T00:00:01Z"),
    ]


def test_messages_and_calls_of_a_stored_session() -> None:
    with (RECORDINGS / "stored_session.jsonl").open("rb") as stored:
        reported = list(history([*stored, b"\xff no line of it\n"], "/project"))
    new = "/project/new.txt"
    assert reported == [
        UserMessage(text="@@keep@@ this one", how="imported"),
        ThoughtChunk(message_id="msg_0001", text="Hm."),
        MessageChunk(message_id="msg_0001", text="First."),
        ToolStarted(
            call_id="toolu_w", tool="Write", name="Write", title="Write `new.txt`",
            input={"file_path": new, "content": "x\n"}, paths=(new,),
        ),
        ToolFinished(call_id="toolu_w", outcome="completed", content=(Diff(new, new="x\n"),)),
        ToolStarted(
            call_id="toolu_b", tool="Bash", name="Bash", title="Bash `ls; exit 3`",
            input={"command": "ls; exit 3", "description": "fail"},
        ),
        ToolFinished(
            call_id="toolu_b", outcome="failed", content=(Text("Exit code 3\nnew.txt"),)
        ),
        MessageChunk(message_id="msg_0003", text="Kept."),
    ]  # fmt: skip


def test_a_call_without_a_result_was_cancelled() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    line = {"type": "assistant", "message": {"id": "m", "content": [block]}}
    *_, last = history([json.dumps(line).encode()], "/")
    assert last == ToolFinished(call_id="t1", outcome="cancelled")


def _store(file: Path, stamp: int, *stored: object) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in stored))
    os.utime(file, (stamp, stamp))
