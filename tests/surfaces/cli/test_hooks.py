"""`tillerman hooks` and `tillerman hook`, as the real program in a separate home and project."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import Bench

AGENTS = ("claude", "codex", "copilot", "cursor", "gemini", "opencode", "qwen")


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def command(bench: Bench) -> str:
    made = json.loads((bench.project / ".claude/settings.local.json").read_text())
    found: str = made["hooks"]["PreToolUse"][-1]["hooks"][0]["command"]
    return found


def call(bench: Bench, tool: str, **input: Any) -> bytes:
    given = {"tool_name": tool, "tool_input": input, "cwd": str(bench.project)}
    return json.dumps(given).encode()


def asked(
    bench: Bench, line: str, payload: bytes, **environment: str
) -> tuple[int, str | None, bytes]:
    """What a CLI would get: the exit code, the decision, and stderr."""
    ran = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=bench.project,
        env=bench.environment | environment,
        input=payload,
        capture_output=True,
        timeout=60,
    )
    parsed = json.loads(ran.stdout)["hookSpecificOutput"] if ran.stdout else {}
    return ran.returncode, parsed.get("permissionDecision"), ran.stderr


def users_config(bench: Bench, text: str) -> None:
    file = Path(bench.environment["TILLERMAN_HOME"]) / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def test_an_installed_hook_is_shown_and_leaves_no_trace(bench: Bench) -> None:
    mine = bench.project / ".gemini/settings.json"
    mine.parent.mkdir()
    mine.write_bytes(b'{ // mine\r\n  "hooks": {"BeforeTool": [{"hooks": []}],},\r\n}')
    before = files(bench.project)

    done = bench.run("hooks", "install", *AGENTS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "`/hooks`" in done.stdout  # what codex wants besides
    again = bench.run("hooks", "install", "claude")
    assert again.returncode == 2
    assert "already has hooks of tillerman" in again.stderr

    rows = json.loads(bench.run("hooks", "status", "--json").stdout)
    project = {row["agent"]: row for row in rows if row["scope"] == "project"}
    assert {agent: row["state"] for agent, row in project.items()} == dict.fromkeys(
        AGENTS, "installed"
    )
    assert {row["state"] for row in rows if row["scope"] == "user"} == {"absent"}
    assert project["gemini"] == {
        "agent": "gemini",
        "scope": "project",
        "file": str(mine),
        "state": "installed",
        "events": ["BeforeTool"],
        "missing": [],
        "others": {"BeforeTool": 1},
        "problem": "",
        "trust": "project hooks apply once you trust the folder in `gemini`",
    }
    shown = bench.run("hooks", "status").stdout
    assert [line.split()[:3] for line in shown.splitlines()[1:]] == [
        [agent, "project", "installed"] for agent in AGENTS
    ]

    done = bench.run("hooks", "remove")
    assert (done.returncode, done.stdout.count("was restored")) == (0, len(AGENTS))
    assert files(bench.project) == before
    assert bench.run("hooks", "remove").stdout == "tillerman has no hooks here.\n"


def test_hooks_for_the_user_are_in_the_home_or_where_a_variable_points(bench: Bench) -> None:
    elsewhere = bench.home / "elsewhere"
    assert bench.run("hooks", "install", "--user", "claude").returncode == 0
    done = bench.run("hooks", "install", "--user", "codex", CODEX_HOME=str(elsewhere))
    assert done.returncode == 0
    assert files(bench.project) == {}
    assert sorted(files(bench.home)) == [".claude/settings.json", "elsewhere/hooks.json"]
    assert "--project" not in (bench.home / ".claude/settings.json").read_text()
    bench.run("hooks", "remove", "--user", CODEX_HOME=str(elsewhere))
    assert files(bench.home) == {}


def test_a_changed_entry_is_reported(bench: Bench) -> None:
    bench.run("hooks", "install", "cursor")
    file = bench.project / ".cursor/hooks.json"
    held = json.loads(file.read_text())
    del held["hooks"]["preToolUse"]
    file.write_text(json.dumps(held))
    (row,) = json.loads(bench.run("hooks", "status", "cursor", "--project", "--json").stdout)
    assert (row["state"], row["missing"]) == ("changed", ["preToolUse"])
    file.write_text("{")
    (row,) = json.loads(bench.run("hooks", "status", "cursor", "--project", "--json").stdout)
    assert (row["state"], row["problem"]) == ("changed", "line 1: a string is missing")
    refused = bench.run("hooks", "remove", "cursor")
    assert refused.returncode == 2
    assert "fix it" in refused.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["hooks", "install"], "no agent given"),
        (["hooks", "install", "claude", "mock"], "tillerman does not support hooks of mock"),
        (["hooks", "install", "claude", "--user", "--project"], "not allowed with argument"),
    ],
)
def test_impossible_installs_are_refused_before_anything_is_written(
    bench: Bench, words: list[str], why: str
) -> None:
    done = bench.run(*words)
    assert done.returncode == 2
    assert why in done.stderr
    assert files(bench.project) == {}


# -- the hook itself -------------------------------------------------------------------------------


def test_the_policy_decides_and_the_cli_asks_about_undecided_calls(bench: Bench) -> None:
    bench.run("hooks", "install", "claude")
    line, inside = command(bench), str(bench.project / "a.txt")
    assert asked(bench, line, call(bench, "Read", file_path=inside)) == (0, "allow", b"")
    assert asked(bench, line, call(bench, "Write", file_path=inside)) == (0, "ask", b"")
    assert asked(bench, line, call(bench, "Write", file_path="/etc/x")) == (0, "deny", b"")
    assert asked(bench, line, call(bench, "Bash", command="make")) == (0, "ask", b"")

    (bench.project / ".tillerman").mkdir()
    (bench.project / ".tillerman/config.toml").write_text('[[rules]]\ncommand="make*"\ndeny="no"\n')
    assert asked(bench, line, call(bench, "Bash", command="make")) == (0, "deny", b"")


def test_a_rule_that_rewrites_changes_the_input(bench: Bench) -> None:
    users_config(bench, '[[rules]]\ncommand = "npm install"\nrewrite = "npm ci"\n')
    given = call(bench, "Bash", command="npm install", timeout=5)
    output = bench.run("hook", "claude", "PreToolUse", input=given)
    assert json.loads(output.stdout)["hookSpecificOutput"]["updatedInput"] == {
        "command": "npm ci",
        "timeout": 5,
    }
    given = given.replace(b'"Bash"', b'"run_shell_command"')
    output = bench.run("hook", "qwen", "PreToolUse", input=given)
    decided = json.loads(output.stdout)["hookSpecificOutput"]
    assert decided["permissionDecision"] == "deny"
    assert "npm ci" in decided["permissionDecisionReason"]


@pytest.mark.parametrize(
    "payload", [b"", b"null", b"{}", b'{"tool_name": 1, "tool_input": {}}', b"\x80" * 100]
)
@pytest.mark.parametrize("agent", AGENTS)
def test_an_unreadable_event_is_denied(bench: Bench, agent: str, payload: bytes) -> None:
    event = {
        "copilot": "preToolUse",
        "cursor": "preToolUse",
        "gemini": "BeforeTool",
        "opencode": "tool.execute.before",
    }.get(agent, "PreToolUse")
    output = bench.run("hook", agent, event, input=payload)
    assert (output.returncode, output.stdout) == (2, "")
    assert output.stderr.startswith("tillerman: ")


def test_an_unknown_event_is_denied(bench: Bench) -> None:
    for agent in AGENTS:
        output = bench.run(
            "hook", agent, "BeforeEverything", input=call(bench, "Read", file_path="a")
        )
        assert (output.returncode, output.stdout) == (2, "")


def test_an_unreadable_policy_denies(bench: Bench) -> None:
    bench.run("hooks", "install", "claude")
    users_config(bench, "[[rules]]\nnonsense = 1\n")
    code, decision, why = asked(bench, command(bench), call(bench, "Read", file_path="a.txt"))
    assert (code, decision) == (2, None)
    assert b"nonsense" in why


@pytest.mark.parametrize(
    ("tool", "input", "decision"),
    [
        ("Grep", {"pattern": "x"}, "narrowed"),
        ("Grep", {"pattern": "x", "path": "."}, "narrowed"),
        ("Grep", {"pattern": "x", "path": "conf"}, "narrowed"),
        ("Grep", {"pattern": "x", "path": "src"}, "allow"),
        ("Grep", {"pattern": "x", "glob": "*"}, "ask"),
        ("Grep", {"pattern": "x", "glob": "**/.e*"}, "ask"),
        ("Grep", {"pattern": "x", "path": "conf/.env"}, "deny"),
        ("Grep", {"pattern": "x", "path": "link"}, "deny"),
        ("Grep", {"pattern": "x", "glob": "*.py"}, "allow"),
        ("Glob", {"pattern": "**/.env"}, "deny"),
        ("Glob", {"pattern": "**/.e*"}, "ask"),
        ("Glob", {"pattern": "**/*"}, "ask"),
        ("Glob", {"pattern": "*", "path": "conf"}, "ask"),
        ("Glob", {"pattern": "**/*.py"}, "allow"),
        ("Bash", {"command": "grep -rn x conf"}, "ask"),
        ("Bash", {"command": "grep -rn x src"}, "allow"),
        ("Bash", {"command": "grep -Rn x links"}, "ask"),
    ],
)
def test_a_search_over_a_folder_with_a_denied_file_leaves_it_out_or_is_asked_about(
    bench: Bench, tool: str, input: dict[str, Any], decision: str
) -> None:
    users_config(bench, '[[rules]]\npath = ".env"\ndeny = "secrets stay here"\n')
    for name in ("conf/.env", "src/a.py", "links/b.py"):
        (bench.project / name).parent.mkdir(exist_ok=True)
        (bench.project / name).write_text("x\n")
    (bench.project / "link").symlink_to("conf/.env")
    (bench.project / "links/c.py").symlink_to("../conf/.env")

    output = bench.run("hook", "claude", "PreToolUse", input=call(bench, tool, **input))
    reported = json.loads(output.stdout)["hookSpecificOutput"]
    if decision == "narrowed":
        left_out = ".env" if input.get("path") == "conf" else "conf/.env"
        assert (reported["permissionDecision"], reported["updatedInput"]) == (
            "allow",
            {**input, "glob": f"!**/{left_out}"},
        )
    else:
        assert (reported["permissionDecision"], "updatedInput" in reported) == (decision, False)


def test_a_removed_program_denies_with_a_message(bench: Bench) -> None:
    bench.run("hooks", "install", "claude")
    program, _, rest = command(bench).partition(" ")
    code, decision, why = asked(bench, f"{program}-gone {rest}", call(bench, "Read"))
    assert (code, decision) == (2, None)
    assert b"not found" in why


def test_no_module_of_the_project_replaces_ours(bench: Bench) -> None:
    bench.run("hooks", "install", "claude")
    for name in ("tillerman", "msgspec", "json"):
        (bench.project / name).mkdir()
        (bench.project / name / "__init__.py").write_text("import os; os._exit(0)\n")
    payload = call(bench, "Write", file_path="/etc/x")
    reported = asked(bench, command(bench), payload, PYTHONPATH=str(bench.project))
    assert reported == (0, "deny", b"")


def test_an_agent_outside_the_project_is_not_inside_its_new_folder(
    bench: Bench, tmp_path: Path
) -> None:
    bench.run("hooks", "install", "claude")
    given = json.loads(call(bench, "Read", file_path="a.txt")) | {"cwd": str(tmp_path / "home")}
    assert asked(bench, command(bench), json.dumps(given).encode())[1] == "ask"
    given["cwd"] = str(bench.project / "src")
    assert asked(bench, command(bench), json.dumps(given).encode())[1] == "allow"


def test_a_cli_that_never_closes_stdin_is_denied_in_time(bench: Bench) -> None:
    script = (
        "import sys; from argparse import Namespace;"
        "from tillerman.surfaces.cli.commands import hook;"
        "hook.LONGEST = 1; sys.exit(hook.hook(Namespace(agent='claude', event='x', project=None)))"
    )
    reading, writing = os.pipe()
    try:
        ran = subprocess.run(
            [bench.command()[0], "-c", script],
            stdin=reading,
            env=bench.environment,
            capture_output=True,
            timeout=30,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"took too long" in ran.stderr


def test_the_examples_of_the_documents_print_what_they_should(bench: Bench) -> None:
    text = (Path(__file__).parents[3] / "docs/hooks.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("echo ")]
    program = shlex.join(bench.command())
    messages = [
        subprocess.run(
            ["/bin/sh", "-c", line.replace("| tillerman", f"| {program}")],
            cwd=bench.project,
            env=bench.environment,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for line in lines
    ]
    decisions = [json.loads(one) for one in messages]
    assert decisions[0]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert decisions[1] == {"decision": "allow"}


def test_an_agent_in_a_subfolder_of_the_project_has_the_same_rules(bench: Bench) -> None:
    users_config(
        bench,
        'approve = "edits"\n[[rules]]\npath = "db/migrations/**"\ndeny = "by hand"\n',
    )
    project = Path(os.path.realpath(bench.project))
    bench.run("hooks", "install", "--user", "claude")
    settings = Path(bench.environment["HOME"]) / ".claude/settings.json"
    line = json.loads(settings.read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]

    def said(folder: str, tool: str, **input: Any) -> str | None:
        (project / folder).mkdir(parents=True, exist_ok=True)
        call = {"cwd": str(project / folder), "tool_name": tool, "tool_input": input}
        payload = json.dumps(call).encode()
        return asked(bench, line, payload, CLAUDE_PROJECT_DIR=str(project))[1]

    assert said("db", "Write", file_path=str(project / "db/a")) == "allow"
    assert said("db", "Write", file_path=str(project / "db/migrations/1")) == "deny"
    assert said(".git/hooks", "Write", file_path=str(project / ".git/hooks/pre-commit")) == "deny"
    assert said(".git", "Bash", command="cat f > config") == "deny"


def test_hooks_are_ours_after_the_project_was_moved(bench: Bench) -> None:
    mine = bench.project / ".gemini/settings.json"
    mine.parent.mkdir()
    mine.write_text('{"theme": "x", "hooks": {"BeforeTool": [{"hooks": []}]}}')
    before = files(bench.project)
    bench.run("hooks", "install", *AGENTS)
    moved = bench.project.with_name("moved")
    bench.project.rename(moved)
    bench.project.mkdir()

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        line, variables = bench.command(*words), bench.environment
        return subprocess.run(
            line, cwd=moved, env=variables, capture_output=True, text=True, timeout=60
        )

    rows = json.loads(ran("hooks", "status", "--project", "--json").stdout)
    assert {row["agent"] for row in rows if "for another folder" in row["problem"]} == set(AGENTS)
    assert [row["others"] for row in rows if row["others"]] == [{"BeforeTool": 1}]
    assert ran("hooks", "install", "claude", "opencode").returncode == 0
    commands = (moved / ".claude/settings.local.json").read_text()
    assert commands.count("tillerman hook claude") == 1
    assert str(moved) in commands
    assert ran("hooks", "remove").returncode == 0
    assert files(moved) == before


def test_a_switch_that_turns_all_hooks_off_is_reported(bench: Bench) -> None:
    file = bench.project / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text('{"disableAllHooks": true}')
    done = bench.run("hooks", "install", "claude", "codex")
    assert done.returncode == 0
    assert done.stderr.count("disables all hooks") == 1
    assert str(file) in done.stderr


def test_a_file_with_a_second_name_is_refused(bench: Bench) -> None:
    file, other = bench.project / ".qwen/settings.json", bench.project / "dotfiles.json"
    file.parent.mkdir()
    file.write_text("{}")
    os.link(file, other)
    refused = bench.run("hooks", "install", "qwen")
    assert refused.returncode == 2
    assert "hard link" in refused.stderr
    assert (file.read_text(), file.samefile(other)) == ("{}", True)
