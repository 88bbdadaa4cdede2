"""Answers of "always": the rule is shown first, applies from then on, and can be forgotten."""

import json
from pathlib import Path

import pytest

from tests.surfaces.conftest import Bench, Program, wait_for_line

ASKS = json.dumps([{"run": "touch a.txt"}, {"say": "Done."}])


def asked(bench: Bench, *words: str) -> tuple[Program, str]:
    """A session that waits in another process, and the id of its request."""
    owner = bench.start("run", "-a", "mock", "--approve", "ask", "--json", *words, ASKS)
    entry = json.loads(wait_for_line(owner, "permission_requested"))
    return owner, f"{entry['session']}/{entry['event']['request_id']}"


def goes_on_unasked(bench: Bench, *words: str) -> bool:
    (bench.project / "a.txt").unlink(missing_ok=True)
    flags = ("--approve", "ask", "--request-timeout", "0.3")
    assert bench.run("run", "-a", "mock", *flags, *words, ASKS).returncode == 0
    return (bench.project / "a.txt").exists()


def test_the_dialog_shows_the_rule_before_it_is_remembered_for_the_session(bench: Bench) -> None:
    terminal = bench.terminal("run", "-a", "mock", "--approve", "ask", ASKS)
    terminal.wait_for("[a] always…")
    terminal.press("a")
    terminal.wait_for("always: allow `touch a.txt`")
    terminal.wait_for("[s] in this session")
    assert not (bench.project / "a.txt").exists()
    terminal.press("s")
    terminal.wait_for("→ allowed always in this session by you")
    assert terminal.end() == 0
    session = json.loads(bench.run("sessions", "list", "--json").stdout)[0]["id"]
    stored = bench.run("requests", "remembered", "--session", session).stdout
    assert "allow touch a.txt" in stored
    assert goes_on_unasked(bench, "--resume", session)
    assert not goes_on_unasked(bench)
    assert bench.run("requests", "forget", "2", "--session", session).returncode == 2
    gone = bench.run("requests", "forget", "1", "--session", session)
    assert (gone.returncode, gone.stdout) == (0, "forgotten: allow touch a.txt\n")
    assert not goes_on_unasked(bench, "--resume", session)


def test_the_dialog_remembers_for_the_project_and_steps_back(bench: Bench) -> None:
    terminal = bench.terminal("run", "-a", "mock", "--approve", "ask", ASKS)
    terminal.wait_for("[a] always…")
    terminal.press("a")
    at = terminal.wait_for("[esc] back")
    terminal.press("d")
    at = terminal.wait_for("always: deny `touch a.txt`", at)
    terminal.press("\x1b")
    at = terminal.wait_for("[a] always…", at)
    terminal.press("a")
    at = terminal.wait_for("[esc] back", at)
    terminal.press("p")
    assert terminal.end() == 0
    assert "→ allowed always in this project by you" in terminal.text
    assert goes_on_unasked(bench)
    assert [path.name for path in bench.project.iterdir()] == ["a.txt"]


def test_always_is_answered_from_another_terminal_after_the_rule_was_seen(bench: Bench) -> None:
    _, name = asked(bench)
    terminal = bench.terminal("requests", "answer", name, "always-project")
    where = f"in this project ({bench.project})"
    terminal.wait_for("remember this? [y/N]")
    assert f"always: allow `touch a.txt` {where}" in " ".join(terminal.text.split())
    terminal.press("n\r")
    assert terminal.end() == 2
    assert "nothing was answered" in terminal.text
    again = bench.terminal("requests", "answer", name, "always-project")
    again.wait_for("remember this? [y/N]")
    again.press("y\r")
    assert again.end() == 0
    assert goes_on_unasked(bench)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("always",), "always: allow `touch a.txt` in this session\n"),
        (("allow", "--remember", "session"), "always: allow `touch a.txt` in this session\n"),
        (("deny", "--remember", "session"), "always: deny `touch a.txt` in this session\n"),
    ],
)
def test_a_script_confirms_in_advance_and_reads_the_rule(
    bench: Bench, words: tuple[str, ...], line: str
) -> None:
    _, name = asked(bench)
    refused = bench.run("requests", "answer", name, *words)
    assert (refused.returncode, refused.stderr) == (
        2,
        f"{line}error: nothing was answered\n"
        "hint: --yes remembers without confirmation; allow answers only once\n",
    )
    done = bench.run("requests", "answer", name, *words, "--yes")
    assert (done.returncode, done.stderr) == (0, line)


def test_remembered_rules_are_listed_and_removed(bench: Bench) -> None:
    assert bench.run("requests", "remembered").stdout == (
        f"no remembered answers for {bench.project}\n"
    )
    _, name = asked(bench)
    bench.run("requests", "answer", name, "always-project", "-y")
    listed = bench.run("requests", "remembered").stdout.splitlines()
    assert listed[0] == f"always, in {bench.project}:"
    assert listed[2].split(maxsplit=3) == ["1", "just", "now", "allow touch a.txt"]
    (stored,) = json.loads(bench.run("requests", "remembered", "--json").stdout)
    assert stored["told"] == "allow `touch a.txt`"
    assert bench.run("requests", "forget", "2").returncode == 2
    gone = bench.run("requests", "forget", "1")
    assert (gone.returncode, gone.stdout) == (0, "forgotten: allow touch a.txt\n")
    assert not goes_on_unasked(bench)


def test_always_for_an_idle_session_applies_when_it_continues(bench: Bench) -> None:
    owner, name = asked(bench)
    owner.kill()
    assert bench.run("requests", "answer", name, "always", "--yes").returncode == 0
    assert goes_on_unasked(bench, "--resume", name.partition("/")[0])
    assert goes_on_unasked(bench, "--resume", name.partition("/")[0])


def test_a_project_behind_a_link_is_the_same_project(bench: Bench) -> None:
    link = Path(bench.home / "link")
    link.symlink_to(bench.project)
    _, name = asked(bench, "-C", str(link))
    bench.run("requests", "answer", name, "always-project", "-y")
    assert goes_on_unasked(bench)
