"""A plug-in declares the contract versions it was written for, and is refused if they do not
match."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman import agents
from tillerman.core.contract import NEWEST, OLDEST, BuiltFor
from tillerman.core.errors import ConfigError

PLUGIN = """
from tillerman.core.agent import AgentInfo
from tillerman.core.contract import BuiltFor

class Acme:
    info = AgentInfo("acme", "Acme"{built_for})

agent = Acme()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """Installs a package whose agent was written for these versions."""
    module = f"contract_plugin_{abs(hash(request.node.name))}"

    def installed(built_for: BuiltFor | None) -> None:
        info = tmp_path / "acme-1.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(f"[tillerman.agents]\nacme = {module}:agent\n")
        stated = f", built_for={built_for!r}" if built_for else ""
        (tmp_path / f"{module}.py").write_text(PLUGIN.format(built_for=stated))
        monkeypatch.syspath_prepend(tmp_path)

    return installed


@pytest.mark.parametrize("built_for", [None, NEWEST, OLDEST])
def test_a_plug_in_for_a_supported_version_is_loaded(install, built_for: BuiltFor | None) -> None:  # type: ignore[no-untyped-def]
    install(built_for)
    assert agents.load("acme").info.name == "acme"


@pytest.mark.parametrize("part", BuiltFor._fields)
def test_a_plug_in_for_a_newer_version_asks_for_an_update_of_tillerman(install, part: str) -> None:  # type: ignore[no-untyped-def]
    newer = getattr(NEWEST, part) + 1
    install(NEWEST._replace(**{part: newer}))
    with pytest.raises(ConfigError, match=f"needs version {newer} of the agent {part}") as caught:
        agents.load("acme")
    assert "update tillerman" in caught.value.hint


@pytest.mark.parametrize("part", BuiltFor._fields)
def test_a_plug_in_for_a_dropped_version_asks_for_an_update_of_itself(install, part: str) -> None:  # type: ignore[no-untyped-def]
    older = getattr(OLDEST, part) - 1
    install(OLDEST._replace(**{part: older}))
    with pytest.raises(ConfigError, match=f"version {older} of the agent {part}") as caught:
        agents.load("acme")
    assert caught.value.hint == "update the agent's package"
