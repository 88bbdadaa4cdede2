"""What a stage is: how one agent CLI is put before the scripted model and calls tools there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import ClassVar, TypeAlias

from tillerman.testing.model_double.script import ModelToolCall, Say

KEY = "sk-fake-0123456789abcdef"
_NOWHERE = "http://127.0.0.1:9"

Item: TypeAlias = tuple[str, str]
"""A thing to do, and whether it is pending, in_progress or completed."""


class ToolUnavailable(Exception):
    """This CLI has no such tool, or not on the surface that tillerman uses."""


class CliSetup:
    """One agent CLI. Paths that a tool is called with are absolute."""

    agent: ClassVar[str]  # its name in tillerman and in clis.toml
    api: ClassVar[str]  # which API the double will hear
    key: ClassVar[str]  # the variable that holds its key
    options: ClassVar[dict[str, object]] = {}  # of tillerman's config for the agent
    model: ClassVar[str | None] = None  # asked for unless a test asks for another
    bare: ClassVar[tuple[str, ...]]  # arguments of a bare run
    free: ClassVar[tuple[str, ...] | None] = None  # of one whose tools may act, if they differ
    speaks_acp: ClassVar[bool] = True  # in a bare run; or the prompt is the last argument
    restless: ClassVar[tuple[str, ...]] = ()  # histories and logs in its home
    takes_servers: ClassVar[bool] = True  # of a session, by a command
    at_work: ClassVar[float] = 8.0  # seconds after which it works, on a busy machine too
    histories: ClassVar[tuple[str, ...]] = ()  # the sessions that it stores in its home

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        """The variables of this CLI; one that is empty is not set."""
        raise NotImplementedError

    def files(self, base_url: str) -> dict[str, str]:
        """What must be in its home, by path."""
        return {}

    def prepare(self, home: Path, base_url: str) -> None:
        """Puts what the CLI must find into its home."""
        home.mkdir(parents=True, exist_ok=True)
        for name, content in self.files(base_url).items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def clean_environment(
        self, base_url: str, version: str, *, home: Path, path: str, scratch: Path
    ) -> dict[str, str]:
        """All the variables it gets: none of this machine's, and no way out but loopback."""
        variables = {
            "PATH": path,
            "HOME": str(home),
            "TMPDIR": str(scratch),  # codex makes no home under it
            "LANG": "C.UTF-8",
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "NO_PROXY": "127.0.0.1",
            self.key: KEY,
        }
        return variables | self.environment(base_url, version)

    def age(self, home: Path, seconds: float) -> None:
        """Sets the times of its stored sessions back."""
        for path in self._stored(home):
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))

    def forget(self, home: Path) -> None:
        """Removes its stored sessions."""
        for path in self._stored(home):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _stored(self, home: Path) -> list[Path]:
        return [path for pattern in self.histories for path in home.glob(pattern)]

    def lacks(self, version: str) -> set[str]:
        """The tools below that it does not have, or not on the surface that tillerman uses."""
        return set()

    def servers(self, commands: dict[str, list[str]]) -> tuple[str, ...]:
        """Arguments that bring MCP servers, in front of all others; where there are none, a
        client says them by ACP."""
        return ()

    def shell(self, command: str, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} has no shell")

    def write(self, path: Path, text: str, id: str | None = None) -> ModelToolCall:
        """Of a file that is not there yet."""
        raise ToolUnavailable(f"{self.agent} cannot write files")

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> ModelToolCall:
        """Of whole lines; some CLIs want that the file was read before."""
        raise ToolUnavailable(f"{self.agent} cannot edit files")

    def read(self, path: Path, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} cannot read files but by its shell")

    def view(self, picture: Path, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} reads pictures like other files")

    def search(self, folder: Path, word: str, id: str | None = None) -> ModelToolCall:
        """Of lines that have this word."""
        raise ToolUnavailable(f"{self.agent} searches by its shell alone")

    def listing(self, folder: Path, id: str | None = None) -> ModelToolCall:
        """Of what is in a folder."""
        raise ToolUnavailable(f"{self.agent} lists folders by its shell alone")

    def fetch(self, url: str, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} fetches by its shell alone")

    def ask(self, question: str, *options: str, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} asks no questions")

    def todo(self, *items: Item, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} keeps no list of what is to do")

    def result(self, json: str) -> ModelToolCall | Say:
        """The answer in a schema that was asked for."""
        return Say(json)

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} takes no MCP servers")
