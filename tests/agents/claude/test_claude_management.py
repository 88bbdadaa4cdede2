"""What Claude Code tells besides a conversation, from outputs that the real one printed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from claude_playback import RECORDINGS, lines

from bridle.agents import load
from bridle.agents.claude.management import ClaudeCode, account, mcp_servers
from bridle.core.agent import Account, Exit, Installed, McpServer, Model, Ran, capabilities
from bridle.core.errors import AgentError, AgentNotInstalled

MCP_LIST = """\
Checking MCP server health…

probe: /usr/bin/python3 -c pass - x - ✔ Connected
web: http://127.0.0.1:9/x (HTTP) - ✘ Failed to connect — ECONNREFUSED: Unable to connect.
new: npx thing - ⏸ Pending approval
"""

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
    assert json.loads(sys.stdin.readline())["request"]["subtype"] == "initialize"
    print(open(__file__ + ".initialize").read())
"""


class PathRun:
    """Runs programs found in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, binary: str) -> str | None:
        return shutil.which(binary, path=str(self._folder))

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] = {},
        input: bytes = b"",
        limit: float = 20,
    ) -> Ran:
        child = await asyncio.create_subprocess_exec(
            *argv,
            env={"PATH": "/usr/bin:/bin", **env},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(limit):
            stdout, stderr = await child.communicate(input)
        return Ran(Exit(child.returncode, None), stdout, stderr)


@pytest.fixture
def run(tmp_path: Path) -> PathRun:
    fake = tmp_path / "claude"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    said = lines(RECORDINGS / "2.1.325" / "control_misc")
    answer = next(one["msg"] for one in said if one["dir"] == "in")
    (tmp_path / "claude.initialize").write_text(json.dumps(answer))
    return PathRun(tmp_path)


@pytest.fixture
def claude() -> ClaudeCode:
    return ClaudeCode()


def test_the_entry_point_gives_an_agent_with_every_capability() -> None:
    agent = load("claude")
    assert agent.info.name == "claude"
    told = {"install", "auth", "models", "sessions", "login", "logout", "servers", "server-add"}
    assert capabilities(agent) == agent.info.can | told


async def test_where_it_is_installed(claude: ClaudeCode, run: PathRun, tmp_path: Path) -> None:
    command = "npm install -g @anthropic-ai/claude-code"
    path = str(tmp_path / "claude")
    assert await claude.installed(run) == Installed("claude", path, "2.1.325", command)
    nowhere = PathRun(tmp_path / "nowhere")
    assert await claude.installed(nowhere) == Installed("claude", None, None, command)


async def test_what_needs_the_program_says_how_to_install_it(
    claude: ClaudeCode, tmp_path: Path
) -> None:
    with pytest.raises(AgentNotInstalled) as caught:
        await claude.models(PathRun(tmp_path / "nowhere"))
    assert caught.value.hint == "npm install -g @anthropic-ai/claude-code"


async def test_nobody_signed_in(claude: ClaudeCode, run: PathRun) -> None:
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


def test_a_status_that_is_no_status_is_an_error() -> None:
    with pytest.raises(AgentError, match="auth status"):
        account(b"Segmentation fault")


async def test_the_models_are_those_of_its_greeting(claude: ClaudeCode, run: PathRun) -> None:
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


async def test_a_server_is_added_for_the_user(
    claude: ClaudeCode, run: PathRun, tmp_path: Path
) -> None:
    await claude.mcp_add(run, "-x", {"command": "y"})
    added = json.loads((tmp_path / "claude.log").read_text())
    assert added == ["mcp", "add-json", "--scope=user", "--", "-x", '{"command": "y"}']


async def test_what_the_program_refuses_is_an_error_in_its_words(
    claude: ClaudeCode, run: PathRun
) -> None:
    with pytest.raises(AgentError, match='No MCP server named "probe"'):
        await claude.mcp_remove(run, "probe")


async def test_its_own_sessions_are_listed_newest_first(
    claude: ClaudeCode, run: PathRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
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


def _store(file: Path, stamp: int, *stored: object) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in stored))
    os.utime(file, (stamp, stamp))
