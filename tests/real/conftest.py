"""Real agent CLIs for tests: pinned, in a clean environment, with a scripted model behind them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clis import Cli, CliError, pinned

from bridle.testing.model_double import ModelDouble


@dataclass(frozen=True)
class RealClaude:
    """Claude Code at one version, and the home and project it may touch."""

    version: str
    program: Path
    home: Path
    project: Path

    def environment(self, base_url: str, **more: str) -> dict[str, str]:
        """All the variables it gets: none of this machine's, and no way out but loopback."""
        nowhere = "http://127.0.0.1:9"
        return {
            "PATH": os.defpath,
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "sk-fake",
            "ANTHROPIC_BASE_URL": base_url,
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1",
        } | more


@pytest.fixture
async def double() -> AsyncIterator[ModelDouble]:
    """A scripted model; a test adds what it plays: `double.scenarios["name"] = [reply(…), …]`."""
    async with ModelDouble() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty git repository."""
    folder = tmp_path / "project"
    folder.mkdir()
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", "-b", "main", folder], env=environment, check=True)
    return folder


@pytest.fixture(params=pinned("claude"), ids=lambda cli: cli.version)
def claude(request: pytest.FixtureRequest, tmp_path: Path, project: Path) -> RealClaude:
    cli: Cli = request.param
    try:
        program = cli.path()
    except CliError as missing:
        if _asked_for_real_tests(request.config):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
    home = tmp_path / "home"
    home.mkdir()
    return RealClaude(cli.version, program, home, project)


def _asked_for_real_tests(config: pytest.Config) -> bool:
    return re.search(r"(?<!not )\breal\b", config.getoption("markexpr")) is not None
