"""`tillerman run` as a program in a pipe, with the embedded agent."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.surfaces.conftest import Bench, wait_for_line
from tillerman.core.events import Entry, decode_entry
from tillerman.core.transcript.summary_events import summarize

SAY = [{"say": "Hello there."}]
ASKS = [
    {"say": "I write."},
    {"write": "a.txt", "text": "x\n", "else": [{"say": "Denied: {answer}"}]},
    {"say": "Done."},
]


def entries(text: str) -> list[Entry]:
    return [decode_entry(line) for line in text.splitlines()]


def types(text: str) -> list[str]:
    return [json.loads(line)["event"]["type"] for line in text.splitlines()]


def test_only_the_answer_is_on_standard_output(bench: Bench) -> None:
    script = [{"think": "hm"}, {"say": "I look."}, {"run": "true"}, {"say": "It is **fine**."}]
    done = bench.mock(script, "--approve", "auto")
    assert (done.returncode, done.stdout) == (0, "It is **fine**.\n")
    assert "✓ Bash true" in done.stderr
    assert "✓ completed" in done.stderr
    assert "tillerman run --resume" in done.stderr


def test_json_is_one_entry_a_line_without_gaps_and_nothing_else(bench: Bench) -> None:
    done = bench.mock(SAY, "--json")
    assert done.returncode == 0
    seen = entries(done.stdout)
    assert [entry.seq for entry in seen] == list(range(1, len(seen) + 1))
    kinds = types(done.stdout)
    assert kinds[0] == "agent_started"
    assert "turn_started" in kinds
    assert kinds.count("turn_ended") == 1
    stored = bench.run("sessions", "show", "last", "--json").stdout
    assert stored.startswith(done.stdout)


def test_the_summary_is_that_of_the_entries(bench: Bench) -> None:
    done = bench.mock(SAY, "--json=summary")
    items = [json.loads(line) for line in done.stdout.splitlines()]
    whole = bench.run("sessions", "show", "last", "--json").stdout
    expected = [json.loads(json.dumps(_plain(item))) for item in summarize(entries(whole))]
    assert items == expected
    assert [item["type"] for item in items] == ["text", "result"]
    assert items[-1]["status"] == "completed"


def _plain(item: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(item)


def test_the_prompt_comes_from_an_argument_a_file_or_standard_input(bench: Bench) -> None:
    echo = json.dumps([{"say": "You said: {prompt}"}])
    (bench.project / "script.json").write_text(f"[{echo}]")
    (bench.project / "prompt.txt").write_text("from a file")
    run = ("run", "-a", "mock")
    config = {"TILLERMAN_MODEL": "mock-quick"}
    options = bench.project / "tillerman.toml"
    options.write_text("")
    (bench.home.parent / "tillerman").mkdir(exist_ok=True)
    (bench.home.parent / "tillerman" / "config.toml").write_text(
        f'[agents.mock]\nscript = "{bench.project / "script.json"}"\n'
    )
    message = "You said: "
    assert bench.run(*run, "words", **config).stdout == f"{message}words\n"
    assert bench.run(*run, "-f", "prompt.txt").stdout == f"{message}from a file\n"
    assert bench.run(*run, input="from a pipe").stdout == f"{message}from a pipe\n"
    assert bench.run(*run, "-", input="a pipe").stdout == f"{message}a pipe\n"
    assert bench.run(*run, "words", input="and data").stdout == f"{message}words\n\nand data\n"


def test_no_prompt_is_an_error(bench: Bench) -> None:
    done = bench.run("run", "-a", "mock")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'error: the prompt is empty\nhint: tillerman run "what to do"\n'
    binary = bench.run("run", "-a", "mock", input=b"\xff\xfe")
    assert binary.returncode == 2
    assert binary.stderr.startswith("error: standard input is not UTF-8 text\n")


def test_files_go_with_the_prompt(bench: Bench) -> None:
    (bench.project / "a.png").write_bytes(b"\x89PNG")
    (bench.project / "b").write_text("text")
    done = bench.mock([{"say": "{files}"}], "--attach", "a.png", "--attach", "b", "--json")
    started = next(e.event for e in entries(done.stdout) if hasattr(e.event, "attachments"))
    assert [(file.name, file.mime, file.size) for file in started.attachments] == [
        ("a.png", "image/png", 4),
        ("b", "text/plain", 4),
    ]
    assert "a.png (4 bytes" in bench.run("sessions", "show", "last").stdout


def test_exit_codes_report_how_it_ended(bench: Bench) -> None:
    def code(*steps: dict[str, Any], words: tuple[str, ...] = ()) -> int:
        return int(bench.mock(list(steps), *words).returncode)

    assert code({"fail": "api_error"}) == 1
    assert code({"fail": "not_signed_in"}) == 3
    assert code({"fail": "denied"}) == 4
    assert code({"fail": "cost_limit"}) == 5
    assert code({"crash": 7}) == 1
    assert code({"hang": True}, words=("--timeout", "0.5")) == 124
    assert bench.run("run", "-a", "nobody", "x").returncode == 2
    assert bench.run("run", "-a", "mock", "--output-schema", "/dev/null", "x").returncode == 2


def test_a_missing_agent_is_exit_3_with_the_way_to_install_it(bench: Bench) -> None:
    done = bench.run("run", "-a", "claude", "x", PATH="/usr/bin:/bin")
    assert done.returncode == 3
    assert done.stderr.startswith("error: claude is not installed")
    assert "hint: npm install" in done.stderr


def test_a_failure_is_reported_with_its_hint(bench: Bench) -> None:
    done = bench.mock([{"fail": "rate_limited", "message": "slow down", "hint": "wait a bit"}])
    assert "error: slow down\nhint: wait a bit\n✗ failed" in done.stderr


def test_a_session_is_resumed_and_forked_in_a_new_process(bench: Bench) -> None:
    bench.run("run", "-a", "mock", "script:recall")
    (first,) = json.loads(bench.run("sessions", "list", "--json").stdout)
    other = bench.run("run", "-a", "replay", "--resume", first["id"], "x")
    assert (other.returncode, other.stderr.splitlines()[0]) == (
        2,
        f"error: session {first['id']} uses mock",
    )
    again = bench.run("run", "-a", "mock", "--resume", first["id"][:6], "second words")
    assert again.returncode == 0, again.stderr
    assert first["id"] in again.stderr
    forked = bench.run("run", "-c", "--fork", "third words")
    assert forked.returncode == 0, forked.stderr
    rows = json.loads(bench.run("sessions", "list", "--json").stdout)
    assert [(row["turns"], row["forked_from"]) for row in rows] == [(3, first["id"]), (2, None)]


FORGETFUL = """
from msgspec.structs import replace
from tillerman.agents.mock import INFO, MockAgent
from tillerman.agents.mock.wire import MockWire
agent = MockAgent(replace(INFO, name="forgetful", can=INFO.can - {"resume", "fork"}), MockWire)
"""


def test_the_resume_command_is_shown_for_every_installed_agent(
    bench: Bench, tmp_path: Path
) -> None:
    info = tmp_path / "site" / "forgetful-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[tillerman.agents]\nforgetful = forgetful:agent\n")
    (info.parent / "forgetful.py").write_text(FORGETFUL)
    site = {"PYTHONPATH": str(info.parent)}
    done = bench.run("run", "-a", "forgetful", json.dumps(SAY), **site)
    assert (done.returncode, done.stdout) == (0, "Hello there.\n"), done.stderr
    shown = bench.run("sessions", "show", "last", **site)
    gone = bench.run("sessions", "show", "last")  # its package is not there any more
    screen = bench.terminal("run", "-a", "forgetful", json.dumps(SAY), **site)
    assert screen.end() == 0
    for reported in (done.stderr, shown.stdout, screen.text):
        assert "✓ completed" in reported
        assert "--resume" in reported
    assert "✓ completed" in gone.stdout
    assert "--resume" not in gone.stdout


def test_resuming_a_missing_session_is_reported(bench: Bench) -> None:
    assert bench.run("run", "--resume", "abc", "go on").stderr == (
        "error: no session matches 'abc'\nhint: `tillerman sessions list` lists all sessions\n"
    )
    done = bench.run("run", "-c", "go on")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "error: there is no earlier session in this folder",
    )


def test_presets_decide_without_a_person(bench: Bench) -> None:
    assert bench.mock(ASKS, "--approve", "edits").stdout == "Done.\n"
    assert (bench.project / "a.txt").read_text() == "x\n"
    (bench.project / "a.txt").unlink()
    refused = bench.mock(ASKS, "--approve", "readonly")
    assert "⊘ Write a.txt" in refused.stderr
    assert not (bench.project / "a.txt").exists()


def test_an_unanswerable_request_reports_where_to_answer_it(bench: Bench) -> None:
    process = bench.start("run", "-a", "mock", "--approve", "ask", json.dumps(ASKS))
    assert process.stderr
    while not (line := process.stderr.readline().decode()).startswith(
        "  tillerman requests answer"
    ):
        assert line
    command = line.split()
    listed = bench.run("requests", "list")
    assert command[3] in listed.stdout
    assert "Write a.txt" in listed.stdout
    assert listed.stdout.endswith(f"to answer: {line.strip()} (or deny, always)\n")
    assert bench.run(*command[1:]).returncode == 0
    output, _ = process.communicate(timeout=20)
    assert (process.returncode, output.decode()) == (0, "Done.\n")
    late = bench.run(*command[1:])
    assert late.returncode == 1
    assert late.stderr.startswith(f"error: request {command[3]!r} is not open")


def test_one_interrupt_cancels_the_turn_and_still_prints_the_summary(bench: Bench) -> None:
    script = json.dumps([{"say": "Before."}, {"hang": True}])
    process = bench.start("run", "-a", "mock", "--json", script)
    wait_for_line(process, "Before.")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b'"reason":"cancelled"' in output
    assert b"Traceback" not in errors


def test_two_interrupts_exit_at_once_and_nothing_is_left_running(bench: Bench) -> None:
    script = json.dumps([{"deaf": True}, {"say": "Before."}, {"hang": True}])
    process = bench.start("run", "-a", "mock", "--json", script)
    wait_for_line(process, "Before.")
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert b"cancelling" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert process.wait(timeout=10) == 130
    assert time.monotonic() - began < 2
    shown = bench.run("sessions", "show", "last")
    assert "during the turn" in shown.stdout


def test_a_reader_that_closes_the_pipe_is_no_error(bench: Bench) -> None:
    script = json.dumps([{"repeat": 2000, "steps": [{"say": "many words here"}]}])
    words = " ".join(f"'{word}'" for word in bench.command("run", "-a", "mock", "--json", script))
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | head -n 3 >/dev/null"],
        cwd=bench.project,
        env=bench.environment,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 141
    assert done.stderr == b""


def test_a_worktree_of_its_own(bench: Bench) -> None:
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], cwd=bench.project, env=bench.environment, check=True)
    done = bench.mock(ASKS, "--approve", "edits", "--worktree", "try-1")
    assert done.returncode == 0, done.stderr
    assert "on branch tillerman/try-1" in done.stderr
    assert "worktree remove" in done.stderr
    assert not (bench.project / "a.txt").exists()
    outside = bench.run("run", "-a", "mock", "x", "--worktree", "-C", str(bench.home))
    assert outside.returncode == 2
    assert "is not in a git repository" in outside.stderr


def test_agent_text_reaches_standard_output_complete_with_symbols_for_controls(
    bench: Bench,
) -> None:
    script = [{"say": "a\x1b[31mred\x1b]0;title\x07\u202eb"}, {"notice": "n\x1b[2Jx"}]
    done = bench.mock(script)
    assert done.stdout == "a␛[31mred␛]0;title␇⟨202e⟩b\n"
    assert "\x1b" not in done.stderr


def test_variables_are_given_by_name_or_value(bench: Bench) -> None:
    script = [{"run": "echo $SECRET_PLACE-$COLOUR"}]
    variables = ("--env", "SECRET_PLACE", "--env", "COLOUR=red")
    done = bench.mock(script, "--approve", "auto", *variables, SECRET_PLACE="here")
    assert done.returncode == 0
    assert "here-red" in bench.run("sessions", "show", "last").stdout


def test_debug_writes_a_log_file(bench: Bench) -> None:
    done = bench.mock(SAY, "--debug")
    line = done.stderr.splitlines()[0]
    assert line.startswith("log: ")
    path = Path(line.removeprefix("log: "))
    assert path.stat().st_mode & 0o777 == 0o600
    assert "entries 1 to" in path.read_text()
    assert "Hello" not in path.read_text()


def test_an_answer_is_validated_by_its_schema_and_repaired_on_request(bench: Bench) -> None:
    schema = bench.project / "bird.json"
    schema.write_text('{"type": "object", "required": ["bird"]}')
    script = bench.home / "script.json"
    script.write_text(json.dumps([[{"say": "A heron."}], [{"say": '{"bird": 1}'}]]))
    bench.run("config", "set", "agents.mock.script", str(script))
    words = ("run", "-a", "mock", "--output-schema", str(schema))
    repaired = bench.run(*words, "--repair-output", "go")
    assert (repaired.returncode, repaired.stdout) == (0, '{"bird":1}\n')
    failed = bench.mock([{"say": "A heron."}], "--output-schema", str(schema))
    assert (failed.returncode, failed.stdout) == (6, "A heron.\n")
    assert "error: the answer does not match the output schema" in failed.stderr
    schema.write_text('{"type": "birds"}')
    refused = bench.run(*words, "go")
    assert (refused.returncode, refused.stdout) == (2, "")
