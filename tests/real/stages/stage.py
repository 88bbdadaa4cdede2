"""What a stage is: how one agent CLI is put before the scripted model and calls tools there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from clis import Cli

from bridle.testing.model_script import Call, Say

KEY = "sk-fake-0123456789abcdef"
_NOWHERE = "http://127.0.0.1:9"

Item: TypeAlias = tuple[str, str]
"""A thing to do, and whether it is pending, in_progress or completed."""


class NoTool(Exception):
    """This CLI has no such tool, or not on the surface that bridle uses."""


class Stage:
    """One agent CLI. Paths that a tool is called with are absolute."""

    agent: ClassVar[str]  # its name in bridle and in clis.toml
    api: ClassVar[str]  # which API the double will hear
    key: ClassVar[str]  # the variable that holds its key
    options: ClassVar[dict[str, object]] = {}  # of bridle's config for the agent
    model: ClassVar[str | None] = None  # asked for unless a test asks for another
    bare: ClassVar[tuple[str, ...]]  # arguments of a bare run
    free: ClassVar[tuple[str, ...] | None] = None  # of one whose tools may act, if they differ
    speaks_acp: ClassVar[bool] = True  # in a bare run; or the prompt is the last argument
    restless: ClassVar[tuple[str, ...]] = ()  # histories and logs in its home

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        """The variables of this CLI; one that is empty is not set."""
        raise NotImplementedError

    def files(self, base_url: str) -> dict[str, str]:
        """What must be in its home, by path."""
        return {}

    def lacks(self, version: str) -> set[str]:
        """The tools below that it does not have, or not on the surface that bridle uses."""
        return set()

    def servers(self, commands: dict[str, list[str]]) -> tuple[str, ...]:
        """Arguments that bring MCP servers, in front of all others; where there are none, a
        client says them by ACP."""
        return ()

    def shell(self, command: str, id: str | None = None) -> Call:
        raise NoTool(f"{self.agent} has no shell")

    def write(self, path: Path, text: str, id: str | None = None) -> Call:
        """Of a file that is not there yet."""
        raise NoTool(f"{self.agent} cannot write files")

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> Call:
        """Of whole lines; some CLIs want that the file was read before."""
        raise NoTool(f"{self.agent} cannot edit files")

    def read(self, path: Path, id: str | None = None) -> Call:
        raise NoTool(f"{self.agent} cannot read files but by its shell")

    def ask(self, question: str, *options: str, id: str | None = None) -> Call:
        raise NoTool(f"{self.agent} asks no questions")

    def todo(self, *items: Item, id: str | None = None) -> Call:
        raise NoTool(f"{self.agent} keeps no list of what is to do")

    def result(self, json: str) -> Call | Say:
        """The answer in a schema that was asked for."""
        return Say(json)

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> Call:
        raise NoTool(f"{self.agent} takes no MCP servers")


@dataclass(frozen=True)
class Actor:
    """One pinned CLI on its stage, and the home and project it may touch."""

    stage: Stage
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
        """Whether it has no `shell`, `write`, `edit`, `read`, `ask`, `todo` or `mcp`."""
        return tool in self.stage.lacks(self.version)

    def prepare(self, base_url: str) -> None:
        """Puts what the CLI must find into its home."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        for name, content in self.stage.files(base_url).items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def environment(self, base_url: str, **more: str) -> dict[str, str]:
        """All the variables it gets: none of this machine's, and no way out but loopback."""
        variables = {
            "PATH": self.cli.search_path(),
            "HOME": str(self.home),
            "TMPDIR": str(self.scratch),  # codex makes no home under it
            "LANG": "C.UTF-8",
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "NO_PROXY": "127.0.0.1",
            self.stage.key: KEY,
        }
        variables |= self.stage.environment(base_url, self.version) | more
        return {name: value for name, value in variables.items() if value}
