"""How Gemini CLI is started: the user's files stay unchanged, and every option has its flag."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tillerman.agents import load
from tillerman.agents.gemini.agent import agent
from tillerman.agents.gemini.json_wire import GeminiStreamWire
from tillerman.agents.gemini.launch import GATE
from tillerman.core.agent import Exit, File, Prompt, SecretFile
from tillerman.core.errors import Unsupported
from tillerman.core.failure import Failure
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Launch
from tillerman.testing.test_host import PlainHost


def acp(**spec: Any) -> Launch:
    return agent.program(session_spec(cwd=Path("/proj"), **spec))


def stream(text: str = "hello", **requested: Any) -> Launch:
    spec = session_spec(cwd=Path("/proj"), **requested)
    return GeminiStreamWire(spec).launch(spec, Prompt(text))


def test_the_entry_point_gives_the_agent() -> None:
    assert load("gemini") is agent


def test_a_plain_session_asks_before_it_acts() -> None:
    assert acp().argv == ["gemini", "--acp", "--approval-mode=default", f"--admin-policy={GATE}"]


def test_every_option_is_on_the_command_line() -> None:
    folders = (Path("/a"), Path("/b"))
    assert acp(mode="plan", model="m", folders=folders, options={"trust": True}).argv == [
        "gemini",
        "--acp",
        "--approval-mode=plan",
        "--skip-trust",
        "--model=m",
        "--include-directories=/a",
        "--include-directories=/b",
        f"--admin-policy={GATE}",
    ]


def test_a_system_prompt_is_in_a_file_that_is_the_users_alone() -> None:
    assert acp(system="Be brief.").env["GEMINI_SYSTEM_MD"] == SecretFile("", b"Be brief.")
    assert "GEMINI_SYSTEM_MD" not in acp().env


def test_system_wide_settings_are_passed_as_variables() -> None:
    """System settings count only in files of root's, in folders of root's."""
    assert acp().env == {
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_PTY_INFO": "child_process",
        "GEMINI_DEBUG_LOG_FILE": "/dev/stderr",
    }


@pytest.mark.parametrize(
    ("kept", "variables", "told"),
    [
        ({}, {"GEMINI_API_KEY": "k"}, True),
        ({}, {}, False),
        ({}, {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "http://other"}, False),
        (
            {"security": {"auth": {"selectedType": "gemini-api-key"}}},
            {"GEMINI_API_KEY": "k"},
            False,
        ),
    ],
)
async def test_a_key_applies_to_an_old_session_too(
    kept: dict[str, Any], variables: dict[str, str], told: bool, tmp_path: Path
) -> None:
    home = tmp_path / ".gemini"
    home.mkdir()
    (home / "settings.json").write_text(json.dumps(kept))
    (tmp_path / "gemini").write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\n")
    (tmp_path / "gemini").chmod(0o755)
    options = {"binary": str(tmp_path / "gemini")}
    spec = session_spec(cwd=tmp_path, resume="s1", options=options)
    async with PlainHost.open(tmp_path, env={"HOME": str(tmp_path), **variables}) as host:
        conversation = await agent.open(spec, host)
        assert [received async for received in conversation.batches()]
        await conversation.close()
    google = "GOOGLE_GEMINI_BASE_URL=https://generativelanguage.googleapis.com"
    assert (google in (tmp_path / "seen").read_text().splitlines()) == told


def test_one_turn_has_its_prompt_on_stdin() -> None:
    launch = stream("-v: hello", resume="s1", model="m")
    assert launch.argv == [
        "gemini",
        "--output-format=stream-json",
        "--approval-mode=default",
        "--model=m",
        "--resume=s1",
    ]
    assert launch.stdin == b"-v: hello"


@pytest.mark.parametrize(
    ("approve", "mode", "word"),
    [
        ("ask", "agent", "default"),
        ("readonly", "agent", "default"),
        ("edits", "agent", "auto_edit"),
        ("auto", "agent", "yolo"),
        ("auto", "ask", "default"),
        ("auto", "plan", "plan"),
    ],
)
def test_without_a_user_the_preset_decides(approve: str, mode: Any, word: str) -> None:
    assert f"--approval-mode={word}" in stream(approve=approve, mode=mode).argv
    assert acp(approve=approve).argv[2] == "--approval-mode=default"


def test_the_stream_protocol_supports_no_files() -> None:
    spec = session_spec(cwd=Path("/proj"))
    picture = File("a.png", "image/png", b"png")
    with pytest.raises(Unsupported, match="attachments"):
        GeminiStreamWire(spec).launch(spec, Prompt("see", (picture,)))


async def test_the_stream_protocol_refuses_servers_it_could_not_start(tmp_path: Path) -> None:
    spec = session_spec(
        cwd=tmp_path, servers={"s": {"command": "x"}}, options={"surface": "stream-json"}
    )
    async with PlainHost.open(tmp_path) as host:
        with pytest.raises(Unsupported, match="MCP servers"):
            await agent.open(spec, host)


@pytest.mark.parametrize(
    ("version", "options"), [("0.61.0", {"surface": "stream-json"}), ("0.20.0", {})]
)
async def test_the_stream_protocol_refuses_an_unenforceable_tool_list(
    tmp_path: Path, version: str, options: dict[str, Any]
) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"version": version}))
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    options = {"binary": str(program), **options}
    spec = session_spec(cwd=tmp_path, approve="auto", only_tools=("Read",), options=options)
    async with PlainHost.open(tmp_path) as host:
        with pytest.raises(Unsupported, match="a list of tools"):
            await agent.open(spec, host)


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (41, "not_signed_in", "GEMINI_API_KEY"),
        (42, "history_lost", "start a new session"),
        (55, "agent_failed", "agents.gemini.trust"),
    ],
)
def test_an_exit_before_any_output_is_explained(code: int, kind: str, hint: str) -> None:
    wire = GeminiStreamWire(session_spec(cwd=Path("/proj")))
    why = wire.explain(Exit(code, None), "[STARTUP] noise\nthis is why\n\n")
    assert isinstance(why, Failure)
    assert (why.kind, why.message) == (kind, "this is why")
    assert hint in why.hint


def test_any_other_exit_is_not_explained() -> None:
    wire = GeminiStreamWire(session_spec(cwd=Path("/proj")))
    assert wire.explain(Exit(1, None), "x") is None


@pytest.mark.parametrize(
    ("version", "word"), [("0.20.0", "--output-format=stream-json"), ("0.61.0", "--acp")]
)
async def test_a_version_without_acp_uses_its_stream_protocol(
    tmp_path: Path, version: str, word: str
) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"version": version}))
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$HOME/draft" && mv "$HOME/draft" '
                       '"$HOME/words"; cat > /dev/null\n')  # fmt: skip
    program.chmod(0o755)
    options = {"binary": str(program)}
    spec = session_spec(cwd=tmp_path, accept_advisory=True, options=options)

    async with PlainHost.open(tmp_path) as host:
        conversation = await agent.open(spec, host)
        await conversation.prompt(Prompt("go"))
        async with asyncio.timeout(10):
            while not (tmp_path / "words").exists():  # noqa: ASYNC110 - a program writes it
                await asyncio.sleep(0.01)
        await conversation.close()

    assert word in (tmp_path / "words").read_text().splitlines()
