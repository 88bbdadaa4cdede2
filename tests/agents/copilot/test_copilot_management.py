"""Version, account, models and sessions of Copilot, from recorded output and stored files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.agents.copilot.copilot_playback import RECORDINGS
from tillerman.agents.copilot import command_output, stored_sessions
from tillerman.agents.copilot.agent import agent
from tillerman.agents.stdio.capability_check import refuse
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
from tillerman.core.errors import AgentError, Unsupported
from tillerman.core.events import MessageChunk, ToolFinished, ToolStarted, UserMessage
from tillerman.core.session_options import session_spec

VERSION = "GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.\n"
CONFIG_HELP = """\
Configuration Settings:

  `logLevel`: log level for CLI; defaults to "default". Set to "all" for debug logging.

  `model`: AI model to use for Copilot CLI; can be changed with /model command or --model flag.
    - "claude-sonnet-5.5"
    - "gpt-6-sol"
    - "mai-code-1.1-flash"

  `contextTier`: context window tier for tiered-pricing models (e.g., "default" or "long_context").
    - Can also be set with --context flag (overrides persisted setting)
"""
SERVERS = {
    "mcpServers": {
        "probe": {
            "tools": ["*"], "type": "local", "command": "python3", "args": ["-c", "pass"],
            "env": {"A": "b"}, "source": "user", "enabled": True,
        },
        "web": {
            "tools": ["*"], "type": "http", "url": "http://127.0.0.1:9/x",
            "headers": {"X": "y"}, "source": "user", "enabled": False,
        },
    }
}  # fmt: skip
CONFIG = """\
// User settings belong in settings.json.
// This file is managed automatically.
{
  "firstLaunchAt": "2026-11-15T12:07:38.683Z",
  "lastLoggedInUser": {"host": "https://github.com", "login": "octo"}
}
"""


class Printed:
    """Runs its commands: the output of each is given."""

    def __init__(self, variables: Mapping[str, str], **outputs: str) -> None:
        self._variables = variables
        self._outputs = {words.replace("_", " "): reported for words, reported in outputs.items()}
        self.ran: list[list[str]] = []

    def find(self, binary: str) -> str | None:
        return f"/bin/{binary}"

    def variable(self, name: str) -> str | None:
        return self._variables.get(name)

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
            return CommandResult(Exit(1, None), b"", b'Error: Server "web" not found.\n')
        return CommandResult(Exit(0, None), reported.encode(), b"")

    async def dialog(
        self,
        argv: Sequence[Word],
        dialog: Dialog[object],
        *,
        env: Mapping[str, str] = {},
        limit: float = 20,
    ) -> object:
        raise NotImplementedError


def test_capabilities_are_derived_from_methods() -> None:
    assert capabilities(agent) - agent.info.can == {
        "install", "auth", "models", "login", "sessions", "history", "servers", "server-add",
        "server-switch",
    }  # fmt: skip
    assert agent.login() == ["copilot", "login"]


async def test_where_it_is_installed() -> None:
    assert await agent.installed(Printed({}, version=VERSION)) == Installed(
        "copilot", "/bin/copilot", "1.0.102", "npm install -g @github/copilot"
    )


async def test_models_are_those_of_its_help() -> None:
    assert await agent.models(Printed({}, help_config=CONFIG_HELP)) == [
        Model("claude-sonnet-5.5", "claude-sonnet-5.5", "anthropic"),
        Model("gpt-6-sol", "gpt-6-sol", "openai"),
        Model("mai-code-1.1-flash", "mai-code-1.1-flash"),
    ]
    with pytest.raises(AgentError, match="listed no models"):
        command_output.models(b"something else")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:1/v1", "GH_TOKEN": "t"},
            Account(True, "variable", "http://127.0.0.1:1/v1"),
        ),
        ({"GITHUB_TOKEN": "t", "GH_TOKEN": "t"}, Account(True, "variable", "GH_TOKEN")),
        ({}, Account(True, "browser", "octo")),
    ],
)
async def test_who_is_signed_in(
    tmp_path: Path, variables: dict[str, str], expected: Account
) -> None:
    (tmp_path / "config.json").write_text(CONFIG)
    run = Printed({"COPILOT_HOME": str(tmp_path), **variables})
    assert await agent.account(run) == expected


@pytest.mark.parametrize("config", [None, "", "[]", '// {}\n{"firstLaunchAt": 1}'])
async def test_no_account_is_signed_in(tmp_path: Path, config: str | None) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    found = await agent.account(Printed({"COPILOT_HOME": str(tmp_path)}))
    assert (found.signed_in, "copilot login" in found.hint) == (False, True)


async def test_servers_are_listed_with_their_state() -> None:
    run = Printed({}, mcp_list_json=json.dumps(SERVERS, indent=2))
    assert await agent.mcp_servers(run) == [
        McpServer("probe", "enabled", "python3 -c pass"),
        McpServer("web", "disabled", "http://127.0.0.1:9/x"),
    ]
    with pytest.raises(AgentError, match="mcp list"):
        command_output.servers(b"oops")


async def test_a_server_is_added_in_its_file_where_no_command_line_shows_its_secrets(
    tmp_path: Path,
) -> None:
    run = Printed({"COPILOT_HOME": str(tmp_path)})
    await agent.mcp_add(run, "echo", {"command": "echoer", "env": {"KEY": "v"}})
    await agent.mcp_add(run, "web", {"url": "http://w"})
    assert json.loads((tmp_path / "mcp-config.json").read_text()) == {
        "mcpServers": {
            "echo": {"tools": ["*"], "type": "local", "command": "echoer", "env": {"KEY": "v"}},
            "web": {"tools": ["*"], "type": "http", "url": "http://w"},
        }
    }
    assert run.ran == []


async def test_servers_are_removed_and_switched_by_its_own_commands() -> None:
    run = Printed({}, **{"mcp_disable_ web": "", "mcp_enable_ web": ""})
    await agent.mcp_switch(run, "web", False)
    await agent.mcp_switch(run, "web", True)
    with pytest.raises(AgentError, match='Server "web" not found'):
        await agent.mcp_remove(run, "web")
    assert run.ran == [
        ["mcp", "disable", "--", "web"],
        ["mcp", "enable", "--", "web"],
        ["mcp", "remove", "--", "web"],
    ]


def test_the_history_of_a_session_is_read_from_its_own_log(tmp_path: Path) -> None:
    session = NativeSession("ea8ed5fa-0c94-407a-b6ce-c15a88e1dbf1", "T", "", "/proj")
    folder = tmp_path / "session-state" / session.native_id
    folder.mkdir(parents=True)
    log = (RECORDINGS / "session_events.jsonl").read_bytes()
    (folder / "events.jsonl").write_bytes(log + b"{ cut off")
    user, call, inner, end, last = stored_sessions.history(tmp_path, session)
    assert user == UserMessage(text="@@task@@", how="imported")
    assert isinstance(call, ToolStarted)
    assert isinstance(inner, MessageChunk)
    assert isinstance(end, ToolFinished)
    assert isinstance(last, MessageChunk)
    assert (call.tool, inner.text, inner.parent) == ("Task", "Hello there.", call.call_id)
    assert (end.outcome, last.text, last.parent) == ("completed", "Sub done.", None)


@pytest.mark.parametrize("id", ["gone", "../../etc"])
def test_a_missing_session_is_an_error(tmp_path: Path, id: str) -> None:
    with pytest.raises(AgentError, match="has no session"):
        stored_sessions.history(tmp_path, NativeSession(id, "", ""))


# -- why its last answer ended ---------------------------------------------------------------------


def _answer(reason: str | None, **more: str) -> list[dict[str, object]]:
    used = {"usage": {"outputTokens": 20} | ({"finishReason": reason} if reason else {})}
    return [
        {"type": "assistant.turn_start", "data": {}, **more},
        {"type": "session.usage_record", "data": used, **more},
        {"type": "assistant.message", "data": {"content": "x"}, **more},
        {"type": "assistant.turn_end", "data": {}, **more},
    ]


ASKED = {"type": "user.message", "data": {"content": "go"}}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([ASKED, *_answer("length")], "length"),
        ([ASKED, *_answer("content_filter"), ASKED, *_answer("stop")], "stop"),
        ([ASKED, *_answer("length"), *_answer("stop")], "stop"),
        ([ASKED, *_answer("stop"), *_answer("length", agentId="a1")], "stop"),
        ([ASKED, *_answer(None)], ""),
        ([ASKED, *_answer("stop"), *_answer("length")[:-1]], None),
        ([ASKED, *_answer("length"), ASKED], None),
        ([], None),
    ],
)
def test_the_reason_of_the_last_answer_is_read_once_it_has_ended(
    tmp_path: Path, events: list[dict[str, object]], reason: str | None
) -> None:
    file = tmp_path / "session-state" / "s1" / "events.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert stored_sessions.finish_reason(tmp_path, "s1") == reason


def test_the_reason_is_at_the_end_of_a_session_file_of_any_size(tmp_path: Path) -> None:
    file = tmp_path / "session-state" / "s1" / "events.jsonl"
    file.parent.mkdir(parents=True)
    long = {"type": "tool.execution_complete", "data": {"text": "x" * 3_000_000}}
    events = [ASKED, *_answer("stop"), long, *_answer("length")]
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert stored_sessions.finish_reason(tmp_path, "s1") == "length"


@pytest.mark.parametrize("session", ["gone", "../s1", ""])
def test_the_reason_of_an_answer_without_a_session_file_is_unknown(
    tmp_path: Path, session: str
) -> None:
    assert stored_sessions.finish_reason(tmp_path, session) == ""


def test_an_unknown_effort_is_refused_before_it_starts(tmp_path: Path) -> None:
    refuse(agent.info, session_spec(cwd=tmp_path, effort="high"))
    with pytest.raises(Unsupported, match="an effort of 'strange'"):
        refuse(agent.info, session_spec(cwd=tmp_path, effort="strange"))
