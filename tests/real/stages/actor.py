"""A pinned CLI in its test setup, with a separate home and project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.real.clis import Cli
from tillerman.testing.cli_setups import CliSetup


@dataclass(frozen=True)
class Actor:
    """One pinned CLI in its test setup, with its home and project."""

    stage: CliSetup
    cli: Cli
    program: Path
    home: Path
    project: Path

    @property
    def agent(self) -> str:
        return self.stage.agent

    @property
    def key(self) -> str:
        return self.stage.key

    @property
    def model(self) -> str | None:
        return self.stage.model

    @property
    def version(self) -> str:
        return self.cli.version

    @property
    def scratch(self) -> Path:
        return self.home.parent / "scratch"

    def lacks(self, tool: str) -> bool:
        """Whether it lacks this tool, by the name of the method that calls it."""
        return tool in self.stage.lacks(self.version)

    def prepare(self, base_url: str) -> None:
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.stage.prepare(self.home, base_url)
        self.cli.lend(self.home)

    def environment(self, base_url: str, **more: str) -> dict[str, str]:
        """An empty variable is not set."""
        path, home, scratch = self.cli.search_path(), self.home, self.scratch
        variables = self.stage.clean_environment(
            base_url, self.version, home=home, path=path, scratch=scratch
        )
        variables |= self.cli.environment() | more
        return {name: value for name, value in variables.items() if value}
