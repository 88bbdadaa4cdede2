"""Rules in config files: which apply, their sources, and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.config import Config, IgnoredSetting, find_paths, load
from tillerman.config.policy_test_cases import read_cases
from tillerman.config.project_trust import read_folder, trust
from tillerman.core.errors import ConfigError
from tillerman.core.permission import Rule
from tillerman.paths import Paths

USER = """\
approve = "edits"

[[rules]]
name = "no-rm"
deny = "use trash"
command = "rm *"

[[rules]]
allow = true
tool = ["Read", "network"]
host = "*.example.com"
mode = "agent"
"""
PROJECT = """\
# the project's
[[rules]]
allow = true
command = ["make *"]
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".tillerman").mkdir(parents=True)
    return folder


def loaded(paths: Paths, project: Path, *, user: str = "", theirs: str = "") -> Config:
    paths.config.mkdir(parents=True, exist_ok=True)
    paths.config_file.write_text(user)
    (project / ".tillerman/config.toml").write_text(theirs)
    return load(project, environment={}, paths=paths)


def made(paths: Paths, project: Path) -> tuple[Rule, Rule, Rule]:
    mine = str(paths.config_file)
    theirs = str(project / ".tillerman/config.toml")
    return (
        Rule("project.1", "allow", commands=("make *",), source=f"{theirs}:2"),
        Rule("no-rm", "deny", "use trash", commands=("rm *",), source=f"{mine}:3"),
        Rule(
            "user.2",
            "allow",
            tools=frozenset({"Read", "network"}),
            hosts=("*.example.com",),
            modes=frozenset({"agent"}),
            source=f"{mine}:8",
        ),
    )


def test_the_rules_of_an_untrusted_project_are_separate(paths: Paths, project: Path) -> None:
    config = loaded(paths, project, user=USER, theirs=PROJECT)
    theirs, *mine = made(paths, project)
    assert (config.rules, config.tightening) == (tuple(mine), (theirs,))
    assert config.approve == "edits"
    assert config.withheld == ()


def test_the_rules_of_a_trusted_project_come_before_the_user_s(paths: Paths, project: Path) -> None:
    loaded(paths, project, user=USER, theirs=PROJECT)
    folder = read_folder(project)
    assert folder
    trust(paths, folder)
    config = load(project, environment={}, paths=paths)
    assert (config.rules, config.tightening) == (made(paths, project), ())


def test_a_broken_rule_of_an_untrusted_project_is_withheld_and_reported(
    paths: Paths, project: Path
) -> None:
    config = loaded(paths, project, theirs="[[rules]]\nallow = true\ncomand = 'x'\n")
    assert (config.rules, config.tightening) == ((), ())
    file = project / ".tillerman/config.toml"
    assert config.withheld == (
        IgnoredSetting("config.toml", f"{file}:1: rule 1 has an unknown key 'comand'"),
    )


@pytest.mark.parametrize(
    ("rule", "message", "hint"),
    [
        ("comand = 'x'", "rule 2 has an unknown key 'comand'", "did you mean command?"),
        ("", "rule 2 has no verdict", "one of allow = true, deny = …"),
        ("allow = true\ndeny = 'x'", "rule 2 has allow and deny", "one of allow"),
        ("allow = false", "rule 2: allow must be true, not False", "docs/policy.md"),
        ("deny = ''", "rule 2: deny must be a message for the agent, not ''", "docs/policy.md"),
        ("ask = 3", "rule 2: ask must be true, or a reason, not 3", "docs/policy.md"),
        ("rewrite = 'x'", "rule 2 has a rewrite, but no command", "add command"),
        ("allow = true\ntool = 'bash'", "rule 2: unknown tool 'bash'", "did you mean Bash?"),
        ("allow = true\ntool = 'Writ'", "rule 2: unknown tool 'Writ'", "did you mean Write?"),
        ("allow = true\nmode = 'plann'", "rule 2: unknown mode 'plann'", "did you mean plan?"),
        (
            "allow = true\nhost = 'https://x.test'",
            "rule 2: 'https://x.test' is not a host",
            "for example",
        ),
        (
            "allow = true\ncommand = []",
            "rule 2: command must be a string, or a list of strings",
            "docs",
        ),
        ("allow = true\npath = 3", "rule 2: path must be a string, or a list of strings", "docs"),
        ("allow = true\nname = ''", "rule 2: name must be a string", "docs"),
        (
            "allow = true\ncommand = 'x'\nhost = 'y'",
            "rule 2 combines command and host",
            "write two",
        ),
        (
            "allow = true\ncommand = 'x'\npath = 'y'",
            "rule 2 allows a command by its paths",
            "deny by",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_location_and_a_fix(
    rule: str, message: str, hint: str, paths: Paths, project: Path
) -> None:
    text = f"# rules\n[[rules]]\nallow = true\n\n[[rules]]\n{rule}\n"
    with pytest.raises(ConfigError) as refused:
        loaded(paths, project, user=text)
    assert refused.value.message.startswith(f"{paths.config_file}:5: {message}")
    assert refused.value.hint.startswith(hint) or hint in refused.value.hint


def test_rules_that_are_not_tables_are_refused(paths: Paths, project: Path) -> None:
    with pytest.raises(ConfigError, match="rules must be tables"):
        loaded(paths, project, user='rules = ["x"]')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cases = 3", "cases must be tables"),
        ("", "has no cases"),
        ("[[cases]]\nexpect = 'allow'", "case 1 names neither tool nor command"),
        ("[[cases]]\ncommand = 'x'\nexpect = 'alow'", "case 1: expect must be one of"),
        ("[[cases]]\ncommand = 'x'\nexpct = 'allow'", "case 1 has an unknown key 'expct'"),
        (
            "approve = 'yolo'\n[[cases]]\ncommand = 'x'\nexpect = 'ask'",
            "unknown preset: 'yolo'",
        ),
        ("mode = 'x'\n[[cases]]\ncommand = 'x'\nexpect = 'ask'", "unknown mode 'x'"),
        ("not toml", "fix the file"),
    ],
)
def test_a_mistake_in_a_file_of_cases_is_reported(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_cases(file)
    assert message in f"{refused.value.message} {refused.value.hint}"
