"""Invalid config values are refused, such as a limit that never applies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.config import find_paths, load
from tillerman.core.errors import ConfigError


@pytest.mark.parametrize("cost", ["nan", "-nan", '"nan"', "-1", "0.0"])
def test_a_limit_that_nothing_ever_passes_is_refused(tmp_path: Path, cost: str) -> None:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    paths.config.mkdir(parents=True)
    paths.config_file.write_text(f"[limits]\ncost = {cost}\n")
    with pytest.raises(ConfigError, match=r"limits\.cost"):
        load(tmp_path, paths=paths)


@pytest.mark.parametrize("name", ["gpt-5.1", "../x", "."])
def test_an_agent_with_a_dot_in_its_name_is_refused_and_not_lost(tmp_path: Path, name: str) -> None:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    paths.config.mkdir(parents=True)
    paths.config_file.write_text(f'[agents."{name}"]\nacp = "foo --acp"\n')
    with pytest.raises(ConfigError, match="has a dot in its name"):
        load(tmp_path, paths=paths)
