"""Agent administration protocols: install, account, models, sessions and MCP servers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from tillerman.core.agent import Exit, Word

if TYPE_CHECKING:
    from tillerman.core.events import Event

T = TypeVar("T")


class Installed(Struct, frozen=True):
    binary: str
    path: str | None  # None: not installed
    version: str | None
    command: str  # the command that installs it


class Account(Struct, frozen=True):
    signed_in: bool
    method: str | None = None  # api key, browser, token, variable
    who: str | None = None
    hint: str = ""


class Model(Struct, frozen=True):
    id: str
    title: str
    provider: str | None = None
    default: bool = False
    current: bool = False
    thinking: bool = False
    efforts: tuple[str, ...] = ()
    context: int | None = None
    shipped: bool = False  # from tillerman's own table: the agent cannot list its models


class NativeSession(Struct, frozen=True):
    native_id: str
    title: str
    updated: str  # UTC, RFC 3339; empty if unknown
    cwd: str | None = None


class McpServer(Struct, frozen=True):
    name: str
    status: str  # the agent's own term: connected, disabled, needs approval, …
    command: str = ""  # or its URL


class McpTool(Struct, frozen=True):
    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()


class CommandResult(NamedTuple):
    exit: Exit  # code 124: ended by the time limit
    stdout: bytes
    stderr: bytes


# Yields bytes to send, receives each line of the response, returns the result. No I/O.
Dialog = Generator[bytes, bytes, T]


class RunCommand(Protocol):
    """Runs a program of the agent, supervised and with limits, in the user's home folder.

    Not in a project folder: project settings could name programs that are not trusted yet.
    """

    def find(self, binary: str) -> str | None: ...
    def variable(self, name: str) -> str | None: ...  # of the environment of the programs
    def option(self, name: str) -> Any: ...  # of [agents.NAME] in the config; None: not set

    async def __call__(
        self,
        argv: Sequence[Word],
        *,
        env: Mapping[str, str] = {},
        input: bytes = b"",
        limit: float = 20,
    ) -> CommandResult: ...

    async def dialog(
        self,
        argv: Sequence[Word],
        dialog: Dialog[T],
        *,
        env: Mapping[str, str] = {},
        limit: float = 20,
    ) -> T:
        """Ends the program when the dialog returns; `AgentError`: its output was incomplete."""
        ...


@runtime_checkable
class InstallInfo(Protocol):
    async def installed(self, run: RunCommand) -> Installed: ...


@runtime_checkable
class AccountInfo(Protocol):
    async def account(self, run: RunCommand) -> Account: ...


@runtime_checkable
class AgentDetails(Protocol):
    async def about(
        self, run: RunCommand
    ) -> Mapping[str, str]: ...  # plan, endpoint, …: what the agent reports


@runtime_checkable
class ModelList(Protocol):
    async def models(self, run: RunCommand) -> Sequence[Model]: ...


@runtime_checkable
class SignInCommand(Protocol):
    """The command to run on the user's terminal: sign-in is between the user and the agent."""

    def login(self) -> Sequence[str]: ...


@runtime_checkable
class SignOutCommand(Protocol):
    def logout(self) -> Sequence[str]: ...


@runtime_checkable
class NativeSessionList(Protocol):
    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]: ...


@runtime_checkable
class NativeSessionCreation(Protocol):
    async def create_session(self, run: RunCommand, cwd: Path) -> str: ...  # its native id


@runtime_checkable
class NativeSessionHistory(Protocol):
    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        """The session's events: `UserMessage(how="imported")`, chunks, tools; no turns."""
        ...


@runtime_checkable
class McpServerList(Protocol):
    async def mcp_servers(self, run: RunCommand) -> Sequence[McpServer]: ...


@runtime_checkable
class McpToolList(Protocol):
    async def mcp_tools(self, run: RunCommand, name: str) -> Sequence[McpTool]: ...


@runtime_checkable
class McpServerChanges(Protocol):
    """User scope, not project. `config`: command, args, env; or type, url, headers.

    Every user can read command lines: pass a secret by `SecretFile`, stdin or the agent's file.
    """

    async def mcp_add(self, run: RunCommand, name: str, config: Mapping[str, Any]) -> None: ...
    async def mcp_remove(self, run: RunCommand, name: str) -> None: ...


@runtime_checkable
class McpServerToggle(Protocol):
    async def mcp_switch(self, run: RunCommand, name: str, on: bool) -> None: ...


METHODS: dict[str, type] = {
    "install": InstallInfo,
    "auth": AccountInfo,
    "about": AgentDetails,
    "models": ModelList,
    "login": SignInCommand,
    "logout": SignOutCommand,
    "sessions": NativeSessionList,
    "create": NativeSessionCreation,
    "history": NativeSessionHistory,
    "servers": McpServerList,
    "server-tools": McpToolList,
    "server-add": McpServerChanges,
    "server-switch": McpServerToggle,
}
