"""The output of Cursor's commands is parsed, as recorded and from the stand-in."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agents.cursor.cursor_playback import case
from tests.stand_ins.cursor_stand_in import install_cursor
from tillerman.agents.commands.runner import CommandRunner
from tillerman.agents.cursor import command_output, stored_sessions
from tillerman.agents.cursor.agent import Cursor
from tillerman.core.agent_admin import Account, Installed, McpServer, McpTool, Model, NativeSession
from tillerman.core.capabilities import capabilities
from tillerman.core.errors import AgentError, AgentNotInstalled
from tillerman.core.events import MessageChunk, ToolFinished, ToolStarted, UserMessage

SIGN_IN = "run `cursor-agent login` or set CURSOR_API_KEY"


def recorded(name: str, file: str = "commands.jsonl") -> bytes:
    return str(case(file, name)["stdout"]).encode()


# -- as recorded -----------------------------------------------------------------------------------


def test_who_is_signed_in() -> None:
    signed_in = Account(signed_in=True, method="browser", who="dev@example.com")
    assert command_output.account(recorded("status json"), key=False) == signed_in
    nobody = recorded("status json, not signed in", "auth_error.jsonl")
    assert command_output.account(nobody, key=False) == Account(signed_in=False, hint=SIGN_IN)
    assert command_output.account(nobody, key=True) == Account(signed_in=True, method="variable")
    with pytest.raises(AgentError, match="cannot parse the output of"):
        command_output.account(recorded("status"), key=False)


def test_its_plan() -> None:
    assert command_output.about(recorded("about json")) == {
        "plan": "Pro",
        "model": "Auto",
        "version": "2026.09.28-a1b2c3d",
    }


@pytest.mark.parametrize("command", ["models", "list-models"])
def test_its_models(command: str) -> None:
    models = command_output.models(recorded(command))
    assert len(models) == 10
    assert models[:2] == [
        Model("auto", "Auto", provider="cursor", current=True),
        Model("composer-2.5", "Composer 2.5", provider="cursor", default=True),
    ]
    assert models[4] == Model(
        "claude-opus-4-8-thinking-max",
        "Opus 4.8 1M Max Thinking",
        provider="anthropic",
        thinking=True,
    )
    assert models[5].title == "Fable 5 High (NO ZDR)"


def test_a_new_chat() -> None:
    assert command_output.chat(recorded("create-chat")) == "3b7c621d-f306-4a54-81c7-aa5aada53618"
    with pytest.raises(AgentError, match="returned no id"):
        command_output.chat(b"")


def test_its_servers() -> None:
    listed = [
        McpServer("issues", "ready"),
        McpServer("docs", "needs approval"),
        McpServer("old", "disabled"),
        McpServer("weird: name", "needs approval"),
        McpServer("broken", "Connection failed"),
    ]
    assert command_output.mcp_servers(recorded("mcp list")) == listed
    coloured = recorded("mcp list").replace(
        b"issues: ready", b"\x1b[90m\xe2\x97\x8b issues\x1b[0m: ready"
    )
    assert command_output.mcp_servers(coloured) == listed
    assert command_output.mcp_servers(recorded("mcp list, none")) == []


def test_the_tools_of_a_server() -> None:
    assert command_output.mcp_tools(recorded("mcp list-tools")) == [
        McpTool("list", arguments=("state", "limit")),
        McpTool("get", arguments=("id",)),
        McpTool("whoami"),
    ]


def test_a_missing_store_has_no_conversations(tmp_path: Path) -> None:
    assert not stored_sessions.lacks(tmp_path, "x")
    (tmp_path / "chats" / "abc" / "y").mkdir(parents=True)
    assert stored_sessions.lacks(tmp_path, "x")
    assert not stored_sessions.lacks(tmp_path, "y")


# -- from the stand-in -----------------------------------------------------------------------------


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[CommandRunner]:
    install_cursor(tmp_path / "bin", tmp_path)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path)}
    async with CommandRunner(
        environment, cwd=tmp_path, records=tmp_path / "records", marker="cursor"
    ) as agent_commands:
        yield agent_commands


async def test_the_reported_version_and_account(run: CommandRunner, tmp_path: Path) -> None:
    cursor = Cursor()
    assert await cursor.installed(run) == Installed(
        "cursor-agent",
        str(tmp_path / "bin" / "cursor-agent"),
        "2026.09.28-a1b2c3d",
        cursor.info.install,
    )
    assert (await cursor.account(run)).who == "dev@example.com"
    assert (await cursor.about(run))["plan"] == "Pro"
    assert len(await cursor.models(run)) == 10
    assert (cursor.login(), cursor.logout()) == (
        ["cursor-agent", "login"],
        ["cursor-agent", "logout"],
    )


async def test_signed_out_is_an_error_only_for_the_models(
    run: CommandRunner, tmp_path: Path
) -> None:
    assert (await run([str(tmp_path / "bin" / "cursor-agent"), "logout"])).exit.clean
    assert await Cursor().account(run) == Account(signed_in=False, hint=SIGN_IN)
    with pytest.raises(AgentError, match="Authentication required") as caught:
        await Cursor().models(run)
    assert caught.value.hint == SIGN_IN


async def test_servers_are_listed_and_switched(run: CommandRunner, tmp_path: Path) -> None:
    cursor = Cursor()
    assert await cursor.mcp_servers(run) == []
    servers = {"issues": {"command": "x", "tools": {"list": ["state"]}}}
    (tmp_path / ".cursor").mkdir(exist_ok=True)
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert await cursor.mcp_servers(run) == [McpServer("issues", "ready")]
    assert await cursor.mcp_tools(run, "issues") == [McpTool("list", arguments=("state",))]
    await cursor.mcp_switch(run, "issues", False)
    assert await cursor.mcp_servers(run) == [McpServer("issues", "disabled")]
    await cursor.mcp_switch(run, "issues", True)
    assert await cursor.mcp_servers(run) == [McpServer("issues", "ready")]
    with pytest.raises(AgentError, match="MCP server not found: nobody"):
        await cursor.mcp_switch(run, "nobody", True)


async def test_servers_are_added_and_removed_in_the_users_file(
    run: CommandRunner, tmp_path: Path
) -> None:
    cursor = Cursor()
    await cursor.mcp_add(run, "issues", {"command": "x", "args": ["y"], "env": {}})
    await cursor.mcp_add(run, "docs", {"type": "http", "url": "https://example.com/mcp"})
    assert await cursor.mcp_servers(run) == [
        McpServer("issues", "ready"),
        McpServer("docs", "ready"),
    ]
    await cursor.mcp_remove(run, "issues")
    servers = json.loads((tmp_path / ".cursor" / "mcp.json").read_text())
    assert servers == {"mcpServers": {"docs": {"url": "https://example.com/mcp"}}}
    with pytest.raises(AgentError, match="has no MCP server 'issues'"):
        await cursor.mcp_remove(run, "issues")


async def test_conversations_are_created_and_found_by_their_folder(
    run: CommandRunner, tmp_path: Path
) -> None:
    cursor = Cursor()
    program = str(tmp_path / "bin" / "cursor-agent")
    chat = await cursor.create_session(run, tmp_path)
    assert await cursor.native_sessions(run, tmp_path) == []
    turn = [program, "-p", "--trust", "--model=auto", f"--resume={chat}"]
    assert (await run(turn, input=b"Say  hello\nto all")).exit.clean
    (session,) = await cursor.native_sessions(run, tmp_path)
    assert session == NativeSession(chat, "Say hello to all", session.updated, str(tmp_path))
    assert await cursor.native_sessions(run, tmp_path / "elsewhere") == []


async def test_messages_and_calls_of_a_conversation(run: CommandRunner, tmp_path: Path) -> None:
    cursor = Cursor()
    program = str(tmp_path / "bin" / "cursor-agent")
    assert (await run([program, "-p", "--trust", "--model=auto"], input=b"hello")).exit.clean
    (session,) = await cursor.native_sessions(run, tmp_path)
    (file,) = tmp_path.glob(".cursor/projects/*/agent-transcripts/*/*.jsonl")
    shell = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
    parsed = {"role": "assistant", "message": {"content": [{"type": "text", "text": "So."}, shell]}}
    with file.open("a") as transcript:
        transcript.write(json.dumps(parsed) + "\n" + json.dumps({"type": "turn_ended"}) + "\n")
    assert await cursor.native_history(run, session) == [
        UserMessage(text="hello", how="imported"),
        MessageChunk(message_id="1", text="Hello, and welcome to the project."),
        MessageChunk(message_id="2", text="So."),
        ToolStarted(
            call_id="2.1",
            tool="Bash",
            name="Shell",
            title="Bash `ls`",
            input={"command": "ls"},
        ),
        ToolFinished(call_id="2.1", outcome="completed"),
    ]


async def test_sessions_of_the_editor_are_not_resumed_by_the_cli(
    run: CommandRunner, tmp_path: Path
) -> None:
    program = str(tmp_path / "bin" / "cursor-agent")
    assert (await run([program, "-p", "--trust", "--model=auto"], input=b"hello")).exit.clean
    (file,) = tmp_path.glob(".cursor/projects/*/agent-transcripts/*/*.jsonl")
    editors = file.parents[1] / "other" / "other.jsonl"
    editors.parent.mkdir()
    editors.write_bytes(file.read_bytes())
    assert [one.native_id for one in await Cursor().native_sessions(run, tmp_path)] == [file.stem]


async def test_it_is_not_installed(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    async with CommandRunner(environment, cwd=tmp_path, records=tmp_path, marker="none") as run:
        assert (await Cursor().installed(run)).path is None
        with pytest.raises(AgentNotInstalled):
            await Cursor().models(run)


def test_capabilities_are_derived_from_methods() -> None:
    assert {
        "install", "auth", "about", "models", "login", "logout", "sessions", "create", "history",
        "servers",
        "server-tools", "server-add", "server-switch",
    } <= capabilities(Cursor())  # fmt: skip
