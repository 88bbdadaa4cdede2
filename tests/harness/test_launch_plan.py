"""What a session will run, and which parts of it are secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tillerman.config import Config
from tillerman.config.settings import LimitsConfig, OutputConfig
from tillerman.core.agent import SecretFile
from tillerman.core.errors import Unsupported, UsageError
from tillerman.core.program.answer_format import AnswerFormat
from tillerman.harness.launch_plan import launch_plan
from tillerman.sessions.prestart import Prestart

SERVERS = {
    "issues": {
        "command": "issues",
        "args": ["--folder=/srv/issues", "--api-key=k3y-in-an-argument", "--verbose"],
        "env": {
            "ISSUES_TOKEN": "/t0ken-like-a-path",
            "ISSUES_TEAM": "team-8812-xyz",
            "ISSUES_FOLDER": "/srv/issues",
            "ISSUES_REFERENCE": "${SOME_VARIABLE}",
            "DATABASE": "postgres://me:pa55word-1@db/issues",
        },
    },
    "far": {
        "type": "http",
        "url": "https://me:p4ss-of-url@far.example/mcp",
        "headers": {
            "Authorization": "Bearer b34rer-of-far",
            "X-Team": "t34m-of-far",
            "Content-Type": "application/json",
            "X-Reference": "Bearer ${FAR_TOKEN}",
        },
    },
    "odd": {"env": ["x"], "headers": None, "args": "y", "url": 3},
}


def test_values_given_to_mcp_servers_are_secret(tmp_path: Path) -> None:
    made = launch_plan(Config(), "claude", cwd=tmp_path, servers=SERVERS)
    plain = launch_plan(Config(), "claude", cwd=tmp_path)
    assert set(made.run_settings.secrets) - set(plain.run_settings.secrets) == {
        ("api-key", "k3y-in-an-argument"),
        ("ISSUES_TOKEN", "/t0ken-like-a-path"),
        ("ISSUES_TEAM", "team-8812-xyz"),
        ("DATABASE", "postgres://me:pa55word-1@db/issues"),
        ("DATABASE", "pa55word-1"),
        ("url", "p4ss-of-url"),
        ("Authorization", "b34rer-of-far"),
        ("X-Team", "t34m-of-far"),
    }


def test_a_program_with_a_secret_file_is_not_prestarted(tmp_path: Path) -> None:
    config = Config(agents={"claude": {"binary": "true"}})
    early = {}
    for name, servers in {"with": SERVERS, "without": {}}.items():
        head = Prestart(tmp_path, "auto")
        made = launch_plan(config, "claude", cwd=tmp_path, servers=servers)
        head.spawn(*made)
        early[name] = head.launched.early is not None
        head.launched.control.close()
        head.launched.process.communicate(timeout=10)
    assert early == {"with": False, "without": True}


def test_no_argument_of_the_command_line_mentions_the_servers(tmp_path: Path) -> None:
    made = launch_plan(Config(), "claude", cwd=tmp_path, servers=SERVERS)
    launch = made.agent.program(made.spec)  # type: ignore[attr-defined]
    words = [word.flag if isinstance(word, SecretFile) else word for word in launch.argv]
    assert "--mcp-config=" in words
    assert not [word for word in words if "issues" in word]


VAIN = {
    "cost": ({"max_cost": 1.0}, "--max-cost"),
    "tokens": ({"max_tokens": 9}, "--max-tokens"),
}


@pytest.mark.parametrize(("wish", "what"), VAIN.values(), ids=VAIN)
def test_an_unenforceable_limit_is_refused(tmp_path: Path, wish: dict[str, Any], what: str) -> None:
    with pytest.raises(Unsupported, match=f"cursor-acp does not support {what}"):
        launch_plan(Config(), "cursor-acp", cwd=tmp_path, **wish)
    assert (
        launch_plan(Config(), "cursor-acp", cwd=tmp_path, max_turns=3).run_settings.limits.turns
        == 3
    )
    launch_plan(Config(), "qwen", cwd=tmp_path, **wish)


def test_an_unenforceable_limit_of_the_config_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        launch_plan(Config(limits=LimitsConfig(cost=1.0)), "cursor-acp", cwd=tmp_path)


@pytest.mark.parametrize("agent", ["codex", "copilot", "cursor", "gemini", "qwen"])
def test_a_limit_on_cost_is_refused_where_no_cost_is_reported_and_no_price_is_known(
    tmp_path: Path, agent: str
) -> None:
    config = Config(models={"house-1": {agent: "house"}})
    with pytest.raises(Unsupported, match=rf"{agent} does not support --max-cost with house"):
        launch_plan(config, agent, cwd=tmp_path, model="house-1", max_cost=1.0)
    insisted = launch_plan(
        config, agent, cwd=tmp_path, model="house-1", max_cost=1.0, accept_unpriced=True
    )
    assert insisted.run_settings.limits.accept_unpriced
    priced = Config(models={"house-1": {agent: "house", "price": [1, 2]}})
    launch_plan(priced, agent, cwd=tmp_path, model="house-1", max_cost=1.0)


@pytest.mark.parametrize("agent", ["claude", "opencode", "mock"])
def test_an_agent_that_reports_its_cost_needs_no_price(tmp_path: Path, agent: str) -> None:
    launch_plan(Config(), agent, cwd=tmp_path, model="house-1", max_cost=1.0)


@pytest.mark.parametrize("agent", ["claude", "codex", "copilot", "gemini", "mock", "opencode"])
def test_every_agent_takes_an_output_schema_natively_or_in_the_prompt(
    tmp_path: Path, agent: str
) -> None:
    schema = {"type": "object"}
    made = launch_plan(Config(), agent, cwd=tmp_path, output_schema=schema)
    assert made.run_settings.answer == AnswerFormat(schema)
    native = "schema" in made.agent.info.can
    assert made.spec.output_schema == (schema if native else None)


def test_a_repair_is_enabled_by_the_config_or_by_the_option(tmp_path: Path) -> None:
    requested: dict[str, Any] = {"cwd": tmp_path, "output_schema": {"type": "object"}}
    config = Config(output=OutputConfig(repair=True))
    answers = [
        launch_plan(Config(), "mock", **requested).run_settings.answer,
        launch_plan(config, "mock", **requested).run_settings.answer,
        launch_plan(config, "mock", **requested, repair_output=False).run_settings.answer,
        launch_plan(Config(), "mock", **requested, repair_output=True).run_settings.answer,
    ]
    assert [answer and answer.repair for answer in answers] == [False, True, False, True]


def test_an_invalid_output_schema_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'birds' is not valid"):
        launch_plan(Config(), "mock", cwd=tmp_path, output_schema={"type": "birds"})


def test_a_custom_acp_agent_declares_which_credentials_it_does_not_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", {"PATH": "/bin", "ACME_API_KEY": "k", "ACME_TOKEN": "t"})
    named = launch_plan(Config(), "acp:acme --acp", cwd=tmp_path, env=["ACME_TOKEN"])
    assert [notice.text for notice in named.run_settings.notices] == [
        "acp:acme --acp does not receive ACME_API_KEY: pass a variable with --env NAME"
    ]
    both = launch_plan(Config(), "acp:acme --acp", cwd=tmp_path, env=["ACME_*"])
    assert both.run_settings.notices == ()
    declared = Config(agents={"acme": {"acp": "acme --acp", "variables": ["ACME_TOKEN"]}})
    assert launch_plan(declared, "acme", cwd=tmp_path).run_settings.notices == ()


EFFORTS = {"claude": "xhigh", "codex": "minimal", "codex-exec": "ultra"}


@pytest.mark.parametrize(("agent", "known"), EFFORTS.items())
def test_an_unknown_effort_is_refused_before_anything_starts(
    tmp_path: Path, agent: str, known: str
) -> None:
    with pytest.raises(
        Unsupported, match=rf"{agent} does not support an effort of 'hihg'"
    ) as error:
        launch_plan(Config(), agent, cwd=tmp_path, effort="hihg")
    assert known in error.value.hint
    assert launch_plan(Config(), agent, cwd=tmp_path, effort=known).spec.effort == known
