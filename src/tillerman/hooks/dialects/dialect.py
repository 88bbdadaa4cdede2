"""Interface of a hook dialect: decodes the hook events of one CLI, encodes replies and configs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from tillerman.core.events import PermissionRequested
from tillerman.core.json_fields import Table
from tillerman.hooks.dialects.payload_codec import HookEvent
from tillerman.hooks.protocol import HookReply

BRIEF = 10  # seconds, for a hook that only observes


class HookConfigPaths(Struct, frozen=True):
    """Paths of the file that configures hooks, in a project and in the user's home."""

    project: str
    user: str
    frame: Mapping[str, Any] = field(default_factory=dict)  # content of a new file besides `hooks`
    comments: bool = False  # whether the CLI accepts comments in JSON
    code: bool = False  # not JSON entries, but a whole program of ours
    moved: tuple[str, str] = ("", "")  # a variable, and the folder in the home that it replaces
    trust: str = ""  # what the user must do before the hooks are run

    @property
    def file(self) -> str:
        return self.project.rpartition("/")[2]

    def users(self, home: Path, environment: Mapping[str, str]) -> Path:
        variable, folder = self.moved
        if variable and (value := environment.get(variable)):
            return Path(value) / self.user.removeprefix(folder).lstrip("/")
        return home / self.user


class HookDialect(Protocol):
    @property
    def EVENTS(self) -> Mapping[str, Any]: ...
    @property
    def GATES(self) -> frozenset[str]: ...
    @property
    def CALLS(self) -> tuple[str, ...]: ...
    @property
    def CHANGES_INPUT(self) -> frozenset[str]: ...
    @property
    def PLACE(self) -> HookConfigPaths: ...
    @property
    def ALSO_RUN_BY(self) -> Mapping[str, str]: ...  # other agents, by a key of their payloads

    def known(self, version: str | None) -> frozenset[str]: ...
    def read(self, event: str, payload: bytes) -> HookEvent: ...
    def request_of(self, event: HookEvent, request_id: str) -> PermissionRequested | None: ...

    def allow(self, event: HookEvent, *, input: Table | None = None) -> HookReply: ...
    def deny(self, event: HookEvent, message: str) -> HookReply: ...
    def ask(self, event: HookEvent, message: str) -> HookReply: ...
    def nothing(self, event: HookEvent) -> HookReply: ...
    def context(
        self, event: HookEvent, words: str = "", *, environment: Mapping[str, str] | None = None
    ) -> HookReply: ...
    def go_on(self, event: HookEvent, message: str) -> HookReply: ...

    def entry(self, event: str, command: str, *, timeout: int) -> Table: ...
    def config(
        self, commands: Mapping[str, str], version: str | None = None, *, timeout: int = 600
    ) -> dict[str, bytes]: ...
