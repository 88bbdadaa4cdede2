"""What the presets allow, deny and ask."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import pytest

from tillerman.core.agent import Mode
from tillerman.core.errors import UsageError
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import Decision, DecisionContext, Policy, Preset, Rule
from tillerman.core.tools import TOOLS, WRITES

HERE = DecisionContext(PurePosixPath("/ws"), home=PurePosixPath("/home/me"))
PRESETS = get_args(Preset)


def request(tool: str, *paths: str, **input: Any) -> PermissionRequested:
    return PermissionRequested(
        request_id="r", tool=tool, title=tool, paths=paths, input=dict(input)
    )


def verdicts(tool: str, *paths: str, mode: Mode = "agent", **input: Any) -> str:
    """The answer of each preset, in the order ask, edits, auto, readonly, none."""
    context = DecisionContext(HERE.cwd, mode=mode, home=HERE.home)
    asked = request(tool, *paths, **input)
    return " ".join(Policy.preset(name).decide(asked, context).verdict for name in PRESETS)


@pytest.mark.parametrize(
    ("tool", "paths", "expected"),
    [
        ("Read", ("src/a.py",), "allow allow allow allow deny"),
        ("Read", ("/ws/src/a.py",), "allow allow allow allow deny"),
        ("Read", (".env",), "allow allow allow allow deny"),
        ("Read", ("/etc/passwd",), "ask ask allow deny deny"),
        ("Read", ("../secrets",), "ask ask allow deny deny"),
        ("Read", ("~/.ssh/id_rsa",), "ask ask allow deny deny"),
        ("Read", (), "ask ask allow deny deny"),
        ("Grep", (), "allow allow allow allow deny"),
        ("LS", ("/",), "ask ask allow deny deny"),
        ("Write", ("src/a.py",), "ask allow allow deny deny"),
        ("Edit", ("/ws/a.py",), "ask allow allow deny deny"),
        ("Write", ("/wsx/a.py",), "deny deny ask deny deny"),
        ("Write", ("/etc/cron.d/x",), "deny deny ask deny deny"),
        ("Write", ("src/../../x",), "deny deny ask deny deny"),
        ("Write", ("a\0b",), "deny deny ask deny deny"),
        ("Write", ("AGENTS.md",), "ask ask allow deny deny"),
        ("Edit", ("docs/Claude.md",), "ask ask allow deny deny"),
        ("Write", (), "ask ask ask deny deny"),
        ("Delete", ("/ws",), "deny deny deny deny deny"),
        ("MultiEdit", ("a.py", ".git/config"), "deny deny deny deny deny"),
        ("Bash", (), "ask ask ask deny deny"),  # it says nothing of what it would run
        ("WebFetch", (), "ask ask allow deny deny"),
        ("WebSearch", (), "ask ask allow deny deny"),
        ("MCP", (), "ask ask allow deny deny"),
        ("SaveMemory", (), "ask ask allow deny deny"),
        ("Task", (), "allow allow allow allow deny"),
        ("TodoWrite", (), "allow allow allow allow deny"),
        ("Question", (), "allow allow allow allow deny"),
        ("ExitPlanMode", (), "ask ask allow deny deny"),
        ("brand_new_tool", (), "ask ask allow deny deny"),
    ],
)
def test_each_preset_answers_as_its_name_says(
    tool: str, paths: tuple[str, ...], expected: str
) -> None:
    assert verdicts(tool, *paths) == expected


@pytest.mark.parametrize("mode", ["plan", "ask"])
@pytest.mark.parametrize("tool", sorted({*WRITES, "Bash"}))
def test_no_preset_lets_a_planning_agent_write_or_run(
    tool: str, mode: Literal["plan", "ask"]
) -> None:
    assert verdicts(tool, "src/a.py", mode=mode) == "deny deny deny deny deny"


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("Read", "allow allow allow allow deny"),
        ("ExitPlanMode", "ask ask ask ask deny"),
        ("Task", "allow allow allow allow deny"),
        ("MCP", "deny deny deny deny deny"),
        ("WebFetch", "deny deny deny deny deny"),
        ("SaveMemory", "deny deny deny deny deny"),
        ("brand_new_tool", "deny deny deny deny deny"),
    ],
)
def test_while_planning_reads_follow_the_preset_and_a_person_ends_the_plan(
    tool: str, expected: str
) -> None:
    assert verdicts(tool, "src/a.py", mode="plan") == expected


@pytest.mark.parametrize(
    "path",
    [
        ".claude/settings.json",
        ".cursor/hooks.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".qwen/settings.json",
        ".opencode/opencode.json",
        ".agents/x",
        ".mcp.json",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".husky/pre-commit",
        ".git/config",
        ".git/hooks/pre-commit",
        "vendor/lib/.git/config",
        ".git",
        ".env",
        ".env.local",
        ".envrc",
        ".tillerman/config.toml",
        ".github/workflows/ci.yml",
        ".github/actions/x/action.yml",
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
        ".pre-commit-config.yaml",
        "opencode.json",
        ".devcontainer/devcontainer.json",
        ".gitmodules",
        "sub/.claude/settings.json",
        "src/../.claude/settings.json",
        ".CLAUDE/settings.json",
        ".Git/Config",
        ".c\u200dlaude/settings.json",
        ".IDEA/workspace.xml",
        ".mcp.json.",
        "/ws/.claude",
        "file:///ws/%2eclaude/settings.json",
    ],
)
def test_startup_files_are_written_under_no_preset_however_they_are_spelled(
    path: str,
) -> None:
    assert verdicts("Write", path) == "deny deny deny deny deny"


@pytest.mark.parametrize(
    "path", ["claude.py", "env.py", "git/config", ".gitignore", ".github/x.yml"]
)
def test_names_that_only_look_alike_are_ordinary_files(path: str) -> None:
    assert verdicts("Write", path) == "ask allow allow deny deny"


@pytest.mark.parametrize(
    "input",
    [
        {"file_path": "/etc/x"},
        {"old_path": "a.py", "new_path": "/etc/x"},
        {"source": "/etc/x", "destination": "a.py"},
        {"paths": ["a.py", "/etc/x"]},
        {"edits": [{"file_path": "/etc/x"}]},
    ],
)
def test_paths_are_found_in_the_input_even_when_the_agent_does_not_list_them(
    input: dict[str, Any],
) -> None:
    assert verdicts("Rename", "a.py", **input) == "deny deny ask deny deny"


def test_a_glob_that_climbs_out_is_not_a_read_inside() -> None:
    assert verdicts("Glob", pattern="**/*.py") == "allow allow allow allow deny"
    assert verdicts("Glob", pattern="../*/.ssh/*") == "ask ask allow deny deny"
    assert verdicts("Glob", pattern="/etc/*") == "ask ask allow deny deny"


def test_every_decision_names_its_rule_and_the_path_that_decided() -> None:
    decide = Policy.preset("edits").decide
    assert [
        decide(request("Write", "a.py", "/etc/x"), HERE),
        decide(request("Write", ".git/hooks/x"), HERE),
        decide(request("Write", "a.py"), HERE),
        decide(request("Bash", command="ls"), HERE),
        decide(request("Bash", command="touch a"), HERE),
        decide(request("Bash", command="make"), HERE),
        decide(request("Bash"), DecisionContext(HERE.cwd, mode="plan")),
    ] == [
        Decision("deny", "guard.outside", "writes outside the workspace: /etc/x"),
        Decision(
            "deny",
            "guard.protected",
            "writes to files that configure agents or start programs: .git/hooks/x",
        ),
        Decision("allow", "edits.writes", "writes inside the workspace: a.py"),
        Decision("allow", "reads.commands", "`ls` only reads"),
        Decision(
            "allow", "edits.commands", "`touch` only reads and writes the files that it names"
        ),
        Decision("ask", "edits.rest", "only reads and edits inside the workspace need no approval"),
        Decision("deny", "mode.commands", "this mode runs only commands that read"),
    ]


def test_extra_folders_belong_to_the_workspace() -> None:
    context = DecisionContext(HERE.cwd, folders=(PurePosixPath("/lib"),))
    decide = Policy.preset("edits").decide
    assert decide(request("Write", "/lib/x"), context).verdict == "allow"
    assert decide(request("Write", "/lib/.env"), context).verdict == "deny"
    assert decide(request("Write", "/libx/x"), context).verdict == "deny"


def test_links_that_lead_out_or_to_protected_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "ws" / ".claude").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "ws" / "away").symlink_to(tmp_path / "out")
    (tmp_path / "ws" / "notes").symlink_to(tmp_path / "ws" / ".claude")
    (tmp_path / "alias").symlink_to(tmp_path / "ws")
    rules = {}
    for spelling in ("ws", "alias"):
        context = DecisionContext(tmp_path / spelling, resolve=os.path.realpath)
        for path in ("plain.py", "away/x", "notes/settings.json", "away/../plain.py"):
            decision = Policy.preset("edits").decide(request("Write", path), context)
            rules[spelling, path] = decision.rule
    assert rules == {
        ("ws", "plain.py"): "edits.writes",
        ("ws", "away/x"): "guard.outside",
        ("ws", "notes/settings.json"): "guard.protected",
        ("ws", "away/../plain.py"): "guard.outside",
        ("alias", "plain.py"): "edits.writes",
        ("alias", "away/x"): "guard.outside",
        ("alias", "notes/settings.json"): "guard.protected",
        ("alias", "away/../plain.py"): "guard.outside",
    }


def test_a_path_under_the_real_name_of_a_linked_workspace_is_inside(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "ws")
    context = DecisionContext(tmp_path / "alias", resolve=os.path.realpath)
    asked = request("Write", str(tmp_path / "ws" / "a.py"))
    assert Policy.preset("edits").decide(asked, context).rule == "edits.writes"


def test_a_home_that_is_not_known_is_outside() -> None:
    asked = request("Write", "~/notes")
    assert Policy.preset("auto").decide(asked, DecisionContext(HERE.cwd)).rule == "guard.outside"


def test_the_first_rule_that_matches_decides_and_no_rule_means_ask() -> None:
    rules = (
        Rule("no-shell", "deny", "never", tools=frozenset({"Bash"})),
        Rule("shell", "allow", "why not", tools=frozenset({"Bash"})),
    )
    policy = Policy(rules)
    assert policy.decide(request("Bash"), HERE) == Decision("deny", "no-shell", "never")
    assert policy.decide(request("Read", "a"), HERE) == Decision(
        "ask", "default", "no rule matches"
    )


def test_none_allows_no_tool_at_all() -> None:
    decide = Policy.preset("none").decide
    assert {decide(request(tool, "a"), HERE).verdict for tool in TOOLS} == {"deny"}


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as refused:
        Policy.preset("yolo")
    assert refused.value.message == "unknown preset: 'yolo'"
    assert refused.value.hint == "presets: ask, edits, auto, readonly, none"
