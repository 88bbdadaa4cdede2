"""A rewritten line runs in bash what the line runs, but for the replaced commands."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path, PurePath
from random import Random

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy
from tillerman.core.permission.policy import Decision

COUNT = int(os.environ.get("TILLERMAN_REWRITES", "250"))
STUBS = ("npm", "yarn", "touch", "mark", "sudo", "env", "timeout", "nohup", "xargs", "find", "nice")
RULES = (
    {"rewrite": "npm ci", "command": ["npm install", "npm i"]},
    {"rewrite": "yarn install --frozen-lockfile", "command": "yarn"},
)
REPLACED = {("npm", "install"): ["npm", "ci"], ("npm", "i"): ["npm", "ci"],
            ("yarn",): ["yarn", "install", "--frozen-lockfile"]}  # fmt: skip
COMMANDS = (
    "npm install", "npm  install", "npm\tinstall", "npm i", "yarn", "npm \\\ninstall",
    "n''pm install", "'npm' install", "\"npm\" \"install\"", "npm inst\\all", "$'npm' install",
    "npm i ''", "npm install --save x", "npm ci",
)  # fmt: skip
PLACES = (
    "{}", "cd . && {}", "{} && echo ok", "({})", "{ {}; }", "if true; then {}; fi",
    "if {}; then echo; fi", "for i in 1 2; do {}; done", "while {}; do break; done",
    "f() { {}; }; f", "f() { {}; }; f; f", "{} | cat", "echo a | {}", "{} |& cat", "sh -c '{}'",
    'sh -c "{}"', "bash -c '{}; mark 1'", "eval '{}'", "eval {}", "echo $({})", 'echo "$({})"',
    "`{}`", "! {}", "time {}", "X=1 {}", "X=1 Y=2 {}", "env X=1 {}", "sudo {}", "timeout 5 {}",
    "nice {}", "nohup {} &", "{} > log 2>&1", "> log {}", "2>&1 {} < /dev/null",
    "cat <<EOF\n$({})\nEOF", "cat <<'EOF'\n{}\nEOF\n{}", "cat <<EOF && {}\n{}\nEOF",
    "sh <<'EOF'\n{}\nEOF", "{} # {}", "# {}\n{}", "echo '{}'; {}", 'echo "{}"; {}', "{}; {}",
    "{}\n{}", "{} &&\n{}", "trap '{}' EXIT", "case a in a) {};; *) mark 2;; esac",
    "xargs {} < /dev/null", "[[ -n x ]] && {}", "echo $((1)); {}", "cat <({})", "{} <<< x",
    "alias x='{}'; x", "command {}", "exec {}", "a=({}); echo ${a[0]}", "echo {a,b}; {}",
    "set -e; {}; mark 3", "{}; mark $?", "{} || mark 4", "mark \"$({})\" '{}'",
    "function g { {}; }; g", "{ {}; mark 5; } > log", "until {}; do break; done",
    "mark a\\\nb; {}", "{};mark 6", "{}&&mark 7", "echo \\\\; {}", "echo \\'; {}; echo \\'",
    "echo \"'\"; {}; echo \"'\"", "echo $'\\''; {}", ": \"${x:-$({})}\"", "echo ${x:-{}}",
)  # fmt: skip
# One of each kind that shows nothing, moves the cursor, turns the direction, or ends a line.
MARKS = (
    "\u200b", "\u200e", "\u202e", "\u2066", "\u2028", "\u2029", "\u00a0", "\u3000", "\u00ad",
    "\ufeff", "\u034f", "\u180e", "\u2060", "\u3164", "\u115f", "\uffa0", "\u2800", "\U000e0041",
    "\ufe00", "\r", "\0", "\v", "\f", "\x08", "\x1b", "\x7f", "\x85", "\x9b", "\ue000", "\ue001",
    "\ue002", "\uf8ff", "\ud800", "\udc80", "\ufffd", "\U000f0000", "\uffff",
)  # fmt: skip
VISIBLE = (
    "\u0301",
    "é",
    "ﬁ",
    "е",
    "❤️",
    "日",
    "/",
    ";",
    "'",
    '"',
    "\\",
    "\n",
    "$",
    "`",
    "#",
    "(",
    "{",
    "&",
    "|",
    "<",
    "\t",
)
POLICY = Policy.preset("auto", rules=[rule_of(table, "rules:1") for table in RULES])


def decide(line: str, **input: object) -> Decision:
    request = PermissionRequested(
        request_id="1", tool="Bash", title="", input={"command": line, **input}
    )
    return POLICY.decide(request, DecisionContext(PurePath("/ws"), home=PurePath("/home/me")))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that record their arguments; a wrapper then runs what it was given."""
    folder = tmp_path_factory.mktemp("stubs")
    for name in STUBS:
        record = (
            "import json, os, sys\n"
            "words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]\n"
            "with open(os.environ['RECORD'], 'a') as file: file.write(json.dumps(words) + '\\n')\n"
        )
        (folder / name).write_text(f"#!/usr/bin/env -S python3 -S -E\n{record}")
        (folder / name).chmod(0o755)
    return folder


def ran(line: str, stubs: Path, folder: Path) -> list[list[str]]:
    record = folder / "record"
    record.write_text("")
    environment = {"PATH": f"{stubs}:/usr/bin:/bin", "RECORD": str(record), "HOME": str(folder)}
    subprocess.run(
        ["/bin/bash", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return sorted(json.loads(one) for one in record.read_text().splitlines())


def lines(chance: Random, count: int) -> list[str]:
    found = []
    for _ in range(count):
        line = chance.choice(PLACES)
        for _ in range(chance.choice((1, 1, 2))):
            line = line.replace("{}", chance.choice(COMMANDS), 1)
        line = line.replace("{}", chance.choice(COMMANDS[:6]))
        if chance.random() < 0.3:
            line = chance.choice(PLACES).replace("{}", line)
        if chance.random() < 0.25:
            at = chance.randrange(len(line) + 1)
            line = line[:at] + chance.choice(VISIBLE) + line[at:]
        found.append(line)
    return found


def replaced(words: list[str]) -> list[str]:
    for start, new in REPLACED.items():
        if tuple(words) == start:
            return new
    return words


def test_a_rewritten_line_runs_what_the_line_runs_but_for_the_replaced(
    stubs: Path, tmp_path: Path
) -> None:
    rewritten, wrong = 0, []
    seed = int(os.environ.get("TILLERMAN_REWRITE_SEED", "13"))
    for line in lines(Random(seed), COUNT):
        decision = decide(line)
        if decision.verdict != "rewrite":
            continue
        rewritten += 1
        assert decision.input is not None
        new = decision.input["command"]
        before, after = ran(line, stubs, tmp_path), ran(new, stubs, tmp_path)
        if sorted(map(replaced, before)) != after:
            wrong.append((line, new, before, after))
    assert wrong == []
    assert rewritten > COUNT / 5


def test_no_forbidden_command_is_left_in_a_line_that_is_not_rewritten(
    stubs: Path, tmp_path: Path
) -> None:
    wrong = []
    for line in lines(Random(14), COUNT // 2):
        decision = decide(line)
        if decision.verdict == "allow" and any(
            tuple(words) in REPLACED for words in ran(line, stubs, tmp_path)
        ):
            wrong.append(line)
    assert wrong == []


@pytest.mark.parametrize("mark", MARKS, ids=ascii)
def test_a_line_with_a_hidden_character_is_asked_about_as_it_is(mark: str) -> None:
    chance = Random(13)
    for line in lines(chance, 60):
        for at in {0, len(line), line.find("npm"), line.find("yarn"), chance.randrange(len(line))}:
            if at >= 0:
                decision = decide(line[:at] + mark + line[at:])
                assert decision.verdict in ("ask", "deny"), line
                assert decision.input is None


def test_only_the_command_changes() -> None:
    decision = decide("cd a && npm install # é", description="x", timeout=7, run_in_background=True)
    assert decision.input == {
        "command": "cd a && npm ci # é",
        "description": "x",
        "timeout": 7,
        "run_in_background": True,
    }


def test_what_a_rewrite_makes_is_not_rewritten_again() -> None:
    chain = Policy.preset(
        "auto",
        rules=[
            rule_of({"rewrite": "npm ci", "command": "npm install"}, "rules:1"),
            rule_of({"rewrite": "pnpm install", "command": "npm ci"}, "rules:2"),
        ],
    )
    here = DecisionContext(PurePath("/ws"))
    request = PermissionRequested(
        request_id="1", tool="Bash", title="", input={"command": "npm install && npm ci"}
    )
    decision = chain.decide(request, here)
    assert decision.input == {"command": "npm ci && pnpm install"}
