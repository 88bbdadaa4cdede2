"""A line whose reading stopped may run and write anything: it needs approval, and rules apply."""

from __future__ import annotations

from pathlib import PurePosixPath
from random import Random
from typing import Any

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy
from tillerman.core.permission.shell.reader import read

HERE = DecisionContext(PurePosixPath("/ws"), home=PurePosixPath("/home/me"))
UNREAD = [
    "echo 'x",
    'echo "x',
    "echo `x",
    "echo $(x",
    "echo ${x",
    "ls )",
    "ls }; fi",
    "(" * 300,
    "if true; then ls",
    "case x in",
    "ls; " * 2_000,
    "echo " + "x" * 100_001,
    "echo $((1 +",
    "ls \\x00".replace("\\x00", "\x00"),
    "{ ls",
    "for",
    "while",
    "ls;; ls",
    "a=(1",
    "[[ -f x",
    "cat <(ls",
    "ls |",
    "ls &&",
]
WRITES = "echo x > .git/hooks/pre-commit"


def decide(line: str, preset: str = "auto", **rule: Any) -> tuple[str, str]:
    rules = [rule_of(rule, "rules.toml:1", name="mine")] if rule else []
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    decision = Policy.preset(preset, rules=rules).decide(request, HERE)
    return decision.verdict, decision.rule


@pytest.mark.parametrize("line", UNREAD, ids=lambda line: repr(line[:20]))
def test_auto_asks_about_a_line_that_was_not_fully_parsed(line: str) -> None:
    assert read(line).unread
    verdict, rule = decide(line)
    assert verdict == "ask"
    assert rule in ("guard.unread", "guard.hidden")


@pytest.mark.parametrize("line", UNREAD, ids=lambda line: repr(line[:20]))
@pytest.mark.parametrize(
    "rule",
    [
        {"deny": "no", "command": "rm *"},
        {"deny": "no", "path": "src/**"},
        {"deny": "no", "host": "evil.test"},
        {"deny": "no", "tool": "write", "path": "src/**"},
    ],
    ids=str,
)
def test_every_rule_that_denies_may_match_it(line: str, rule: dict[str, Any]) -> None:
    assert decide(line, **rule)[0] == "ask"
    assert decide(line, "readonly", **rule)[0] == "deny"


@pytest.mark.parametrize("line", UNREAD, ids=lambda line: repr(line[:20]))
def test_no_rule_on_commands_allows_it(line: str) -> None:
    assert decide(line, "auto", allow=True, command=["*", "ls", "echo *"])[0] == "ask"
    assert decide(line, "ask", allow=True, command=["*", "ls", "echo *"])[0] == "ask"


@pytest.mark.parametrize("mode", ["plan", "ask"])
def test_a_mode_that_changes_nothing_denies_it(mode: Any) -> None:
    planning = DecisionContext(HERE.cwd, mode=mode)
    for line in UNREAD:
        request = PermissionRequested(
            request_id="r", tool="Bash", title="", input={"command": line}
        )
        assert Policy.preset("auto").decide(request, planning).verdict == "deny"


@pytest.mark.parametrize(
    "line",
    [
        f"declare -a a=(1 2); {WRITES}",
        f"export a=(1); {WRITES}",
        f"ls !(a); {WRITES}",
        "; ".join(["true"] * 600 + [WRITES]),
        "(" * 30 + "true" + ")" * 30 + f"; {WRITES}",
        f"echo {'x' * 100_001}; {WRITES}",
        f"find . -type f -delete; {WRITES}",
        f"echo ${{x:-'}}'}}; {WRITES}",
        f"shopt -s extglob\necho !(x); {WRITES}",
    ],
    ids=lambda line: repr(line[:20]),
)
def test_what_stopped_the_parser_does_not_hide_what_follows(line: str) -> None:
    verdict, rule = decide(line)
    assert verdict in ("ask", "deny")
    assert rule.startswith("guard.")


def test_lines_that_are_cut_anywhere_are_never_more_allowed_than_whole_ones() -> None:
    """Cutting a line cannot make `auto` allow what it writes to a protected file before the cut."""
    chance = Random(13)
    parts = ["ls", "cat 'a b'", "x=$(date)", "if true; then ls; fi", 'echo "$HOME"', "a=(1 2)"]
    for _ in range(300):
        line = "; ".join([WRITES, *chance.choices(parts, k=4)])
        cut = line[: chance.randrange(len(WRITES), len(line))]
        assert decide(cut)[0] in ("ask", "deny"), cut


@pytest.mark.parametrize(
    "line",
    [
        "PATH=tools eval npm test",
        "f() { npm test; }; PATH=tools f",
        "f() { npm test; }; g() { f; }; PATH=tools g",
        "PATH=tools . /dev/stdin <<< 'npm test'",
        "PATH=tools eval eval npm test",
    ],
)
def test_a_search_path_for_one_command_counts_for_all_that_it_runs(line: str) -> None:
    assert decide("npm test", "ask", allow=True, command="npm test")[0] == "allow"
    assert decide(line, "ask", allow=True, command="npm test")[0] == "ask"
