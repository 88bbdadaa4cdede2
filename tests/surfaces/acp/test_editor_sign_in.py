"""An agent without a sign-in, as an editor learns of it and of the way out."""

from __future__ import annotations

import pytest

from tests.surfaces.acp.conftest import StartEditor
from tests.surfaces.acp.editor import RpcRefused
from tests.surfaces.conftest import Bench
from tests.surfaces.tui.test_commands import CLAUDE, install


@pytest.fixture
def signed_out(bench: Bench) -> Bench:
    """A machine with a Claude Code that nobody is signed in to."""
    (bench.home / "bin").mkdir()
    install(bench.home, "claude", CLAUDE)
    bench.environment["PATH"] = f"{bench.home / 'bin'}:/usr/bin:/bin"
    return bench


async def test_a_new_session_needs_a_sign_in(signed_out: Bench, open_editor: StartEditor) -> None:
    editor = await open_editor(agent="claude")
    told = await editor.initialize()
    [method] = told["authMethods"]
    assert (method["id"], method["name"]) == ("claude", "Sign in to Claude Code")
    assert "tillerman login claude" in method["description"]
    for refused in (
        editor.call("session/new", cwd=str(signed_out.project), mcpServers=[]),
        editor.call("authenticate", methodId="claude"),
    ):
        with pytest.raises(RpcRefused, match="not signed in") as error:
            await refused
        assert error.value.error["code"] == -32000
        assert "claude auth login" in error.value.error["data"]["hint"]
    (signed_out.home / "bin" / "claude.state").touch()
    assert await editor.call("authenticate", methodId="claude") == {}
    assert await editor.new(signed_out.project)


async def test_an_editor_with_terminals_runs_the_sign_in_itself(
    signed_out: Bench, open_editor: StartEditor
) -> None:
    editor = await open_editor(agent="claude")
    told = await editor.initialize(auth={"terminal": True})
    [method] = told["authMethods"]
    assert (method["type"], method["args"]) == ("terminal", ["--login", "claude"])
    ran = signed_out.run("acp", "-a", "claude", *method["args"])
    assert "running `claude auth login`" in ran.stderr


async def test_an_agent_that_is_not_installed_is_an_error_with_its_command(
    bench: Bench, open_editor: StartEditor
) -> None:
    bench.environment["PATH"] = "/usr/bin:/bin"
    editor = await open_editor(agent="codex")
    with pytest.raises(RpcRefused, match="not installed") as error:
        await editor.new(bench.project)
    assert error.value.error["data"]["errorKind"] == "not_installed"
    assert "npm install -g @openai/codex" in error.value.error["data"]["hint"]


async def test_the_first_usable_agent_of_several_is_taken(
    bench: Bench, open_editor: StartEditor
) -> None:
    bench.environment["PATH"] = "/usr/bin:/bin"
    editor = await open_editor(agent="codex,mock")
    told = await editor.call("session/new", cwd=str(bench.project), mcpServers=[])
    assert told["configOptions"][0]["currentValue"] == "mock"
    await editor.prompt(told["sessionId"], {"say": "x"})
    thoughts = editor.said("agent_thought_chunk")
    assert "codex is not installed" in thoughts
    assert "mock is used instead" in thoughts


async def test_without_an_agent_it_is_that_of_the_config(
    bench: Bench, open_editor: StartEditor
) -> None:
    bench.run("config", "set", "agent", "mock")
    editor = await open_editor(agent="")
    told = await editor.call("session/new", cwd=str(bench.project), mcpServers=[])
    assert told["configOptions"][0]["currentValue"] == "mock"
