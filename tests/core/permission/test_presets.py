"""Presets in practice: the decisions on everyday commands, in a real folder."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.workspace.files.policy_lookup import DiskFiles


def commands_of(name: str) -> list[dict[str, Any]]:
    text = Path(__file__).with_name(name).read_text("utf-8")
    return list(tomllib.loads(text)["commands"])


EVERYDAY = commands_of("everyday.toml")
AGENT_LINES = commands_of("agent_lines.toml")
COMMAND_RULES = (
    {"deny": "no", "command": ["rm -rf /", "rm -rf /*", "rm -rf ~*"]},
    {"deny": "no", "command": ["git push --force*", "git push -f*", "git push * --force*"]},
    {"deny": "no", "command": "sudo *"},
)
PATH_RULES = ({"deny": "no", "path": ".env"}, {"deny": "no", "path": "*.pem"})
FILES = (
    ".env", ".github/workflows/ci.yml", "README.md", "a.txt", "app.log", "b.txt", "build/x",
    "notes.txt", "package.json", "requirements.txt", "src/a.py", "src/app.py", "src/main.py",
    "src/old.py", "src/x.txt", "web/package.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def context(workspace: Path, **fields: Any) -> DecisionContext:
    return DecisionContext(
        workspace, home=Path("/home/me"), resolve=os.path.realpath, files=DiskFiles(), **fields
    )


def bash(line: str) -> PermissionRequested:
    return PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})


def rules(*tables: dict[str, Any]) -> list[Rule]:
    return [rule_of(table, "rules.toml:1") for table in tables]


EXPECTED = {  # under ask, edits, readonly and auto
    "none": ("allow", "allow", "allow", "allow"),
    "reads": ("allow", "allow", "allow", "allow"),
    "writes": ("ask", "allow", "deny", "allow"),
    "runs": ("ask", "ask", "deny", "allow"),
}


@pytest.mark.parametrize("case", EVERYDAY, ids=lambda case: str(case["line"]))
def test_an_everyday_command_is_decided_by_what_it_does(
    workspace: Path, case: dict[str, Any]
) -> None:
    presets = ("ask", "edits", "readonly", "auto")
    decided = [
        Policy.preset(preset).decide(bash(case["line"]), context(workspace)).verdict
        for preset in presets
    ]
    assert tuple(decided) == EXPECTED[case["does"]]


def test_half_of_all_everyday_commands_run_unasked() -> None:
    unasked = [case for case in EVERYDAY if case["does"] in ("none", "reads")]
    assert len(EVERYDAY) >= 60
    assert 2 * len(unasked) >= len(EVERYDAY)


@pytest.mark.parametrize("case", EVERYDAY, ids=lambda case: str(case["line"]))
def test_no_everyday_command_is_asked_about_beside_rules(
    workspace: Path, case: dict[str, Any]
) -> None:
    beside_commands = Policy.preset("auto", rules=rules(*COMMAND_RULES))
    beside_paths = Policy.preset("auto", rules=rules(*PATH_RULES))
    decided = [
        policy.decide(bash(case["line"]), context(workspace)).verdict
        for policy in (beside_commands, beside_paths)
    ]
    assert decided == ["allow", "ask" if case.get("takes") else "allow"]


# -- lines of coding agents ------------------------------------------------------------------------


def verdicts(workspace: Path, line: str) -> tuple[str, ...]:
    """Under the four presets, and under auto beside rules on commands, and on files."""
    policies = [Policy.preset(preset) for preset in ("ask", "edits", "readonly", "auto")]
    policies += [Policy.preset("auto", rules=rules(*more)) for more in (COMMAND_RULES, PATH_RULES)]
    where = context(workspace)
    return tuple(policy.decide(bash(line), where).verdict for policy in policies)


def expected_verdicts(case: dict[str, Any]) -> tuple[str, ...]:
    if case.get("unclear"):
        return ("ask", "ask", "deny", "ask", "ask", "ask")
    beside = ("ask" if case.get("code") else "allow", "ask" if case.get("takes") else "allow")
    return (*EXPECTED["runs" if case.get("asked") else case["does"]], *beside)


def test_a_line_of_an_agent_is_decided_by_what_it_does(workspace: Path) -> None:
    decided = {case["line"]: verdicts(workspace, case["line"]) for case in AGENT_LINES}
    assert decided == {case["line"]: expected_verdicts(case) for case in AGENT_LINES}


def test_nine_of_ten_lines_that_only_read_run_unasked() -> None:
    reads = [case for case in (*EVERYDAY, *AGENT_LINES) if case["does"] in ("none", "reads")]
    assert len(AGENT_LINES) >= 120
    assert 10 * sum(bool(case.get("asked")) for case in reads) <= len(reads)


@pytest.mark.parametrize(
    ("setting", "verdict"),
    [
        ("user.name ann", "allow"),
        ("branch.main.remote origin", "allow"),
        ("pull.rebase true", "allow"),
        ("core.pager ./x", "deny"),
        ("alias.st '!./x'", "deny"),
        ("core.hooksPath hooks", "deny"),
        ("remote.origin.url ext::./x", "deny"),
        ("--file .git/config user.name ann", "deny"),
        ("--edit user.name", "deny"),
        ("include.path ../x", "deny"),
    ],
)
def test_a_setting_of_git_is_written_if_it_can_start_nothing(
    workspace: Path, setting: str, verdict: str
) -> None:
    decision = Policy.preset("auto").decide(bash(f"git config {setting}"), context(workspace))
    assert decision.verdict == verdict


@pytest.mark.parametrize(
    "line", ["tar xf a.tar", "patch -p1 < fix.patch", "unzip a.zip", "git clean -fd"]
)
def test_what_may_change_a_protected_file_somewhere_below_is_asked_about(
    workspace: Path, line: str
) -> None:
    decision = Policy.preset("auto").decide(bash(line), context(workspace))
    assert (decision.verdict, decision.rule) == ("ask", "guard.protected")


def test_explain_names_the_row_that_decided(workspace: Path) -> None:
    for line, note in {
        "git log --oneline": "`git log` only reads",
        "ls src": "`ls` only reads",
        "jq .a package.json": "`jq` only reads",
    }.items():
        decision = Policy.preset("ask").decide(bash(line), context(workspace))
        assert (decision.rule, decision.note) == ("reads.commands", note)


# -- what a reading command must not be ------------------------------------------------------------

NOT_READS = [
    "git -c core.pager=./x log",
    "git log --output=.git/config",
    "git --exec-path=. status",
    "git -C .. status",
    "cd .. && git status",
    "ls ..",
    "cat /etc/passwd",
    "cat ~/.ssh/id_rsa",
    "find . -exec rm {} +",
    "find . -delete",
    "rg --pre ./x foo",
    "sort -o README.md a.txt",
    "sed -n 'w README.md' a.txt",
    "sed -n 1e a.txt",
    "awk 'BEGIN { system(\"touch x\") }'",
    "jq . < ../secret.json",
    "cat a.txt | sh",
    "PATH=.:$PATH ls",
    "LD_PRELOAD=./x.so ls",
    "GIT_PAGER=./x git log",
    "ls; make",
    "ls && npm test",
    "ls > README.md",
    "./ls",
    '"git status"',
    "ls() { make; }; ls",
    "alias ls=make; ls",
    "cat $X",
    "cat $(make)",
    "ls `make`",
    "tar xf a.tar",
    "npm ls; npm install",
    "docker run x ls",
    "sudo ls",
    "xargs ls < a.txt | sh",
    "env ./x",
    "git diff --ext-diff",
    "ls\u200b",
    "ls 'a",
    "docker -H tcp://x ps",
    "docker --host=tcp://x ps",
    "docker --config x ps",
    "docker --context x ps",
    "docker -c x images",
    "DOCKER_HOST=x docker ps",
    "export DOCKER_HOST=x; docker ps",
    "DOCKER_CONFIG=x bash -c 'docker ps'",
    "RIPGREP_CONFIG_PATH=x rg a",
    "export RIPGREP_CONFIG_PATH=x; rg a",
    "npm ls --registry http://x",
    "npm --userconfig x ls",
    "npm ls --cache .git/hooks",
    "pip list --proxy http://x",
    "git --bare status",
    "git log --format=%G?",
    "git for-each-ref --sort=signature",
    "tar tf host:a.tar",
    "x='a[$(make)]'; echo {a[x]}> /dev/null",
    "cat $PWD/../x",
    "PWD=/etc; cat $PWD/passwd",
    "cd src; OLDPWD=/etc; cat $OLDPWD/passwd",
    "f() { local PWD=/etc; cat $PWD/passwd; }; f",
]


@pytest.mark.parametrize("line", NOT_READS)
def test_what_does_more_than_read_inside_is_not_a_read(workspace: Path, line: str) -> None:
    decided = [
        Policy.preset(preset).decide(bash(line), context(workspace)).verdict
        for preset in ("ask", "readonly")
    ]
    assert "allow" not in decided


@pytest.mark.parametrize("mode", ["plan", "ask"])
def test_while_planning_commands_that_only_read_go_by_the_preset(
    workspace: Path, mode: Any
) -> None:
    planning = context(workspace, mode=mode)
    verdicts = {
        line: Policy.preset("auto").decide(bash(line), planning).verdict
        for line in ("git log", "ls | head", "touch x", "ls > x", "npm test", "cat < a.txt")
    }
    assert verdicts == {
        "git log": "allow",
        "ls | head": "allow",
        "touch x": "deny",
        "ls > x": "deny",
        "npm test": "deny",
        "cat < a.txt": "allow",
    }


def test_a_rule_that_denies_a_reading_command_still_holds(workspace: Path) -> None:
    for preset in ("ask", "edits", "readonly", "auto"):
        policy = Policy.preset(preset, rules=rules({"deny": "no", "command": "git log *"}))
        assert policy.decide(bash("git log -1"), context(workspace)).verdict == "deny"


# -- where `edits` and `auto` write ----------------------------------------------------------------


def test_edits_writes_inside_and_in_the_temporary_folder(workspace: Path, tmp_path: Path) -> None:
    own = context(workspace, folders=(tmp_path,))
    verdicts = {
        line: Policy.preset("edits").decide(bash(line), own).verdict
        for line in (
            "mkdir x",
            "echo a > x",
            "mv a.txt c.txt",
            f"touch {tmp_path}/x",
            f"echo a > {tmp_path}/x",
            "touch ../x",
            "mv a.txt ../x",
            "touch AGENTS.md",
            "touch .git/x",
            "mkdir .github/workflows/x",
        )
    }
    assert verdicts == {
        "mkdir x": "allow",
        "echo a > x": "allow",
        "mv a.txt c.txt": "allow",
        f"touch {tmp_path}/x": "allow",
        f"echo a > {tmp_path}/x": "allow",
        "touch ../x": "deny",
        "mv a.txt ../x": "deny",
        "touch AGENTS.md": "ask",
        "touch .git/x": "deny",
        "mkdir .github/workflows/x": "deny",
    }


def test_auto_asks_about_writes_outside(workspace: Path) -> None:
    decisions = [
        Policy.preset("auto").decide(bash(line), context(workspace))
        for line in ("touch /tmp/x", "echo a > ../x", "cp a.txt ~/x")
    ]
    assert [(one.verdict, one.rule) for one in decisions] == [("ask", "guard.outside")] * 3


# -- protected names below what is written ---------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "rm -r .github/*",
        "rm -rf .github",
        "chmod -R 700 .",
        "chown -R me .",
        "cp -r . src/q",
        "cp -a .github src/q",
        "mv .github x",
        "find . -type f -delete",
        "find . -name config -delete",
        "rm -rf .",
        "rm -rf ..",
        "rsync -a . src/q",
        "cd src && rm -rf ..",
        "git clean -fdx .github",
    ],
)
def test_a_tree_with_a_protected_name_in_it_is_not_written(workspace: Path, line: str) -> None:
    decision = Policy.preset("auto").decide(bash(line), context(workspace))
    assert (decision.verdict, decision.rule) == ("deny", "guard.protected")


@pytest.mark.parametrize(
    "line",
    ["rm -rf build", "rm -rf node_modules", "cp -r src lib", "chmod -R +x src", "mv src lib"],
)
def test_a_tree_without_one_is(workspace: Path, line: str) -> None:
    (workspace / "node_modules/pkg/.github/workflows").mkdir(parents=True, exist_ok=True)
    assert Policy.preset("auto").decide(bash(line), context(workspace)).verdict == "allow"
