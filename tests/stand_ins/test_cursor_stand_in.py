"""The stand-in for Cursor ends, refuses and asks its hooks as the real one was seen to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cursor_stand_in import install_cursor

RECORDINGS = Path(__file__).parents[1] / "recordings" / "cursor"
TURN = ["-p", "--output-format", "stream-json", "--stream-partial-output", "--trust"]
TURN += ["--model", "auto"]


class Cursor:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        self.program = install_cursor(folder / "bin", self.home)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def run(self, *argv: str, prompt: str = "hello") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *argv],
            input=prompt,
            capture_output=True,
            text=True,
            cwd=self.project,
            env=self.env,
            timeout=30,
        )

    def perform(self, *steps: dict[str, Any], flags: list[str] | None = None) -> list[Any]:
        ran = self.run(*TURN, *(flags or []), prompt=f"@@script@@ {json.dumps(steps)}")
        assert (ran.returncode, ran.stderr) == (0, "")
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def results(self, *steps: dict[str, Any], flags: list[str] | None = None) -> list[Any]:
        """What came of each call."""
        lines = self.perform(*steps, flags=flags)
        ends = [one for one in lines if one.get("subtype") == "completed" and "tool_call" in one]
        return [next(iter(one["tool_call"].values()))["result"] for one in ends]

    def hook(self, event: str, command: str, **more: Any) -> None:
        self.hooks({event: [{"command": command, **more}]})

    def hooks(self, hooks: dict[str, Any], folder: Path | None = None) -> None:
        file = (folder or self.project) / ".cursor" / "hooks.json"
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(json.dumps({"version": 1, "hooks": hooks}))


@pytest.fixture
def cursor(tmp_path: Path) -> Cursor:
    return Cursor(tmp_path)


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
def test_a_command_says_what_was_recorded(cursor: Cursor, case: dict[str, Any]) -> None:
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
def test_a_turn_that_cannot_be_ends_as_recorded(cursor: Cursor, name: str, prompt: str) -> None:
    lines = (RECORDINGS / "process_failures.jsonl").read_text().splitlines()
    case = next(one for one in map(json.loads, lines) if one["case"] == name)
    ran = cursor.run(*case["argv"][1:], prompt=prompt)
    assert (ran.returncode, ran.stderr) == (case["exit"], case["stderr"])
    kinds = [json.loads(line)["type"] for line in ran.stdout.splitlines()]
    assert kinds == [json.loads(line)["type"] for line in case["stdout"].splitlines()]


def test_an_unknown_model_is_refused_and_kept_as_the_users_choice(cursor: Cursor) -> None:
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
def test_other_formats_tell_the_result_alone(cursor: Cursor, words: list[str], said: str) -> None:
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


def test_plan_mode_rejects_what_acts(cursor: Cursor) -> None:
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


# -- its hooks -------------------------------------------------------------------------------------


def keys(payload: dict[str, Any]) -> set[str]:
    return payload.keys() - {"model_id", "model_params", "agent_message"}


@pytest.mark.parametrize(
    ("event", "step", "recorded"),
    [
        ("preToolUse", {"shell": "true"}, "preToolUse"),
        ("preToolUse", {"read": "a"}, "preToolUse_read"),
        ("beforeShellExecution", {"shell": "true"}, "beforeShellExecution"),
        ("beforeReadFile", {"read": "a"}, "beforeReadFile"),
        ("afterShellExecution", {"shell": "true"}, "afterShellExecution"),
        ("postToolUse", {"shell": "true"}, "postToolUse"),
        ("postToolUseFailure", {"shell": "false"}, "postToolUseFailure"),
        ("sessionStart", {"say": "x"}, "sessionStart"),
    ],
)
def test_a_hook_is_told_what_was_recorded(
    cursor: Cursor, event: str, step: dict[str, Any], recorded: str
) -> None:
    (cursor.project / "a").write_text("text\n")
    cursor.hook(event, "cat > ../told")
    cursor.perform(step)
    told = json.loads((cursor.project.parent / "told").read_text())
    sample = json.loads((RECORDINGS / "hooks" / f"{recorded}.json").read_text())["request"]
    assert keys(told) - {"cwd"} == keys(sample) - {"cwd"}
    assert told["hook_event_name"] == event
    if "tool_input" in sample:
        assert told["tool_name"] == sample["tool_name"]


def test_an_edit_asks_twice_with_one_id(cursor: Cursor) -> None:
    cursor.hook("preToolUse", "cat >> ../told; echo >> ../told")
    cursor.results({"edit": "a.txt", "content": "hello\n"})
    told = [json.loads(x) for x in (cursor.project.parent / "told").read_text().splitlines()]
    assert [(one["tool_name"], one["tool_input"]) for one in told] == [
        ("Read", {"file_path": "a.txt"}),
        ("Write", {"file_path": "a.txt", "content": "hello\n"}),
    ]
    assert told[0]["tool_use_id"] == told[1]["tool_use_id"]


DENY = """echo '{"permission":"deny","user_message":"No."}'"""
NOTE = "\n\nAgent note: Do not suggest workarounds to the blocked tool."


@pytest.mark.parametrize(
    ("event", "hook", "reason"),
    [
        ("preToolUse", {"command": DENY}, f"No.{NOTE}"),
        ("beforeShellExecution", {"command": DENY}, f"Hook blocked with message: No.{NOTE}"),
        ("preToolUse", {"command": "echo No. >&2; exit 2"}, f"No.{NOTE}"),
        ("preToolUse", {"command": DENY, "matcher": "Shell|Write"}, f"No.{NOTE}"),
        ("preToolUse", {"command": DENY, "matcher": "Read"}, None),
        ("beforeShellExecution", {"command": DENY, "matcher": "curl|wget"}, None),
        ("preToolUse", {"command": "exit 1"}, None),
        ("preToolUse", {"command": "exit 1", "failClosed": True}, f"the hook failed: 1{NOTE}"),
        ("preToolUse", {"command": "echo what"}, None),
        (
            "preToolUse",
            {"command": "echo what", "failClosed": True},
            f"the hook said no JSON{NOTE}",
        ),
        ("preToolUse", {"command": "sleep 60", "timeout": 0.2}, None),
        (
            "preToolUse",
            {"command": "sleep 60", "timeout": 0.2, "failClosed": True},
            f"the hook failed: timeout{NOTE}",
        ),
        ("preToolUse", {"command": """echo '{"permission":"ask"}'"""}, None),
        ("preToolUse", {"command": "true"}, None),
        ("preToolUse", {"command": f"curl https://127.0.0.1; {DENY}"}, None),
    ],
)
def test_a_hook_decides(
    cursor: Cursor, event: str, hook: dict[str, Any], reason: str | None
) -> None:
    cursor.hooks({event: [hook]})
    began = time.monotonic()
    (result,) = cursor.results({"shell": "touch ran"}, flags=["--force"])
    assert time.monotonic() - began < 20
    assert result.get("rejected", {}).get("reason") == reason
    assert (cursor.project / "ran").exists() == (reason is None)


def test_one_unknown_event_voids_the_whole_file(cursor: Cursor) -> None:
    cursor.hooks({"preToolUse": [{"command": DENY}], "notification": [{"command": "true"}]})
    assert "success" in cursor.results({"shell": "true"})[0]


def test_a_hook_may_change_the_command(cursor: Cursor) -> None:
    changed = json.dumps({"permission": "allow", "updated_input": {"command": "touch other"}})
    cursor.hook("preToolUse", f"echo '{changed}'")
    cursor.results({"shell": "touch ran"})
    assert [path.name for path in cursor.project.glob("[!.]*")] == ["other"]


def user_hooks(cursor: Cursor) -> list[str]:
    cursor.hooks({"preToolUse": [{"command": "pwd > told; exit 2"}]}, cursor.home)
    return []


def plugin_hooks(cursor: Cursor) -> list[str]:
    plugin = cursor.home / "plugin"
    (plugin / ".cursor-plugin").mkdir(parents=True)
    (plugin / "hooks").mkdir()
    manifest = {"name": "x", "version": "1.0.0", "hooks": "./hooks/hooks.json"}
    (plugin / ".cursor-plugin" / "plugin.json").write_text(json.dumps(manifest))
    hook = {"command": 'echo "$CURSOR_PLUGIN_ROOT" > told; exit 2'}
    config = {"version": 1, "hooks": {"preToolUse": [hook]}}
    (plugin / "hooks" / "hooks.json").write_text(json.dumps(config))
    return ["--plugin-dir", str(plugin)]


@pytest.mark.parametrize(("prepare", "folder"), [(user_hooks, ".cursor"), (plugin_hooks, "plugin")])
def test_hooks_of_the_user_and_of_a_plugin_run_in_their_own_folder(
    cursor: Cursor, prepare: Callable[[Cursor], list[str]], folder: str
) -> None:
    (result,) = cursor.results({"shell": "true"}, flags=prepare(cursor))
    assert "rejected" in result
    root = cursor.home / folder
    assert (root / "told").read_text() == f"{root}\n"


def test_what_print_mode_does_not_fire_is_not_fired(cursor: Cursor) -> None:
    silent = ["stop", "beforeSubmitPrompt", "afterAgentResponse", "afterAgentThought"]
    cursor.hooks({event: [{"command": "touch ../fired"}] for event in silent})
    cursor.perform({"think": "x"}, {"say": "x"})
    assert not (cursor.project.parent / "fired").exists()


def test_the_session_begins_and_ends_for_its_hooks_and_lends_them_variables(
    cursor: Cursor,
) -> None:
    lent = json.dumps({"env": {"LENT": "yes"}})
    cursor.hooks(
        {
            "sessionStart": [{"command": f"echo '{lent}'"}],
            "sessionEnd": [{"command": "echo $LENT > ../ended"}],
        }
    )
    cursor.perform({"say": "x"})
    assert (cursor.project.parent / "ended").read_text() == "yes\n"


# -- ACP -------------------------------------------------------------------------------------------


def test_it_speaks_acp_as_recorded(cursor: Cursor) -> None:
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
