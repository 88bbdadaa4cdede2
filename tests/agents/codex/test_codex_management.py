"""Version, account, models and sessions of Codex, from recorded output of its commands."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tillerman.agents import load
from tillerman.agents.codex import command_output
from tillerman.agents.codex.agent import CodexAgent, CodexExec
from tillerman.agents.commands.runner import CommandRunner
from tillerman.core.agent_admin import Account, Installed, McpServer, McpTool, Model, NativeSession
from tillerman.core.capabilities import capabilities
from tillerman.core.errors import AgentError, AgentNotInstalled
from tillerman.core.events import MessageChunk, Text, ToolFinished, ToolStarted, UserMessage

SIGN_IN = "run `codex login`, or pass a key to `codex login --with-api-key`"
MODELS = {
    "models": [
        {
            "slug": "gpt-6-astra",
            "display_name": "GPT-6-Astra",
            "supported_reasoning_levels": [{"effort": "low"}, {"effort": "ultra"}],
            "visibility": "list",
            "priority": 2,
            "context_window": 272000,
        },
        {
            "slug": "gpt-6.1-sol",
            "display_name": "GPT-6.1-Sol",
            "supported_reasoning_levels": [{"effort": "low"}],
            "visibility": "list",
            "priority": 1,
            "context_window": 272000,
        },
        {"slug": "codex-auto-review", "visibility": "hide", "priority": 43},
    ]
}
SERVERS = [
    {
        "name": "bar",
        "enabled": True,
        "disabled_reason": None,
        "transport": {"type": "streamable_http", "url": "http://127.0.0.1:1/mcp"},
        "auth_status": "not_logged_in",
    },
    {
        "name": "foo",
        "enabled": False,
        "disabled_reason": "user",
        "transport": {"type": "stdio", "command": "/bin/echo", "args": ["hi"], "env": {"A": "b"}},
        "auth_status": "unsupported",
    },
]
TURNS: list[dict[str, Any]] = [
    {
        "items": [
            {"type": "userMessage", "id": "u1", "content": [{"type": "text", "text": "list"}]},
            {
                "type": "commandExecution",
                "id": "c1",
                "command": "/bin/bash -lc ls",
                "status": "completed",
                "aggregatedOutput": "a.txt\n",
                "exitCode": 0,
            },
        ]
    },
    {"items": [{"type": "agentMessage", "id": "m1", "text": "One file."}]},
]
ANSWERS: dict[str, Any] = {
    "initialize": {"userAgent": "tillerman/0.166.0", "codexHome": "/home/user/.codex"},
    "account/read": {
        "account": {"type": "chatgpt", "email": "ann@example.com", "planType": "pro"},
        "requiresOpenaiAuth": True,
    },
    "config/read": {"config": {"model": "gpt-5.5", "model_provider": "openai"}},
    "config/value/write": {"status": "ok"},
    "thread/list": {
        "data": [
            {
                "id": "01a1ddf4-7a78-7b43-85f9-7c49fdd1e81e",
                "preview": "fix  the\nbuild",
                "name": None,
                "updatedAt": 1794725149,
                "cwd": "/proj",
            }
        ]
    },
    "mcpServerStatus/list": {
        "data": [
            {
                "name": "foo",
                "tools": {
                    "echo_it": {
                        "description": "Echo",
                        "inputSchema": {"properties": {"text": {}}},
                    }
                },
                "toolsError": None,
            }
        ]
    },
}
FAKE = """\
#!{python}
import json, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("codex-cli 0.166.0")
elif words == ["debug", "models"]:
    print({models!r})
elif words == ["login", "status"]:
    sys.exit("Not logged in")
elif words == ["mcp", "list", "--json"]:
    print({servers!r})
elif words == ["app-server"]:
    pages = {turns!r}
    for line in sys.stdin:
        message = json.loads(line)
        with open(__file__ + ".log", "a") as log:
            log.write(line)
        if "id" not in message:
            print(json.dumps({{"method": "remoteControl/status/changed", "params": {{}}}}))
            continue
        method, cursor = message["method"], int(message["params"].get("cursor") or 0)
        if method == "thread/turns/list":
            after = str(cursor + 1) if cursor + 1 < len(pages) else None
            result = {{"data": [pages[cursor]], "nextCursor": after}}
        else:
            result = json.loads({answers!r})[method]
        print(json.dumps({{"id": message["id"], "result": result}}), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "codex"
    file.write_text(
        FAKE.format(
            python=sys.executable,
            models=json.dumps(MODELS),
            servers=json.dumps(SERVERS, indent=2),
            turns=TURNS,
            answers=json.dumps(ANSWERS),
        )
    )
    file.chmod(0o755)
    return file


@pytest.fixture
async def run(program: Path, tmp_path: Path) -> AsyncIterator[CommandRunner]:
    async with CommandRunner(
        {"PATH": str(tmp_path), "HOME": str(tmp_path)},
        agent="codex",
        cwd=tmp_path,
        records=tmp_path / "records",
        marker="codex-management",
    ) as agent_commands:
        yield agent_commands


def sent(program: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(f"{program}.log").read_text().splitlines()]


async def test_it_reports_its_version_account_plan_and_models(
    run: CommandRunner, program: Path
) -> None:
    codex, other = CodexAgent(), CodexExec()
    install = "npm install -g @openai/codex"
    assert await codex.installed(run) == Installed("codex", str(program), "0.166.0", install)
    assert await codex.account(run) == Account(True, "browser", "ann@example.com")
    assert await other.account(run) == Account(False, hint=SIGN_IN)
    assert await codex.about(run) == {"plan": "pro", "provider": "openai", "model": "gpt-5.5"}
    assert await codex.models(run) == [
        Model("gpt-6.1-sol", "GPT-6.1-Sol", "openai", True, False, True, ("low",), 272000),
        Model("gpt-6-astra", "GPT-6-Astra", "openai", False, False, True, ("low", "ultra"), 272000),
    ]


async def test_it_lists_its_sessions_and_their_history(run: CommandRunner, program: Path) -> None:
    [session] = await CodexAgent().native_sessions(run, Path("/proj"))
    assert session == NativeSession(
        "01a1ddf4-7a78-7b43-85f9-7c49fdd1e81e", "fix the build", "2026-11-15T06:45:49Z", "/proj"
    )
    assert sent(program)[-1]["params"]["sourceKinds"] == ["cli", "vscode", "exec", "appServer"]
    assert await CodexAgent().native_history(run, session) == [
        UserMessage(text="list", how="imported"),
        ToolStarted(
            call_id="c1",
            tool="Bash",
            name="exec_command",
            title="Bash `ls`",
            input={"command": "ls"},
        ),
        ToolFinished(call_id="c1", outcome="completed", content=(Text("a.txt\n"),)),
        MessageChunk(message_id="m1", text="One file."),
    ]


async def test_servers_are_listed_added_switched_and_removed(
    run: CommandRunner, program: Path
) -> None:
    codex = CodexAgent()
    assert await codex.mcp_servers(run) == [
        McpServer("bar", "needs sign-in", "http://127.0.0.1:1/mcp"),
        McpServer("foo", "disabled", "/bin/echo hi"),
    ]
    assert await codex.mcp_tools(run, "foo") == [McpTool("echo_it", "Echo", ("text",))]
    await codex.mcp_add(run, "new.one", {"command": "npx", "args": ["x"], "env": {"K": "secret"}})
    await codex.mcp_switch(run, "foo", True)
    await codex.mcp_remove(run, "foo")
    edits = [m["params"] for m in sent(program) if m["method"] == "config/value/write"]
    assert [(edit["keyPath"], edit["value"]) for edit in edits] == [
        ('mcp_servers."new.one"', {"command": "npx", "args": ["x"], "env": {"K": "secret"}}),
        ('mcp_servers."foo".enabled', True),
        ('mcp_servers."foo"', None),
    ]


async def test_an_unknown_server_is_named_in_the_error(run: CommandRunner) -> None:
    for change in (
        CodexAgent().mcp_remove(run, "nope"),
        CodexAgent().mcp_switch(run, "nope", False),
    ):
        with pytest.raises(AgentError, match="no MCP server 'nope'") as caught:
            await change
        assert caught.value.hint == "there are: bar, foo"
    with pytest.raises(AgentError, match="no MCP server 'nope'"):
        await CodexAgent().mcp_tools(run, "nope")
    with pytest.raises(AgentError, match="does not accept an MCP server named 'a b'"):
        await CodexAgent().mcp_add(run, "a b", {"command": "x"})


async def test_a_missing_program_is_named_in_the_error(run: CommandRunner, program: Path) -> None:
    program.unlink()
    assert (await CodexAgent().installed(run)).path is None
    with pytest.raises(AgentNotInstalled):
        await CodexAgent().models(run)


@pytest.mark.parametrize(
    ("answer", "account"),
    [
        ({"account": None, "requiresOpenaiAuth": True}, Account(False, hint=SIGN_IN)),
        ({"account": None, "requiresOpenaiAuth": False}, Account(True, "variable")),
        ({"account": {"type": "apiKey"}}, Account(True, "api key")),
        ({"account": {"type": "amazonBedrock"}}, Account(True, "amazonBedrock")),
        ({}, Account(False, hint=SIGN_IN)),
    ],
)
def test_who_is_signed_in(answer: dict[str, Any], account: Account) -> None:
    assert command_output.account(answer) == account


def test_the_login_status_of_exec_is_read_from_its_output() -> None:
    assert command_output.login_status(True, "API key configured - ***\n") == Account(
        True, "api key"
    )
    assert command_output.login_status(True, "Logged in using ChatGPT\n") == Account(
        True, "browser"
    )


def test_unparsable_output_is_an_error_with_its_command() -> None:
    with pytest.raises(AgentError, match="cannot parse the output of `codex debug models`"):
        command_output.models(b"oops")
    with pytest.raises(AgentError, match="cannot parse the output of `codex mcp list`"):
        command_output.mcp_servers(b"oops")
    with pytest.raises(AgentError, match="returned no tools: it died"):
        command_output.mcp_tools({"data": [{"name": "x", "toolsError": "it died"}]}, "x")


def test_capabilities_of_the_two_transports() -> None:
    reported = {"install", "auth", "models", "login", "logout", "servers"}
    more = {"about", "sessions", "history", "server-tools", "server-add", "server-switch"}
    assert reported <= capabilities(load("codex-exec"))
    assert reported | more <= capabilities(load("codex"))
    assert not more & capabilities(load("codex-exec"))
    assert list(load("codex").login()) == ["codex", "login"]  # type: ignore[attr-defined]
    assert list(load("codex").logout()) == ["codex", "logout"]  # type: ignore[attr-defined]
