"""Gemini CLI is configured to request approval before every call, and what it reports of each."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.agents.acp.acp_far_side import opened
from tillerman.agents.gemini import ask_policy
from tillerman.agents.gemini.agent import agent
from tillerman.agents.gemini.dialect import GeminiDialect
from tillerman.agents.gemini.launch import GATE, ROW, acp
from tillerman.core.agent import SecretFolder
from tillerman.core.errors import Unsupported
from tillerman.core.events import Answer, PermissionRequested, ToolStarted
from tillerman.core.permission.actions import HOLE, host_of, server_of
from tillerman.core.session_options import session_spec
from tillerman.core.tools import class_of
from tillerman.testing.test_host import PlainHost

PROJ = Path("/proj")
PLAN = "/home/me/.gemini/tmp/proj/9f2/plans/the-plan.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / ".gemini"
    folder.mkdir()
    return folder


def variables(home: Path, **more: str) -> Any:
    return ({"HOME": str(home.parent)} | more).get


def store_settings(home: Path, settings: dict[str, Any]) -> None:
    (home / "settings.json").write_text(json.dumps(settings))


def theirs(policy: str | None) -> list[dict[str, Any]]:
    """The rules that are not tillerman's."""
    ours = tomllib.loads(Path(GATE).read_text())["rule"]
    return [rule for rule in tomllib.loads(policy or "")["rule"] if rule not in ours]


def request(tool: str, title: str, text: str = "", **more: Any) -> PermissionRequested:
    content = [{"type": "content", "content": {"type": "text", "text": text}}] if text else []
    call = {"toolCallId": f"{tool}__call_1", "title": title, "content": content, "locations": []}
    reported = opened(row=ROW, dialect=GeminiDialect).request_permission(
        1, {**call, "status": "pending", **more}
    )
    [asked] = [event for event in reported if isinstance(event, PermissionRequested)]
    return asked


# -- what is asked about ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "title", "word", "input"),
    [
        ("list_directory", "src/deep", "LS", {"path": "src/deep"}),
        ("glob", "'*.py'", "Glob", {"pattern": "*.py"}),
        ("glob", "'*.py' within ../other", "Glob", {"pattern": "*.py", "path": "../other"}),
        (
            "grep_search",
            "'it's within reach' in *.md within docs",
            "Grep",
            {"pattern": "it's within reach", "include": "*.md", "path": "docs"},
        ),
        ("google_web_search", 'Searching the web for: "herons"', "WebSearch", {"query": "herons"}),
        (
            "web_fetch",
            "Fetching content from: https://a.example/b",
            "WebFetch",
            {"url": "https://a.example/b"},
        ),
        ("web_fetch", "something new", "WebFetch", {"url": "..."}),
    ],
)
def test_the_input_is_read_from_the_title(
    tool: str, title: str, word: str, input: dict[str, Any]
) -> None:
    asked = request(tool, title, kind="search")

    assert (asked.tool, asked.input) == (word, input)


def test_one_address_in_a_prompt_is_named_and_several_or_a_cut_one_are_not() -> None:
    message = 'Processing URLs and instructions from prompt: "{}"'
    one, two = "https://a.example/x", "HTTP://b.example"

    single = request("web_fetch", message.format(f"read {one} now")).input
    both = request("web_fetch", message.format(f"{one} and {two}")).input
    cut = request("web_fetch", message.format(f"read {one} and http://b...")).input
    hidden = request("web_fetch", message.format("a very long story...")).input
    none = request("web_fetch", message.format("no address")).input

    assert single == {"prompt": f"read {one} now", "url": one}
    assert both["url"] == f"{one} {two}"
    hosts = [host_of(input["url"]) for input in (single, both, cut, hidden)]
    assert hosts == ["a.example", HOLE, HOLE, HOLE]
    assert none == {"prompt": "no address"}


def test_a_command_is_requested_with_its_working_directory() -> None:
    elsewhere = request("run_shell_command", "ls -l", "[in /proj/sub] (to look)", kind="execute")
    here = request("run_shell_command", "ls", "[current working directory /proj]", kind="execute")

    assert (elsewhere.tool, elsewhere.input) == (
        "Bash",
        {"command": "ls -l", "dir_path": "/proj/sub"},
    )
    assert here.input == {"command": "ls"}


@pytest.mark.parametrize(
    ("tool", "title", "server"),
    [
        ("mcp_my_notes_look_up", "look_up (my_notes MCP Server)", "my_notes.look_up"),
        ("mcp_my_notes_do_it", "do it (my notes MCP Server)", "my notes.do it"),
        # A tool with a command has that for its title, in which anything may be claimed.
        ("mcp_evil_run", "run (good MCP Server)", "evil.run"),
        ("mcp_evil_run", "ls -l", "evil.run"),
    ],
)
def test_a_servers_tool_has_the_name_that_rules_use(tool: str, title: str, server: str) -> None:
    asked = request(tool, title, '{"text":"x"}', kind="other")

    assert (asked.tool, asked.input, server_of(asked)) == ("MCP", {"text": "x"}, server)


def test_writing_its_own_plan_has_no_class() -> None:
    talk = opened(row=ROW, dialect=GeminiDialect)
    call = {"toolCallId": "write_file__1", "title": "Writing", "kind": "edit"}
    place = {"locations": [{"path": PLAN}]}
    [call] = talk.send_update("tool_call", **call, **place, status="in_progress")

    assert isinstance(call, ToolStarted)
    assert class_of(call.tool) is None
    assert request("write_file", "Writing", kind="edit", **place).tool == "Write"


def test_the_model_gets_the_reason_of_a_denial() -> None:
    talk = opened(row=ROW, dialect=GeminiDialect)
    *_, asked = talk.request_permission(7, {"toolCallId": "read_file__1", "title": "a.txt"})
    assert isinstance(asked, PermissionRequested)
    [reply] = talk.wire.answer(asked.request_id, Answer("deny", note="herons nest there"))

    message = "The user denied this call: herons nest there"
    assert reply["result"] == {"outcome": {"outcome": "selected", "optionId": message}}


# -- what the user has forbidden -------------------------------------------------------------------


def test_nothing_is_added_where_the_user_denies_nothing(home: Path) -> None:
    (home / "policies").mkdir()
    allow = '[[rule]]\ntoolName = "glob"\ndecision = "allow"\npriority = 5\n'
    (home / "policies" / "mine.toml").write_text(allow)
    store_settings(home, {"tools": {"allowed": ["run_shell_command"]}})

    assert ask_policy.policy(variables(home), PROJ) is None


def test_what_the_users_policies_deny_stays_denied_and_what_they_allow_is_asked(home: Path) -> None:
    (home / "policies").mkdir()
    (home / "policies" / "mine.toml").write_text(
        '[[rule]]\ntoolName = "run_shell_command"\ndecision = "allow"\npriority = 200\n'
        '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "rm"\ndecision = "deny"\n'
        'priority = 300\ndenyMessage = "no"\n'
    )

    assert theirs(ask_policy.policy(variables(home), PROJ)) == [
        {
            "toolName": "run_shell_command",
            "commandPrefix": "rm",
            "decision": "deny",
            "priority": 340,
            "denyMessage": "no",
        },
        {
            "toolName": "run_shell_command",
            "argsPattern": ".",  # or commands that it knows as harmless would run unasked
            "decision": "ask_user",
            "priority": 260,
        },
    ]


def test_tools_and_servers_that_settings_exclude_stay_excluded(home: Path) -> None:
    (home / "settings.json").write_text(
        '{"tools": {"exclude": ["write_file"]}, // not here\n "mcp": {"excluded": ["github"]}}'
    )

    assert theirs(ask_policy.policy(variables(home), PROJ)) == [
        {"toolName": "*", "mcpName": "github", "decision": "deny", "priority": 940},
        {"toolName": "write_file", "decision": "deny", "priority": 940},
    ]


def test_an_exclusive_tool_list_stays_one(home: Path) -> None:
    store_settings(home, {"tools": {"core": ["read_file", "run_shell_command(git)"]}})

    modes = ["default", "autoEdit", "yolo"]
    ask = {"decision": "ask_user", "priority": 60}
    assert theirs(ask_policy.policy(variables(home), PROJ)) == [
        {"toolName": "*", "modes": modes, "decision": "deny", "priority": 50},
        {"toolName": "read_file", **ask},
        {"toolName": "run_shell_command", "commandPrefix": "git", **ask},
    ]


def test_a_policy_with_the_users_rules_is_in_a_file_that_is_the_users_alone() -> None:
    merged = acp(session_spec(cwd=PROJ, options={"policy": "# both"}))

    assert merged.argv[-1] == SecretFolder("--admin-policy=", {"gate.toml": b"# both"})


# -- what cannot be asked about --------------------------------------------------------------------


async def test_administrator_policies_are_refused_instead_of_hidden(
    home: Path, tmp_path: Path
) -> None:
    system = tmp_path / "system.json"
    system.write_text(json.dumps({"adminPolicyPaths": ["/somewhere/admin.toml"]}))
    env = {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(system)}

    async with PlainHost.open(tmp_path, env=env) as host:
        with pytest.raises(Unsupported, match=r"administrator policies.*admin\.toml"):
            await agent.open(session_spec(cwd=tmp_path), host)


async def test_a_server_that_the_settings_trust_is_refused_where_the_folder_is_trusted(
    home: Path, tmp_path: Path
) -> None:
    store_settings(home, {"mcpServers": {"loose": {"command": "x", "trust": True}, "tight": {}}})

    async with PlainHost.open(tmp_path) as host:
        with pytest.raises(Unsupported, match=r"(?m)settings trust.*: loose$"):
            await agent.open(session_spec(cwd=tmp_path, options={"trust": True}), host)
