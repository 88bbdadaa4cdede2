"""`tillerman policy`, and sessions with rules of config files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.surfaces.conftest import Bench
from tillerman.surfaces.rendering.policy_tables import ADVICE

RULES = """\
[[rules]]
name = "no-rm"
deny = "use trash instead"
command = "rm *"

[[rules]]
name = "touch"
allow = true
command = "touch *"

[[rules]]
name = "slow"
rewrite = "touch b.txt"
command = "make install"
"""


@pytest.fixture
def config(bench: Bench) -> Path:
    file = Path(bench.environment["TILLERMAN_HOME"]) / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(RULES)
    return file


def test_check_lists_the_rules_of_a_file_and_what_is_never_reached(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES + '[[rules]]\nask = true\ncommand = "rm *"\n')
    done = bench.run("policy", "check", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split("  ")[0].strip() for line in done.stdout.splitlines()] == [
        "RULE",
        "no-rm",
        "touch",
        "slow",
        "file.4",
    ]
    assert "never reached: see no-rm" in done.stdout
    fields = json.loads(bench.run("policy", "check", str(file), "--json").stdout)
    assert fields[0] == {
        "name": "no-rm",
        "deny": "use trash instead",
        "command": "rm *",
        "told": "deny `rm *`",
        "source": f"{file}:1",
    }


def test_a_partly_reachable_rule_is_not_reported_as_unreachable(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("""\
[[rules]]
name = "git"
allow = true
command = "git *"

[[rules]]
name = "no-git"
deny = "for what the rule before cannot be sure of"
command = "git *"

[[rules]]
name = "all"
allow = true

[[rules]]
name = "guarded"
deny = "for files in the words of a command"
path = "protected"

[[rules]]
name = "servers"
ask = true
tool = "mcp"

[[rules]]
name = "tests"
allow = true
command = "pytest *"
""")
    done = bench.run("policy", "check", str(file))
    notes = {line.split()[0]: "never reached: see all" in line for line in done.stdout.splitlines()}
    assert notes == {
        "RULE": False, "git": False, "no-git": False, "all": False, "guarded": False,
        "servers": True, "tests": True,
    }  # fmt: skip
    assert "deny any use of protected" in done.stdout


def test_check_reports_where_a_file_is_invalid(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[[rules]]\ndeny = "x"\nhots = "y"\n')
    done = bench.run("policy", "check", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"error: {file}:1: rule 1 has an unknown key 'hots'\nhint: did you mean host?\n",
    )
    gone = bench.run("policy", "check", str(tmp_path / "gone.toml"))
    assert (gone.returncode, gone.stderr) == (
        2,
        f"error: {tmp_path / 'gone.toml'} cannot be read: No such file or directory\n"
        "hint: check that it exists, and its permissions\n",
    )


def test_without_a_file_it_checks_the_rules_in_effect(bench: Bench, config: Path) -> None:
    assert "no-rm" in bench.run("policy", "check").stdout
    config.unlink()
    assert bench.run("policy", "check").stdout == "no rules: only presets apply\n"


def test_explain_reports_the_rule_its_source_and_that_it_is_advice(
    bench: Bench, config: Path
) -> None:
    done = bench.run("policy", "explain", "--", "Bash", "ls; rm x > /dev/null")
    assert (done.returncode, done.stderr) == (0, "")
    *reported, enforced, advice = done.stdout.splitlines()
    assert (reported, advice) == (
        [
            f"deny  by no-rm, from {config}:1",
            "       use trash instead",
            "",
            "Bash `ls; rm x > /dev/null`",
            "  allow   runs ls  reads.commands: `ls` only reads",
            "  allow   Read .  reads",
            "  deny    runs rm x  no-rm",
            "  —       Delete x",
            "",
        ],
        ADVICE,
    )
    how = (
        "enforced: checked again"
        if os.geteuid() == 0
        else "advisory: for ordinary users it must be enabled"
    )
    assert enforced.startswith(how)


def test_explain_takes_agent_mode_and_preset(bench: Bench, config: Path) -> None:
    def rule(*words: str) -> str:
        result = bench.run("policy", "explain", "--json", *words)
        return str(json.loads(result.stdout)["decision"]["rule"])

    write = ("--", "Write", '{"file_path": "a.py"}')
    assert rule(*write) == "ask.rest"
    assert rule("--approve", "edits", *write) == "edits.writes"
    assert rule("--mode", "plan", *write) == "mode.writes"
    config.write_text('[[rules]]\nname = "c"\ndeny = "x"\nagent = "codex"\n')
    assert (rule(*write), rule("-a", "codex", *write)) == ("ask.rest", "c")
    assert rule("--", "mcp__github__create_issue", "{}") == "ask.rest"


def test_explain_can_list_every_rule_that_it_passed(bench: Bench, config: Path) -> None:
    result = bench.run("policy", "explain", "-v", "--json", "--", "Bash", '{"command": "touch x"}')
    step = json.loads(result.stdout)["steps"][0]
    assert (step["what"], step["decision"]["rule"]) == ("touch x", "touch")
    assert step["passed"][-1] == "no-rm"
    assert step["passed"][0] == "mode.writes"


def test_explain_shows_the_result_of_a_rewrite(bench: Bench, config: Path) -> None:
    done = bench.run("policy", "explain", "--", "Bash", "make install")
    assert done.stdout.splitlines()[:2] == [
        f"rewrite  by slow, from {config}:11",
        "       Bash `touch b.txt`",
    ]


@pytest.mark.parametrize("words", [["git status"], ["git", "status"], ["Bash", "git status"]])
def test_explain_takes_a_command_without_the_name_of_a_tool(bench: Bench, words: list[str]) -> None:
    done = bench.run("policy", "explain", "--", *words)
    assert done.stdout.startswith(
        "allow  by reads.commands, from tillerman\n       `git status` only"
    )


def test_explain_reports_errors_in_its_arguments(bench: Bench) -> None:
    done = bench.run("policy", "explain", "--", "Write", "{x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: INPUT: not JSON: ")
    gone = bench.run("policy", "explain", "-C", "/nowhere/at/all", "--", "Read")
    assert (gone.returncode, gone.stderr) == (
        2,
        "error: /nowhere/at/all: no such folder\nhint: create it, or give another folder\n",
    )
    kind = bench.run("policy", "explain", "--", "shell", '{"command": "rm -rf /"}')
    message = "error: unknown tool 'shell'\nhint: did you mean Bash?\n"
    assert (kind.returncode, kind.stderr) == (2, message)


def test_the_name_of_a_rule_writes_nothing_but_text_to_a_terminal(
    bench: Bench, tmp_path: Path
) -> None:
    name = r"a\u001b]0;owned\u0007\u001b[2K\nallow  by me"
    rules = f'[[rules]]\nname = "{name}"\ndeny = "no"\ncommand = "rm *"\n'
    home = Path(bench.environment["TILLERMAN_HOME"])
    home.mkdir(parents=True)
    (home / "config.toml").write_text(rules)
    cases = tmp_path / "cases.toml"
    cases.write_text('[[cases]]\ncommand = "rm x"\nexpect = "allow"\n')
    for words in (
        ("explain", "-v", "--", "Bash", "ls; rm x"),
        ("check",),
        ("test", str(cases)),
    ):
        reported = bench.run("policy", *words).stdout
        assert "allow by me" in reported
        assert "\nallow" not in reported
        assert not {"\x1b", "\x07"} & set(reported)


@pytest.mark.parametrize(
    ("case", "wrong"),
    [
        ("command = 5", "command must be a string, not 5"),
        ('command = ["rm", "x"]', "command must be a string, not ['rm', 'x']"),
        ("tool = 5", "tool must be a string, not 5"),
        ('command = "ls"\nrule = 5', "rule must be a string, not 5"),
    ],
)
def test_an_invalid_case_is_reported_by_name(
    bench: Bench, tmp_path: Path, case: str, wrong: str
) -> None:
    cases = tmp_path / "cases.toml"
    good = '[[cases]]\ncommand = "ls"\nexpect = "ask"\n'
    cases.write_text(f'{good}[[cases]]\nexpect = "ask"\n{case}\n')
    done = bench.run("policy", "test", str(cases))
    assert done.returncode == 2
    assert f"{cases}: case 2: {wrong}" in done.stderr


def test_cases_that_are_decided_otherwise_are_a_table_and_an_exit_of_1(
    bench: Bench, config: Path, tmp_path: Path
) -> None:
    cases = tmp_path / "cases.toml"
    cases.write_text(
        '[[cases]]\ncommand = "rm x"\nexpect = "deny"\nrule = "no-rm"\n'
        '[[cases]]\ncommand = "make"\nexpect = "allow"\n'
        '[[cases]]\ntool = "Read"\ninput = { file_path = "a" }\nexpect = "allow"\n'
    )
    done = bench.run("policy", "test", str(cases))
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            "CASE  EXPECTED  DECIDED       CALL",
            "2     allow     ask ask.rest  make",
            "3 cases, 1 with a different decision",
        ],
    )
    fields = json.loads(bench.run("policy", "test", str(cases), "--json").stdout)
    assert (fields["cases"], [row["number"] for row in fields["differing"]]) == (3, [2])
    cases.write_text('[[cases]]\ncommand = "rm x"\nexpect = "deny"\n')
    passed = bench.run("policy", "test", str(cases))
    assert (passed.returncode, passed.stdout) == (0, "1 case\n")


# -- sessions --------------------------------------------------------------------------------------


def answered(bench: Bench, command: str, *words: str) -> list[tuple[str, str, str]]:
    done = bench.mock(
        [{"run": command}, {"say": "Done."}], "--json", "--request-timeout", "0.5", *words
    )
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    return [
        (event["answer"]["option"], event["by"], event.get("surface", ""))
        for event in events
        if event["type"] == "request_answered"
    ]


def test_a_session_uses_the_rules_of_the_users_config(bench: Bench, config: Path) -> None:
    assert answered(bench, "touch a.txt") == [("allow", "policy", "touch")]
    assert (bench.project / "a.txt").exists()
    assert answered(bench, "rm a.txt") == [("deny", "policy", "no-rm")]
    assert answered(bench, "true; r''m a.txt", "--approve", "auto") == [("deny", "policy", "no-rm")]
    assert (bench.project / "a.txt").exists()


def test_a_session_is_tightened_by_an_untrusted_project_and_not_loosened(
    bench: Bench, config: Path
) -> None:
    folder = bench.project / ".tillerman"
    folder.mkdir()
    (folder / "config.toml").write_text(
        '[[rules]]\nname = "theirs"\nallow = true\ncommand = "rm *"\n'
        '[[rules]]\nname = "held"\ndeny = "x"\ncommand = "touch *"\n'
    )
    assert answered(bench, "rm a.txt") == [("deny", "policy", "no-rm")]
    assert answered(bench, "touch a.txt") == [("deny", "policy", "held")]
    assert bench.run("trust", "--yes").returncode == 0
    (bench.project / "a.txt").touch()
    assert answered(bench, "rm a.txt") == [("allow", "policy", "theirs")]
    assert not (bench.project / "a.txt").exists()
