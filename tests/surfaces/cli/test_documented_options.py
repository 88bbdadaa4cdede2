"""Options and settings that the pages promise, each seen from outside."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

from tests.surfaces.conftest import Bench


def configure(bench: Bench, text: str) -> None:
    home = Path(bench.environment["TILLERMAN_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)


def test_a_system_prompt_is_a_text_or_a_file(bench: Bench) -> None:
    (bench.project / "role.txt").write_text("You review.\n")
    for given in ("You review.", "@role.txt"):
        done = bench.mock([{"say": "{system}"}], "--system", given)
        assert (done.stdout.strip(), done.stderr.count("error")) == ("You review.", 0)


def test_the_workspace_tools_are_switched_on_by_the_config(bench: Bench) -> None:
    (bench.project / "here.txt").write_text("x")
    listing = [{"call": "tillerman.list_directory", "input": {}}, {"say": "{result}"}]
    assert "here.txt" not in bench.mock(listing, "--approve", "auto").stdout
    configure(bench, "[workspace]\ntools = true\n")
    done = bench.mock(listing, "--approve", "auto")
    assert (done.returncode, "here.txt" in done.stdout) == (0, True)


def test_a_copy_of_the_state_has_every_session(bench: Bench) -> None:
    assert bench.mock([{"say": "Kept."}]).returncode == 0
    home = Path(bench.environment["TILLERMAN_HOME"])
    copy = home.with_name("copy")
    shutil.copytree(home / "state", copy / "state")
    shutil.rmtree(home)
    shown = bench.run("sessions", "show", "last", TILLERMAN_HOME=str(copy))
    assert (shown.returncode, "Kept." in shown.stdout) == (0, True)
    again = bench.run("run", "-c", json.dumps([{"say": "Again."}]), TILLERMAN_HOME=str(copy))
    assert (again.returncode, again.stdout) == (0, "Again.\n")


def test_a_limit_of_the_machine_is_an_error_of_the_system(bench: Bench) -> None:
    words = shlex.join(bench.command("run", "--json", "-a", "mock", "Hello"))
    failed = subprocess.run(
        ["sh", "-c", f"ulimit -n 14; exec {words}"],
        cwd=bench.project,
        env=bench.environment,
        capture_output=True,
        timeout=60,
    )
    error = json.loads(failed.stdout)["error"]
    assert (error["kind"], error["exit_code"]) == ("system_error", failed.returncode)


def test_an_answer_that_was_remembered_counts_for_hooks(bench: Bench) -> None:
    call = json.dumps({"tool_name": "Bash", "tool_input": {"command": "touch a.txt"}})
    words = ("hook", "claude", "PreToolUse", "--project", str(bench.project))
    assert '"permissionDecision":"ask"' in bench.run(*words, input=call).stdout.replace(" ", "")
    terminal = bench.terminal("run", "-a", "mock", json.dumps([{"run": "touch a.txt"}]))
    terminal.wait_for("[a] always")
    terminal.press("a")
    terminal.wait_for("this project")
    terminal.press("p")
    assert terminal.end() == 0
    assert '"permissionDecision":"allow"' in bench.run(*words, input=call).stdout.replace(" ", "")


def test_a_remembered_denial_applies_in_every_folder(bench: Bench) -> None:
    (bench.project / "web").mkdir()
    lines = ("make x", "cd web && make x")
    terminal = bench.terminal("run", "-a", "mock", json.dumps([{"run": "make x"}]))
    terminal.wait_for("[a] always")
    terminal.press("a")
    terminal.wait_for("[d] deny")
    terminal.press("d")
    terminal.wait_for("always: deny")
    terminal.press("p")
    assert terminal.end() == 0
    for line in lines:
        explained = bench.run("policy", "explain", "--json", "--", "Bash", line)
        assert json.loads(explained.stdout)["decision"]["verdict"] == "deny", line


def test_a_title_and_a_model_are_given_on_the_command_line(bench: Bench) -> None:
    done = bench.mock([{"say": "{model}"}], "--title", "greetings", "-m", "mock-thorough")
    assert done.stdout.strip() == "mock-thorough"
    (row,) = json.loads(bench.run("sessions", "list", "--json").stdout)
    assert row["title"] == "greetings"


def test_an_agent_has_a_default_model_and_flags_in_the_config(bench: Bench) -> None:
    configure(bench, '[agents.mock]\nmodel = "mock-thorough"\nflags = ["--effort", "high"]\n')
    done = bench.mock([{"say": "{model} {effort}"}])
    assert done.stdout == "mock-thorough high\n"


def test_an_unanswered_request_waits_for_an_hour_by_default(bench: Bench) -> None:
    assert bench.run("config", "get", "limits.request").stdout.split()[0] == "1h"


def test_a_session_is_opened_in_the_interface_by_its_id(bench: Bench) -> None:
    assert bench.mock([{"say": "Said before."}]).returncode == 0
    for name in ("last", json.loads(bench.run("sessions", "list", "--json").stdout)[0]["id"][:6]):
        terminal = bench.terminal("tui", name, size=(100, 40))
        terminal.wait_for("Said before.")
        terminal.press("\x11")
        assert terminal.end() == 0


def test_without_a_terminal_the_program_alone_prints_help(bench: Bench) -> None:
    done = bench.run()
    assert done.returncode in (0, 2)
    assert "usage: tillerman" in done.stdout + done.stderr


def test_a_card_of_a_slash_command_is_not_in_the_log(bench: Bench) -> None:
    terminal = bench.terminal("tui", "-a", "mock", size=(100, 40))
    terminal.wait_for("mock")
    terminal.press('[{"say": "Hello."}]')
    terminal.wait_for("Hello")
    terminal.press("\r")
    terminal.wait_for("completed")
    terminal.press("/cost")
    terminal.listen(0.5)
    terminal.press("\r")
    terminal.wait_for("turn")
    terminal.press("\x11")
    assert terminal.end() == 0
    log = bench.run("sessions", "show", "last", "--json").stdout
    assert "cost_usd" in log or "turn_ended" in log
    assert "/cost" not in log
