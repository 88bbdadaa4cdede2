"""Model names: one for all agents, and what each agent maps it to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.config import load
from tillerman.config.model_table import Price, VendorModel, load_models
from tillerman.core.errors import ConfigError, UsageError
from tillerman.paths import find_paths

MODELS = load_models()

WHOSE = {
    "sonnet-4.5": "claude",
    "claude-opus-5-5": "claude",
    "Haiku": "claude",
    "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-5": "claude",
    "gemini-3.8-flash": "gemini",
    "qwen3-coder-plus": "qwen",
    "gpt-5-codex": "codex",
    "codex-mini-latest": "codex",
    "gpt-5.5": "codex",
    "gpt-5": "codex",
    "composer-2.5": "cursor",
    "cursor-small": "cursor",
    "anthropic/claude-sonnet-5": "opencode",
    "openrouter/openai/gpt-5-codex": "opencode",
}


@pytest.mark.parametrize(("model", "agent"), WHOSE.items())
def test_a_model_has_its_vendor(model: str, agent: str) -> None:
    assert MODELS.agent_of(model) == agent


def test_an_unknown_model_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as error:
        MODELS.agent_of("llama-9")
    assert "llama-9" in error.value.message
    assert "sonnet-4.5" in error.value.hint
    assert "gpt-6-sol" in error.value.hint


def test_one_name_is_a_different_model_for_each_agent() -> None:
    assert [MODELS.own(agent, "opus-4.8").name for agent in ("claude", "copilot", "opencode")] == [
        "claude-opus-4-8",
        "claude-opus-4.8",
        "anthropic/claude-opus-4-8",
    ]


@pytest.mark.parametrize("own", ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "sonnet"])
def test_an_agents_own_name_passes_without_a_warning(own: str) -> None:
    assert MODELS.own("claude", own) == VendorModel(own)


def test_a_name_that_is_not_known_passes_with_a_warning() -> None:
    assert MODELS.own("claude", "claude-next") == VendorModel(
        "claude-next",
        "claude is not known to have a model named claude-next: the name is passed unchanged",
    )
    assert MODELS.own("codex", "sonnet-4.5") == VendorModel(
        "sonnet-4.5",
        "sonnet-4.5 is known as a model of claude, opencode, not of codex: "
        "the name is passed unchanged",
    )


def test_for_an_agent_outside_the_table_nothing_is_assumed() -> None:
    assert MODELS.own("acme", "acme-2") == VendorModel("acme-2")


def test_prices_are_found_by_any_name_and_report_their_date() -> None:
    price = Price(3, 15, 0.3, MODELS.prices_of)
    assert MODELS.price("sonnet-4.5") == price
    assert MODELS.price("claude-sonnet-4-5-20250929") == price
    assert MODELS.price("anthropic/claude-sonnet-4-5") == price
    assert MODELS.price("qwen3-coder-plus") == Price(1, 5, 1, MODELS.prices_of)
    assert MODELS.price("composer-2.5") is None
    assert price.cost(1_000_000, 100_000, 2_000_000) == pytest.approx(3 + 1.5 + 0.6)


def test_every_row_is_complete() -> None:
    for name, row in MODELS.rows.items():
        assert row.keys() - {"price"}, name
        assert len(row.get("price", (0, 0))) in (2, 3), name


def test_the_users_config_adds_names_and_prices(tmp_path: Path) -> None:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path)})
    paths.config_file.write_text(
        '[models."sonnet-4.5"]\nclaude = "eu.sonnet"\n'
        '[models."house-1.0"]\nacme = "house"\nprice = [1, 2]\n'
    )
    models = load_models(load(tmp_path, environment={}, paths=paths).models)
    assert models.own("claude", "sonnet-4.5") == VendorModel("eu.sonnet")
    assert models.own("opencode", "sonnet-4.5") == VendorModel("anthropic/claude-sonnet-4-5")
    assert models.own("acme", "house-1.0") == VendorModel("house")
    assert models.agent_of("house-1.0") == "acme"
    assert models.price("house") == Price(1, 2, 1, "")


def test_an_invalid_row_of_the_user_names_its_file(tmp_path: Path) -> None:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path)})
    paths.config_file.write_text('[models."sonnet-5"]\nprice = "cheap"\n')
    with pytest.raises(ConfigError, match=r"config\.toml.*models must be tables such as"):
        load(tmp_path, environment={}, paths=paths)


def test_agents_can_be_a_list(tmp_path: Path) -> None:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path)})
    paths.config_file.write_text('agent = ["claude", "codex"]\n')
    assert load(tmp_path, environment={}, paths=paths).agent == "claude,codex"
    assert load(tmp_path, environment={"TILLERMAN_AGENT": "a,b"}, paths=paths).agent == "a,b"
