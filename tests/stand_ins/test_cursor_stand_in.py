"""The stand-in for Cursor ends, refuses and runs its hooks as recorded from the real one."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.cursor_alone import TURN, Cursor

RECORDINGS = Path(__file__).parents[1] / "recordings" / "cursor"


def cases(file: str, *names: str) -> list[Any]:
    found = map(json.loads, (RECORDINGS / file).read_text().splitlines())
    wanted = [one for one in found if not names or one["case"] in names]
    return [pytest.param(one, id=one["case"]) for one in wanted]


# -- its command line ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("auth_error.jsonl"))
def test_without_a_login_it_ends_as_recorded(cursor: Cursor, case: dict[str, Any]) -> None:
    (cursor.home / ".config" / "cursor" / "auth.json").unlink()
    cursor.env |= case.get("env", {})
    ran = cursor.run(*case["argv"][1:])
    assert (ran.returncode, ran.stderr) == (case["exit"], case["stderr"])
    if case["stdout"].startswith("{"):
        assert json.loads(ran.stdout) == json.loads(case["stdout"])
    else:
        assert ran.stdout == case["stdout"]


ALIKE = (
    "version", "status", "status json", "about", "about json", "models", "list-models",
    "ls without a terminal", "resume, nothing to resume", "mcp list, none", "logout",
)  # fmt: skip


@pytest.mark.parametrize("case", cases("commands.jsonl", *ALIKE))
def test_a_command_prints_what_was_recorded(cursor: Cursor, case: dict[str, Any]) -> None:
    ran = cursor.run(*case["argv"][1:])
    assert (ran.returncode, ran.stdout, ran.stderr) == (
        case["exit"],
        case["stdout"],
        case["stderr"],
    )


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("folder not trusted", "hello"),
        ("no such folder", "hello"),
        ("unknown option", "hello"),
        ("plan does not include the model", "@@plan_wall@@"),
    ],
)
def test_an_impossible_turn_ends_as_recorded(cursor: Cursor, name: str, prompt: str) -> None:
    lines = (RECORDINGS / "process_failures.jsonl").read_text().splitlines()
    case = next(one for one in map(json.loads, lines) if one["case"] == name)
    ran = cursor.run(*case["argv"][1:], prompt=prompt)
    assert (ran.returncode, ran.stderr) == (case["exit"], case["stderr"])
    kinds = [json.loads(line)["type"] for line in ran.stdout.splitlines()]
    assert kinds == [json.loads(line)["type"] for line in case["stdout"].splitlines()]


def test_an_unknown_model_is_refused_and_stored_as_the_users_choice(cursor: Cursor) -> None:
    ran = cursor.run("-p", "--trust", "--model", "no-such-model")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Cannot use this model: no-such-model. Available models: auto, ")
    config = json.loads((cursor.home / ".cursor" / "cli-config.json").read_text())
    assert config["model"] == {"modelId": "no-such-model"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Hello, and welcome to the project.\n"),
        (["--output-format", "json"], "Hello, and welcome to the project."),
    ],
)
def test_other_formats_print_the_result_alone(cursor: Cursor, words: list[str], said: str) -> None:
    ran = cursor.run("-p", "--trust", "--model", "auto", *words)
    assert (json.loads(ran.stdout)["result"] if words else ran.stdout) == said


@pytest.mark.parametrize(
    ("number", "code", "stderr"),
    [(signal.SIGINT, 130, "Aborting operation...\n"), (signal.SIGTERM, -15, "")],
)
def test_a_signal_ends_it_without_a_result(
    cursor: Cursor, number: int, code: int, stderr: str
) -> None:
    steps = [{"say": "Hel"}, {"wait": 600}]
    with subprocess.Popen(
        [cursor.program, *TURN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cursor.project,
        env=cursor.env,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"@@script@@ {json.dumps(steps)}")
        process.stdin.close()
        process.stdin = None
        kinds = []
        while "assistant" not in kinds:
            kinds.append(json.loads(process.stdout.readline())["type"])
        process.send_signal(number)
        out, errors = process.communicate(timeout=10)
        assert (process.returncode, errors) == (code, stderr)
        assert "result" not in out


# -- its gates -------------------------------------------------------------------------------------


def test_print_mode_approves_by_itself(cursor: Cursor) -> None:
    (result,) = cursor.results({"shell": "touch ran"})
    assert "success" in result
    assert (cursor.project / "ran").exists()


def test_plan_mode_rejects_calls_with_side_effects(cursor: Cursor) -> None:
    steps = [{"shell": "touch ran"}, {"edit": "a", "content": ""}, {"read": "a"}]
    results = cursor.results(*steps, flags=["--mode", "plan"])
    assert [next(iter(one)) for one in results] == ["rejected", "rejected", "error"]
    assert list(cursor.project.iterdir()) == []


@pytest.mark.parametrize("name", ["shell_tool_call", "shellToolCall"])
def test_a_tool_that_is_excluded_is_not_called(cursor: Cursor, name: str) -> None:
    assert cursor.results({"shell": "touch ran"}, flags=["--exclude-tools", name]) == []
    assert list(cursor.project.iterdir()) == []


@pytest.mark.parametrize(
    ("rule", "step"),
    [
        ("Shell(*)", {"shell": "touch x"}),
        ("Shell(touch)", {"shell": "touch x"}),
        ("Write(**)", {"edit": "x", "content": ""}),
        ("Write(**/*.key)", {"edit": "deep/er/x.key", "content": ""}),
        ("Write(/**)", {"edit": "x", "content": ""}),
        ("Read(.env*)", {"read": ".env.local"}),
    ],
)
def test_its_lists_deny_even_with_force(cursor: Cursor, rule: str, step: dict[str, Any]) -> None:
    config = cursor.home / ".cursor" / "cli-config.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"version": 1, "permissions": {"deny": [rule]}}))
    (result,) = cursor.results(step, flags=["--force"])
    error = "Command blocked by permissions configuration"
    assert result["permissionDenied"]["error"] == error
    assert list(cursor.project.iterdir()) == []


# -- ACP -------------------------------------------------------------------------------------------


def test_it_follows_acp_as_recorded(cursor: Cursor) -> None:
    lines = (RECORDINGS / "acp" / "acp.duplex.jsonl").read_text()
    recorded = list(map(json.loads, lines.replace("/proj", str(cursor.project)).splitlines()))
    with subprocess.Popen(
        [cursor.program, "acp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=cursor.project,
        env=cursor.env,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("garbage\n")
        for line in recorded:
            if line["dir"] == "out":
                process.stdin.write(json.dumps(line["msg"]) + "\n")
                process.stdin.flush()
            else:
                assert json.loads(process.stdout.readline()) == line["msg"]
        process.stdin.close()
        process.stdin = None
        assert process.wait(10) == 0
    assert (cursor.project / "probe.txt").read_text() == "probe"
