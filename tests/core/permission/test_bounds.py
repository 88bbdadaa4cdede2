"""No request takes long to decide, whatever its size, because all others wait for it."""

from __future__ import annotations

import time
from pathlib import PurePosixPath

import pytest

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule

DEEP = "/".join(["a"] * 120)
HERE = DecisionContext(PurePosixPath("/ws"), home=PurePosixPath("/home/me"))
POLICY = Policy.preset(
    "auto",
    rules=[
        Rule("stars", "deny", "no", commands=("a*a*a*a*a*b", "* * * * * *z", "rm *")),
        Rule("paths", "deny", "no", paths=("**/*a*/*b*/**/*.sql", "*a*a*a*b")),
    ],
)
MANY = 100_000
LINES = {
    "letters": "a" * MANY,
    "words": "a " * (MANY // 2),
    "digits": "1" * MANY,
    "commands": "a;" * (MANY // 2),
    "pipes": "a|" * (MANY // 2),
    "quotes": "'" * MANY,
    "double quotes": '"' * MANY,
    "backslashes": "\\" * MANY,
    "backticks": "`" * MANY,
    "dollars": "$" * MANY,
    "substitutions": "$(" * (MANY // 2),
    "closed substitutions": "$(a" * 200 + ")" * 200,
    "arithmetic": "$((" * (MANY // 3),
    "parentheses": "(" * MANY,
    "closed parentheses": "(" * 50_000 + ")" * 50_000,
    "braces": "{" * MANY,
    "lists": "{a,b}" * (MANY // 5),
    "lists in lists": "{a," * 5_000 + "}" * 5_000,
    "ranges": "{1..9}" * (MANY // 6),
    "globs": "a*" * (MANY // 2),
    "brackets": "[" * MANY,
    "expansions": "${a:-" * (MANY // 5),
    "documents": "cat <<E\n" * (MANY // 8),
    "one document": "cat <<E\n" + "$(a)\n" * (MANY // 5),
    "redirections": "a " + ">b " * (MANY // 3),
    "assignments": "a=b " * (MANY // 4),
    "cases": "case a in " * (MANY // 10),
    "folders": "cd a;" * (MANY // 5),
    "wrappers": "watch nohup " * (MANY // 12),
    "shells": "sh -c " * (MANY // 6),
    "elsewhere": "sudo 'a b' " + "'a b' " * (MANY // 6),
    "sed": "sed '" + "/s" * (MANY // 2) + "'",
    "awk": "awk '" + "print" * (MANY // 5) + "'",
    "addresses": "curl " + "a" * (MANY - 20) + "://",
    "hosts": "curl " + "a." * (MANY // 2),
    "operands": "rm " + "a " * (MANY // 2),
    "holes": "a" + "$b" * (MANY // 2),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_command_line_of_any_shape_is_decided_in_time(line: str) -> None:
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    begin = time.process_time()
    POLICY.decide(request, HERE)
    assert time.process_time() - begin < 3


@pytest.mark.parametrize("path", ["a" * MANY, "a/" * (MANY // 2), "../" * (MANY // 3), "ab/" * 900])
def test_a_path_of_any_shape_is_decided_in_time(path: str) -> None:
    request = PermissionRequested(request_id="r", tool="Write", title="", input={"file_path": path})
    begin = time.process_time()
    POLICY.decide(request, HERE)
    assert time.process_time() - begin < 3


def test_the_last_of_many_commands_is_still_decided() -> None:
    for line in ("ls;" * 600 + "rm x", "sudo " + "env " * 600 + "rm x", "echo $(ls)" * 600):
        request = PermissionRequested(
            request_id="r", tool="Bash", title="", input={"command": line}
        )
        assert POLICY.decide(request, HERE).verdict != "allow"


@pytest.mark.parametrize(
    "pattern",
    [
        "**/" * 60 + "zz",
        "**/a/" * 40 + "zz",
        "**" * 60 + "zz",
        "**a" * 50 + "zz",
        "*/**/" * 40 + "zz",
        "**/*a*/" * 30 + "zz",
        "*a?" * 40 + "z",
        "*?" * 60 + "/z",
        "**/*" * 40 + "z",
    ],
    ids=lambda pattern: f"{pattern[:12]}…",
)
@pytest.mark.parametrize("path", [DEEP, "a" * 250, "ab" * 120 + "/" + DEEP])
def test_no_pattern_of_paths_takes_long(pattern: str, path: str) -> None:
    policy = Policy.preset("auto", tightening=[Rule("slow", "deny", "no", paths=(pattern,))])
    asked = PermissionRequested(request_id="r", tool="Read", title="", input={"file_path": path})
    started = time.perf_counter()
    assert policy.decide(asked, HERE).verdict == "allow"
    assert time.perf_counter() - started < 0.5
