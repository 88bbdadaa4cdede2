"""Version, account, models and sessions of OpenCode, from recorded output of its commands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.agents.opencode.opencode_playback import RECORDINGS
from tillerman.agents.opencode import command_output, mcp_settings
from tillerman.agents.opencode.agent import agent
from tillerman.core.agent import Exit, Word
from tillerman.core.agent_admin import (
    Account,
    CommandResult,
    Dialog,
    Installed,
    McpServer,
    Model,
    NativeSession,
)
from tillerman.core.capabilities import capabilities
from tillerman.core.errors import AgentError
from tillerman.core.events import (
    MessageChunk,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UserMessage,
)

NOBODY = """\
\x1b[0m
┌  Credentials \x1b[90m~/.local/share/opencode/auth.json
│
└  0 credentials

"""
SOMEBODY = """\
\x1b[0m
┌  Credentials \x1b[90m~/.local/share/opencode/auth.json
│
●  Anthropic \x1b[90mapi
│
●  GitHub Copilot \x1b[90moauth
│
└  2 credentials

┌  Environment
│
●  OpenAI \x1b[90mOPENAI_API_KEY
│
└  1 environment variable

"""
VARIABLE = NOBODY + SOMEBODY[SOMEBODY.index("┌  Environment") :]
MODELS = "opencode/big-pickle\nopencode/longcat-2.5-preview-free\nscripted/scripted\n"
VERBOSE = """\
openai/gpt-5
{
  "id": "gpt-5",
  "providerID": "openai",
  "name": "GPT-5",
  "cost": {
    "input": 1.25
  },
  "limit": {
    "context": 400000,
    "output": 128000
  },
  "capabilities": {
    "reasoning": true,
    "attachment": true
  },
  "variants": {
    "low": {
      "reasoningEffort": "low"
    },
    "high": {
      "reasoningEffort": "high"
    }
  }
}
openai/gpt-4.1
{
  "id": "gpt-4.1",
  "name": "GPT-4.1",
  "limit": {
    "context": 0
  },
  "capabilities": {
    "reasoning": false
  },
  "variants": {}
}
"""
SERVERS = """\
\x1b[0m
┌  MCP Servers
│
●  ✗ probe \x1b[90mfailed
│      MCP error -32000: Connection closed
│      \x1b[90mpython3 -c pass
│
●  ✓ web search \x1b[90mconnected
│      \x1b[90mhttp://127.0.0.1:9/x
│
●  ○ off \x1b[90mdisabled
│      \x1b[90mnpx thing
│
└  3 server(s)

"""


class Printed:
    """Runs its commands: the output of each is given."""

    def __init__(self, home: Path, **outputs: str) -> None:
        self._home = home
        self._outputs = {words.replace("_", " "): reported for words, reported in outputs.items()}
        self.ran: list[list[str]] = []

    def find(self, binary: str) -> str | None:
        return f"/bin/{binary}"

    def variable(self, name: str) -> str | None:
        return str(self._home) if name == "HOME" else None

    async def __call__(
        self,
        argv: Sequence[Word],
        *,
        env: Mapping[str, str] = {},
        input: bytes = b"",
        limit: float = 20,
    ) -> CommandResult:
        words = [str(word) for word in argv[1:]]
        self.ran.append(words)
        reported = self._outputs.get(" ".join(words).replace("--", ""))
        if reported is None:
            return CommandResult(Exit(1, None), b"", b"Error: no such command")
        return CommandResult(Exit(0, None), reported.encode(), b"")

    async def dialog(
        self,
        argv: Sequence[Word],
        dialog: Dialog[object],
        *,
        env: Mapping[str, str] = {},
        limit: float = 20,
    ) -> object:
        """An ACP agent with two sessions, on two pages."""
        self.ran.append([str(word) for word in argv])
        reported = next(dialog)
        while True:
            request = json.loads(reported)
            result: dict[str, object] = {"protocolVersion": 1}
            if request["method"] == "session/list":
                page = request["params"].get("cursor", "")
                cwd = request["params"]["cwd"]
                one = {"sessionId": f"s{page}", "cwd": cwd, "title": "T", "updatedAt": f"2{page}"}
                result = {"sessions": [one], "nextCursor": "" if page else "1"}
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            try:
                reported = dialog.send(json.dumps(answer).encode())
            except StopIteration as end:
                return end.value


def test_capabilities_are_derived_from_methods() -> None:
    assert capabilities(agent) - agent.info.can == {
        "install", "auth", "models", "login", "logout", "sessions", "history", "servers",
        "server-add", "server-switch",
    }  # fmt: skip
    assert agent.login() == ["opencode", "auth", "login"]
    assert agent.logout() == ["opencode", "auth", "logout"]


async def test_where_it_is_installed(tmp_path: Path) -> None:
    assert await agent.installed(Printed(tmp_path, version="1.18.33\n")) == Installed(
        "opencode", "/bin/opencode", "1.18.33", "npm install -g opencode-ai"
    )


def test_who_is_signed_in() -> None:
    assert command_output.account(SOMEBODY.encode()) == Account(
        signed_in=True, method="api key", who="Anthropic, GitHub Copilot, OpenAI"
    )
    assert command_output.account(VARIABLE.encode()) == Account(
        signed_in=True, method="variable", who="OpenAI"
    )
    assert command_output.account(NOBODY.encode()).signed_in is False


async def test_a_provider_in_the_config_needs_no_account(tmp_path: Path) -> None:
    run = Printed(tmp_path, auth_list=NOBODY, models=MODELS)
    assert await agent.account(run) == Account(signed_in=True, method="config", who="scripted")
    free = Printed(tmp_path, auth_list=NOBODY, models=MODELS.replace("scripted", "opencode"))
    nobody = await agent.account(free)
    assert (nobody.signed_in, "opencode auth login" in nobody.hint) == (False, True)


def test_models_are_listed_with_their_capabilities() -> None:
    assert command_output.models(VERBOSE.encode()) == [
        Model(
            "openai/gpt-5", "GPT-5", "openai", thinking=True, efforts=("low", "high"),
            context=400_000,
        ),
        Model("openai/gpt-4.1", "GPT-4.1", "openai"),
    ]  # fmt: skip
    with pytest.raises(AgentError, match="listed no models"):
        command_output.models(b"Error: Unexpected error\n")


def test_servers_are_listed_with_their_state_and_command() -> None:
    assert command_output.servers(SERVERS.encode()) == [
        McpServer("probe", "failed", "python3 -c pass"),
        McpServer("web search", "connected", "http://127.0.0.1:9/x"),
        McpServer("off", "disabled", "npx thing"),
    ]


async def test_its_sessions_are_listed_without_opening_one(tmp_path: Path) -> None:
    run = Printed(tmp_path)
    assert await agent.native_sessions(run, Path("/proj")) == [
        NativeSession("s1", "T", "21", "/proj"),
        NativeSession("s", "T", "2", "/proj"),
    ]
    assert run.ran == [["/bin/opencode", "acp"]]


def test_the_history_of_a_session_is_its_export() -> None:
    exported = (RECORDINGS / "export.json").read_bytes()
    user, thought, words, call, end, last = command_output.history(exported, "/proj")
    assert user == UserMessage(text="@@hello@@", how="imported")
    assert isinstance(thought, ThoughtChunk)
    assert isinstance(words, MessageChunk)
    assert isinstance(last, MessageChunk)
    assert (thought.text, words.text, last.text) == ("Hmm.", "Hello there.", "Done.")
    assert isinstance(call, ToolStarted)
    assert isinstance(end, ToolFinished)
    assert (call.title, end.content) == ("Bash `echo hi`", (Text("hi\n"),))
    with pytest.raises(AgentError, match="opencode export"):
        command_output.history(b"Session not found", "/proj")


def test_a_server_is_added_removed_and_switched_in_the_users_file(tmp_path: Path) -> None:
    def home(name: str) -> str | None:
        return str(tmp_path) if name == "HOME" else None

    mcp_settings.add(home, "echo", {"command": "echoer", "args": ["-x"], "env": {"KEY": "v"}})
    mcp_settings.add(home, "web", {"type": "http", "url": "http://w", "headers": {"A": "b"}})
    mcp_settings.switch(home, "web", False)
    file = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    assert json.loads(file.read_text()) == {
        "mcp": {
            "echo": {"type": "local", "command": ["echoer", "-x"], "environment": {"KEY": "v"}},
            "web": {"type": "remote", "url": "http://w", "headers": {"A": "b"}, "enabled": False},
        }
    }
    mcp_settings.remove(home, "echo")
    assert list(json.loads(file.read_text())["mcp"]) == ["web"]
    with pytest.raises(AgentError, match="has no MCP server 'echo'") as caught:
        mcp_settings.remove(home, "echo")
    assert caught.value.hint == "it has: web"


def test_an_existing_file_is_changed_and_keeps_the_rest(tmp_path: Path) -> None:
    config = tmp_path / "opencode"
    config.mkdir()
    file = config / "opencode.json"
    file.write_text('{"model": "p/m"}')
    mcp_settings.add(
        lambda name: str(tmp_path) if name == "XDG_CONFIG_HOME" else None, "e", {"command": "x"}
    )
    assert json.loads(file.read_text()) == {
        "model": "p/m",
        "mcp": {"e": {"type": "local", "command": ["x"]}},
    }


def test_a_file_with_comments_is_left_unchanged(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{ // mine\n  "model": "p/m" }')
    with pytest.raises(AgentError, match="would lose its comments"):
        mcp_settings.add(
            lambda name: str(tmp_path) if name == "HOME" else None, "e", {"command": "x"}
        )
    assert "// mine" in file.read_text()
