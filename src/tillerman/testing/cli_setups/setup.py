"""Base class of CLI test setups: connects an agent CLI to the scripted model, calls its tools."""

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
    """This CLI has no such tool, or not over the protocol that tillerman uses."""


class CliSetup:
    """The setup of one agent CLI. Paths in tool calls are absolute."""

    agent: ClassVar[str]  # its name in tillerman and in clis.toml
    api: ClassVar[str]  # the API that the double receives
    key: ClassVar[str]  # the variable of its API key
    options: ClassVar[dict[str, object]] = {}  # tillerman's config for the agent
    model: ClassVar[str | None] = None  # requested unless a test requests another
    bare: ClassVar[tuple[str, ...]]  # arguments of a bare run
    free: ClassVar[tuple[str, ...] | None] = None  # arguments that let its tools act, if different
    speaks_acp: ClassVar[bool] = True  # in a bare run; else the prompt is the last argument
    volatile_files: ClassVar[tuple[str, ...]] = ()  # histories and logs in its home
    takes_servers: ClassVar[bool] = True  # per session, by a command
    at_work: ClassVar[float] = 8.0  # seconds until it works, even on a busy machine
    histories: ClassVar[tuple[str, ...]] = ()  # the sessions stored in its home

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        """The variables of this CLI; an empty one is not set."""
        raise NotImplementedError

    def files(self, base_url: str) -> dict[str, str]:
        """The files required in its home, by path."""
        return {}

    def prepare(self, home: Path, base_url: str) -> None:
        """Writes the files that the CLI needs to its home."""
        home.mkdir(parents=True, exist_ok=True)
        for name, content in self.files(base_url).items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def clean_environment(
        self, base_url: str, version: str, *, home: Path, path: str, scratch: Path
    ) -> dict[str, str]:
        """All its variables: none of this machine, and network access to loopback only."""
        variables = {
            "PATH": path,
            "HOME": str(home),
            "TMPDIR": str(scratch),  # some CLIs do not create their home below it
            "LANG": "C.UTF-8",
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "NO_PROXY": "127.0.0.1",
            self.key: KEY,
        }
        return variables | self.environment(base_url, version)

    def age(self, home: Path, seconds: float) -> None:
        """Sets the timestamps of its stored sessions back."""
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
        """The tools below that it lacks, or lacks over the protocol that tillerman uses."""
        return set()

    def servers(self, commands: dict[str, list[str]]) -> tuple[str, ...]:
        """Arguments that configure MCP servers, before all others; empty: passed by ACP."""
        return ()

    def shell(self, command: str, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} has no shell")

    def write(self, path: Path, text: str, id: str | None = None) -> ModelToolCall:
        """Writes a file that does not exist yet."""
        raise ToolUnavailable(f"{self.agent} cannot write files")

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> ModelToolCall:
        """Edits whole lines; some CLIs require that the file was read before."""
        raise ToolUnavailable(f"{self.agent} cannot edit files")

    def read(self, path: Path, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} cannot read files but by its shell")

    def view(self, picture: Path, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} reads pictures like other files")

    def search(self, folder: Path, word: str, id: str | None = None) -> ModelToolCall:
        """Searches for lines with this word."""
        raise ToolUnavailable(f"{self.agent} searches by its shell alone")

    def listing(self, folder: Path, id: str | None = None) -> ModelToolCall:
        """Lists a folder."""
        raise ToolUnavailable(f"{self.agent} lists folders by its shell alone")

    def fetch(self, url: str, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} fetches by its shell alone")

    def ask(self, question: str, *options: str, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} asks no questions")

    def todo(self, *items: Item, id: str | None = None) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} keeps no list of what is to do")

    def result(self, json: str) -> ModelToolCall | Say:
        """The answer in the requested schema."""
        return Say(json)

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> ModelToolCall:
        raise ToolUnavailable(f"{self.agent} takes no MCP servers")
