"""Every line of the corpus gets its decision, by the rule that it names."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.stand_ins.warm_python import run_tillerman
from tillerman.config import load
from tillerman.config.policy_rules import rule_table
from tillerman.config.policy_test_cases import Group, PolicyTestCase, read_cases
from tillerman.paths import find_paths
from tillerman.surfaces.cli.commands.policy import decided_cases

CORPUS = Path(__file__).with_name("corpus.toml")
GROUPS = read_cases(CORPUS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


def test_the_corpus_holds_many_lines() -> None:
    lines = [str(case.input["command"]) for group in GROUPS for case in group.cases]
    assert len(lines) >= 300


@pytest.mark.parametrize("group", GROUPS, ids=[group.title for group in GROUPS])
def test_explain_names_the_right_rule_for_every_case(group: Group, folder: Path) -> None:
    config = load(
        folder, environment={}, paths=find_paths({"TILLERMAN_HOME": str(folder / "home")})
    )
    wrong = [
        f"{case.input['command']!r}: {decision.verdict} by {decision.rule} ({decision.note}),"
        f" not {case.expect} by {case.rule}"
        for case, decision in decided_cases(group, config, folder)
        if (decision.verdict, decision.rule) != (case.expect, case.rule)
    ]
    assert wrong == []


def tillerman(folder: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TILLERMAN_HOME": str(home / "tillerman")}
    return run_tillerman(words, cwd=folder, env=env)


def samples() -> list[object]:
    """From each group the first and the last line of each verdict."""
    found = []
    for group in GROUPS:
        by_verdict: dict[str, list[PolicyTestCase]] = {}
        for case in group.cases:
            if "\0" not in str(case.input["command"]):  # which no argument can hold
                by_verdict.setdefault(case.expect, []).append(case)
        for cases in by_verdict.values():
            ends = {case.number: case for case in (cases[0], cases[-1])}
            found += [pytest.param(group, case, id=str(at)) for at, case in ends.items()]
    return found


@pytest.mark.parametrize(("group", "case"), samples())
def test_the_command_line_reports_the_same(
    group: Group, case: PolicyTestCase, folder: Path, tmp_path: Path
) -> None:
    import tomlkit

    (tmp_path / "tillerman").mkdir()
    rules = [rule_table(rule) for rule in group.rules or ()]
    (tmp_path / "tillerman/config.toml").write_text(tomlkit.dumps({"rules": rules}))
    options = ["--approve", group.approve or "ask", "--mode", group.mode, "--json"]
    result = tillerman(
        folder, tmp_path, "policy", "explain", *options, "--", "Bash", json.dumps(case.input)
    )
    assert (result.returncode, result.stderr) == (0, "")
    decision = json.loads(result.stdout)["decision"]
    assert (decision["verdict"], decision["rule"]) == (case.expect, case.rule)


def test_the_corpus_passes_as_a_file_of_cases(folder: Path, tmp_path: Path) -> None:
    ran = tillerman(folder, tmp_path, "policy", "test", str(CORPUS))
    count = sum(len(group.cases) for group in GROUPS)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{count} cases\n", "")
