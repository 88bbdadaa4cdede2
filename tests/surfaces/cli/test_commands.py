"""The commands around sessions, agents and config, as programs."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.surfaces.conftest import Bench, wait_for_line
from tillerman.store.session_row import SessionRow
from tillerman.surfaces.rendering import tables


@pytest.fixture
def told(bench: Bench) -> Bench:
    """Two sessions, the second of them about a zebra."""
    bench.mock([{"say": "A horse."}], "--title", "horses")
    bench.mock([{"say": "A **zebra** \x1b[31mruns\x1b[0m."}], "--title", "stripes \x1b]0;x\x07")
    return bench


def ids(bench: Bench) -> list[str]:
    return [row["id"] for row in json.loads(bench.run("sessions", "list", "--json").stdout)]


def test_sessions_are_listed_newest_first(told: Bench) -> None:
    second, first = ids(told)
    listed = told.run("sessions", "list").stdout.splitlines()
    assert re.fullmatch(r"SESSION +WHEN +AGENT +STATE +TURNS +COST +WHAT", listed[0])
    assert re.fullmatch(rf"{second} +just now +mock +completed +1 +\$0\.0000 +stripes", listed[1])
    assert re.fullmatch(rf"{first} +just now +mock +completed +1 +\$0\.0000 +horses", listed[2])
    assert len(told.run("sessions", "list", "-n", "1").stdout.splitlines()) == 2
    none = {
        ("-a", "claude"): "no sessions with claude: `tillerman agents` lists all agents\n",
        ("-a", "nope", "--json"): "[]\n",
    }
    for words, reported in none.items():
        assert told.run("sessions", "list", *words).stdout == reported


def test_a_sessions_state_is_how_its_last_turn_ended(bench: Bench) -> None:
    bench.mock([{"fail": "api_error"}])
    owner = bench.start("run", "-a", "mock", "--json", '[{"say": "Before."}, {"hang": true}]')
    wait_for_line(owner, "Before.")

    def states() -> tuple[list[str], list[str]]:
        listed = json.loads(bench.run("sessions", "list", "--json").stdout)
        table = bench.run("sessions", "list").stdout.splitlines()[1:]
        return [row["status"] for row in listed], [line.split()[4] for line in table]

    assert states() == (["running", "failed"], ["running", "failed"])
    owner.send_signal(signal.SIGINT)
    owner.communicate(timeout=20)
    assert states() == (["cancelled", "failed"], ["cancelled", "failed"])


def test_a_turn_whose_owner_has_ended_is_not_called_running() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    row = SessionRow(id="x", agent="mock", cwd="/", created_at="", status="running")
    for owner, state in {None: "open", gone.pid: "open", os.getpid(): "running"}.items():
        assert tables.session_state(replace(row, owner_pid=owner)) == state


def test_sessions_of_this_folder_are_marked(told: Bench) -> None:
    told.mock([{"say": "x"}], "-C", str(told.home))
    assert len(ids(told)) == 3
    here = json.loads(told.run("sessions", "list", "--here", "--json").stdout)
    assert {row["cwd"] for row in here} == {str(told.project)}
    assert len(here) == 2


def test_a_stored_session_is_shown_as_it_looked(told: Bench) -> None:
    shown = told.run("sessions", "show", "last").stdout
    assert "A zebra ␛[31mruns␛[0m." in shown
    assert "✓ completed" in shown
    assert "\x1b" not in shown
    assert not any(line.endswith(" ") for line in shown.splitlines())
    assert "\x1b[1m" in told.run("sessions", "show", "last", "--color", "always").stdout


def test_search_finds_message_text(told: Bench) -> None:
    found = told.run("sessions", "search", "zeb")
    assert found.returncode == 0
    assert found.stdout.splitlines()[0].startswith(f"{ids(told)[0]}  turn 1  ")
    assert "\x1b" not in found.stdout
    hits = json.loads(told.run("sessions", "search", "zebra", "--json").stdout)
    assert {hit["session"] for hit in hits} == {ids(told)[0]}
    nothing = told.run("sessions", "search", "unicorn")
    assert (nothing.returncode, nothing.stdout) == (1, "nothing found\n")
    nothing = told.run("sessions", "search", "unicorn", "--json")
    assert (nothing.returncode, nothing.stdout) == (1, "[]\n")


def test_a_session_is_exported_as_markdown_jsonl_and_html(told: Bench) -> None:
    session = ids(told)[0]
    assert "A **zebra**" in told.run("sessions", "export", session).stdout
    lines = told.run("sessions", "export", session, "--format", "jsonl").stdout
    assert lines == told.run("sessions", "show", session, "--json").stdout
    path = told.project / "page.html"
    assert told.run("sessions", "export", session, "--format", "html", "-o", str(path)).stdout == ""
    assert path.read_text().lstrip().lower().startswith("<!doctype html>")
    bad = told.run("sessions", "export", session, "-o", "/nowhere/x")
    assert (bad.returncode, bad.stderr) == (
        2,
        "error: cannot write /nowhere/x: No such file or directory\n"
        "hint: choose another file with -o\n",
    )


def test_an_export_has_the_name_of_its_renamed_session(told: Bench) -> None:
    told.run("sessions", "rename", "last", "my <zebra>")
    assert told.run("sessions", "export", "last").stdout.startswith("# my \\<zebra\\>\n")
    page = told.run("sessions", "export", "last", "--format", "html").stdout
    assert "<h1>my &lt;zebra&gt;</h1>" in page
    assert "<title>my &lt;zebra&gt;</title>" in page


def test_an_exported_session_is_replayed_from_its_file(told: Bench) -> None:
    path = told.project / "recording.jsonl"
    told.run("sessions", "export", ids(told)[1], "--format", "jsonl", "-o", str(path))
    again = told.run("run", "-a", f"replay:{path}", "once more")
    assert (again.returncode, again.stdout) == (0, "A horse.\n")


def test_sessions_are_forked_renamed_and_deleted(told: Bench) -> None:
    session = ids(told)[0]
    copy = told.run("sessions", "fork", session[:5]).stdout.strip()
    assert copy in ids(told)
    assert told.run("sessions", "rename", copy, "a new \x1b[1mname").returncode == 0
    assert "a new name" in told.run("sessions", "list").stdout
    stored = told.run("sessions", "delete", copy)
    assert (stored.returncode, stored.stderr) == (
        2,
        "error: nothing was deleted\nhint: --yes deletes without confirmation\n",
    )
    assert told.run("sessions", "delete", copy, "--yes").returncode == 0
    assert copy not in ids(told)
    asked = told.terminal("sessions", "delete", session)
    asked.wait_for("permanently? [y/N]")
    asked.press("y\r")
    assert asked.end() == 0
    assert session not in ids(told)


@pytest.mark.parametrize("command", ["show", "follow", "cancel", "export", "fork", "delete"])
def test_a_missing_session_is_reported(bench: Bench, command: str) -> None:
    done = bench.run("sessions", command, "abc")
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "error: no session matches 'abc'\nhint: `tillerman sessions list` lists all sessions\n",
    )


def test_last_in_a_folder_without_sessions_is_an_error(told: Bench) -> None:
    (told.project / "inner").mkdir()
    done = subprocess.run(
        told.command("sessions", "show", "last"),
        cwd=told.project / "inner",
        env=told.environment,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "error: there is no earlier session in this folder",
    )


def test_bad_titles_prompts_and_requests_are_refused(told: Bench) -> None:
    title = told.run("sessions", "rename", "last", " \x1b ").stderr
    assert title.startswith("error: the title is empty\nhint: ")
    prompt = told.run("sessions", "prompt", "last", " ").stderr
    assert prompt.startswith("error: the prompt is empty\nhint: ")
    unknown = told.run("requests", "answer", "r9", "allow")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("error: request 'r9' is not open")
    assert told.run("requests", "list").stdout == "no open requests\n"


def test_a_question_is_answered_from_elsewhere(bench: Bench) -> None:
    questions = [{"text": "Which?", "choices": [{"label": "A"}, {"label": "B"}]}, {"text": "Name?"}]
    script = json.dumps([{"question": questions}, {"say": "You said {answer}."}])
    owner = bench.start("run", "-a", "mock", script)
    assert owner.stderr
    while not (line := owner.stderr.readline().decode()).startswith("  tillerman requests answer"):
        assert line
    request = line.split()[3]
    command = f"tillerman requests answer {request} TEXT --choose TEXT"
    assert line == f"  {command}\n"
    listed = bench.run("requests", "list").stdout
    assert listed.endswith(f"to answer: {command}\n")
    few = bench.run("requests", "answer", request, "allow", "--choose", "A")
    assert few.returncode == 2
    assert few.stderr.startswith("error: 1 answers for 2 questions: Which?; Name?")
    assert bench.run("requests", "answer", request, "B", "--choose", "Ann").returncode == 0
    output, _ = owner.communicate(timeout=20)
    assert output == b"You said B, Ann.\n"


def test_changed_input_is_allowed_from_elsewhere(bench: Bench) -> None:
    script = json.dumps([{"write": "a.txt", "text": "one\n"}, {"say": "Done."}])
    owner = bench.start("run", "-a", "mock", "--approve", "ask", script)
    assert owner.stderr
    while not (line := owner.stderr.readline().decode()).startswith("  tillerman requests answer"):
        assert line
    request = line.split()[3]
    wrong = bench.run("requests", "answer", request, "maybe")
    assert wrong.returncode == 2
    assert "has no option 'maybe'" in wrong.stderr
    changed = bench.run("requests", "answer", request, "allow", "--input", '{"text": "two\\n"}')
    assert changed.returncode == 0, changed.stderr
    owner.communicate(timeout=20)
    assert (bench.project / "a.txt").read_text() == "two\n"


def test_config_shows_values_and_their_sources(bench: Bench) -> None:
    file = Path(bench.environment["TILLERMAN_HOME"]) / "config.toml"
    assert bench.run("config", "set", "approve", "edits").stdout == f"{file}\n"
    assert bench.run("config", "get", "approve").stdout == "edits\n"
    assert bench.run("config", "get", "approve", TILLERMAN_APPROVE="none").stdout == "none\n"
    rows = {row["key"]: row for row in json.loads(bench.run("config", "show", "--json").stdout)}
    assert rows["approve"]["source"] == {"layer": "user", "where": str(file), "line": 1}
    assert rows["agent"]["source"]["layer"] == "default"
    assert re.search(rf"approve +edits +{file}:1", bench.run("config", "show").stdout)
    assert bench.run("config", "path").stdout == f"{file}  (user)\n"
    for words, message in {
        (
            "get",
            "aprove",
        ): "error: config: unknown setting aprove\nhint: did you mean approve?",
        ("set", "approve", "x"): "error: config set: approve must be one of",
    }.items():
        done = bench.run("config", *words)
        assert done.returncode == 2
        assert done.stderr.startswith(message)


def test_a_projects_settings_count_after_they_are_trusted(bench: Bench) -> None:
    (bench.project / ".tillerman").mkdir()
    file = bench.project / ".tillerman" / "config.toml"
    file.write_text('approve = "auto"\n')
    reported = bench.mock([{"say": "x"}])
    assert reported.stderr.splitlines()[0] == (
        "warning: settings of this project are ignored: approve "
        "(`tillerman config show` shows why, `tillerman trust` enables them)"
    )
    (file.parent / "notes.md").write_text("clear\x1b[2J")
    before = bench.run("config", "get", "approve")
    assert before.stdout == "ask\n"
    assert before.stderr.startswith("warning: approve of this project is ignored: ")
    refused = bench.run("trust")
    assert refused.returncode == 2
    assert refused.stdout == '── config.toml\napprove = "auto"\n── notes.md\nclear\n'
    assert refused.stderr == "error: nothing was trusted\nhint: --yes trusts without confirmation\n"
    asked = bench.terminal("trust")
    asked.wait_for("with its current content? [y/N]")
    asked.press("y\r")
    assert asked.end() == 0
    assert f"{file.parent} is trusted with its current content" in asked.text.replace("\n", "")
    assert bench.run("config", "get", "approve").stdout == "auto\n"
    assert bench.run("trust").stdout.endswith("is already trusted\n")
    file.write_text('approve = "auto"  # changed\n')
    assert bench.run("config", "get", "approve").stdout == "ask\n"
    assert bench.run("trust", "--yes").returncode == 0
    assert bench.run("config", "get", "approve").stdout == "auto\n"
    assert bench.run("trust", "--revoke").stdout == f"{bench.project} is no longer trusted\n"
    assert bench.run("config", "get", "approve").stdout == "ask\n"
    assert bench.run("trust", "--revoke").returncode == 2
    assert bench.run("trust", str(bench.home)).returncode == 2


def test_the_demo_shows_a_whole_turn_and_its_replay(bench: Bench) -> None:
    done = bench.run("demo")
    assert done.returncode == 0, done.stderr
    for words in (
        "? Bash python3 greet.py  to see that it works",
        "→ allowed via demo",
        '+print("Good morning,", name)',
        "2. It is stored",
        "3. It can be replayed",
    ):
        assert words in done.stdout
    assert done.stdout.count("✓ completed") == 2
    assert "--resume" not in done.stdout + done.stderr
    _replayed, first = ids(bench)
    assert first in done.stdout


def test_the_demo_on_a_terminal_can_be_answered(bench: Bench) -> None:
    terminal = bench.terminal("demo")
    terminal.wait_for("[y] allow")
    terminal.press("n")
    assert terminal.end() == 0
    assert "→ denied by you" in terminal.text


HEAVY = (
    "rich",
    "asyncio",
    "apsw",
    "msgspec",
    "tomlkit",
    "tillerman.harness.harness",
    "tillerman.core.events",
)


@pytest.mark.parametrize("words", ["--version", "--help", "run --help", "sessions --help"])
def test_starting_up_loads_nothing_heavy(bench: Bench, words: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "tillerman", *words.split()]
    done = subprocess.run(
        command, env=bench.environment, capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert [name for name in HEAVY if name in loaded] == []
    if words == "--version":
        assert done.stdout.startswith("tillerman 1.")
        assert "argparse" not in loaded


def test_rich_is_not_loaded_for_a_pipe(bench: Bench) -> None:
    script = json.dumps([{"say": "hi"}])
    for view in ([], ["--json"], ["--json=summary"]):
        command = [
            sys.executable, "-X", "importtime", "-m", "tillerman",
            "run", "-a", "mock", *view, script
        ]  # fmt: skip
        done = subprocess.run(
            command,
            env=bench.environment,
            cwd=bench.project,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "tillerman.sessions.service" in loaded
        assert "rich" not in loaded


def test_an_error_inside_the_program_is_a_line_and_debug_shows_where(bench: Bench) -> None:
    blocked = bench.home / "blocked"
    blocked.write_text("")
    environment = {"TILLERMAN_HOME": str(blocked / "inside")}
    done = bench.run("sessions", "list", **environment)
    assert done.returncode != 0
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_closed_standard_output_is_no_traceback(bench: Bench) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        bench.command("sessions", "--help"),
        env=bench.environment,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=20,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", ["--version", "agents", "run -a mock script:hello --json"])
def test_closed_standard_streams_are_replaced(bench: Bench, words: str) -> None:
    command = " ".join(bench.command(*words.split()))
    done = subprocess.run(
        ["bash", "-c", f"{command} 0<&- 1>&- 2>&-"],
        cwd=bench.project,
        env=bench.environment,
        capture_output=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert bench.run("doctor").returncode == 0  # the store is whole


def test_a_character_that_the_terminal_lacks_is_no_error(bench: Bench) -> None:
    done = bench.mock([{"say": "naïve ✓"}], PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "na?ve ?\n")


def test_sigterm_ends_the_turn_in_order(bench: Bench) -> None:
    script = json.dumps([{"say": "Before."}, {"hang": True}])
    process = bench.start("run", "-a", "mock", "--json", script)
    wait_for_line(process, "Before.")
    process.terminate()
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b'"reason":"cancelled"' in output
