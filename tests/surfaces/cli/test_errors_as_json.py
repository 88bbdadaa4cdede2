"""With --json, a command that fails before a session exists prints one JSON object."""

from __future__ import annotations

import json

import pytest

from tests.surfaces.conftest import Bench
from tillerman.core import errors
from tillerman.core.errors import TillermanError, kind_of
from tillerman.surfaces.cli.views.error_report import wants_json

FAILURES = {
    "run --json -a cluade hello": ("agent_unknown", 2),
    "run --json=summary -a mock --mode pln hello": ("usage_error", 2),
    "run --json -a codex hello": ("agent_not_installed", 3),
    "run --json --resume nothing hello": ("session_not_found", 2),
    "run --json -a mock --cwd nowhere hello": ("usage_error", 2),
    "run --json -a acp:true hello": ("gate_not_enforced", 4),
    "handoff --json nothing -a mock": ("session_not_found", 2),
    "sessions show nothing --json": ("session_not_found", 2),
    "sessions follow nothing --json": ("session_not_found", 2),
    "sessions list --json --limit 0": ("usage_error", 2),
    "sessions search --json": ("usage_error", 2),
    "requests list --json=all": ("usage_error", 2),
    "requests remembered --json --session nothing": ("session_not_found", 2),
    "agents --json cluade": ("agent_unknown", 2),
    "models --json cluade": ("agent_unknown", 2),
    "status --json cluade": ("agent_unknown", 2),
    "config get --json colour": ("config_error", 2),
    "policy check --json nowhere.toml": ("config_error", 2),
}


@pytest.mark.parametrize("line", FAILURES)
def test_a_failure_is_one_object(bench: Bench, line: str) -> None:
    ran = bench.run(*line.split(), PATH="/usr/bin:/bin")
    kind, code = FAILURES[line]
    assert ran.returncode == code
    error = json.loads(ran.stdout)["error"]
    assert (error["kind"], error["exit_code"]) == (kind, code)
    assert error["message"]
    reported = ran.stderr.splitlines()
    assert f"error: {' '.join(error['message'].split())}" in reported
    assert not error["hint"] or f"hint: {' '.join(error['hint'].split())}" in reported


def test_a_broken_config_is_an_object_too(bench: Bench) -> None:
    (bench.project / ".tillerman").mkdir()
    (bench.project.parent / "tillerman").mkdir(exist_ok=True)
    (bench.project.parent / "tillerman/config.toml").write_text("approve = 1\n")
    ran = bench.run("run", "--json", "-a", "mock", "hello")
    assert json.loads(ran.stdout)["error"]["kind"] == "config_error"
    assert ran.returncode == 2


def test_without_json_standard_output_stays_empty(bench: Bench) -> None:
    ran = bench.run("run", "-a", "cluade", "hello")
    assert (ran.returncode, ran.stdout) == (2, "")


def test_arguments_after_two_dashes_are_passed_on() -> None:
    assert wants_json(["sessions", "list", "--json"])
    assert wants_json(["run", "--json=summary", "hello"])
    assert not wants_json(["mcp", "add", "x", "--", "server", "--json"])
    assert not wants_json(["hook", "claude", "PreToolUse", "--json"])


def test_every_error_has_a_kind_of_its_own() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    kinds = [kind_of(one) for one in classes if issubclass(one, TillermanError)]
    assert len(kinds) == len(set(kinds)) > 20
