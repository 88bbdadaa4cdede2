"""Broken third-party packages: other agents are not affected, and the packages are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman import agents
from tillerman.core.errors import ConfigError


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The entry points of an installed package."""
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    return info / "entry_points.txt"


@pytest.mark.parametrize("content", [b"[tillerman.agents]\nfoo = \xff\xfe:agent\n", None])
def test_unreadable_entry_points_are_skipped(points: Path, content: bytes | None) -> None:
    points.mkdir() if content is None else points.write_bytes(content)
    assert "claude" in agents.available()
    assert agents.load("claude").info.name == "claude"


@pytest.mark.parametrize(
    "target", ["nowhere", "nowhere:agent", ".:agent", "sys:path", "sys:nothing", "failing:agent"]
)
def test_an_agent_that_cannot_be_loaded_is_an_error_that_names_it(
    points: Path, tmp_path: Path, target: str
) -> None:
    (tmp_path / "failing.py").write_text("1 / 0\n")
    points.write_text(f"[tillerman.agents]\nacme-broken = {target}\n")
    with pytest.raises(ConfigError, match="'acme-broken' cannot be loaded"):
        agents.load("acme-broken")
