"""Agent protocol: interfaces between tillerman and a coding agent (Agent, Conversation, Host)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from msgspec import Struct, field

from tillerman.core.contract import BuiltFor
from tillerman.core.tools import ToolClass

if TYPE_CHECKING:
    from tillerman.core.events import Answer, Event, Notice

Mode = Literal["agent", "plan", "ask"]


class AgentInfo(Struct, frozen=True):
    name: str
    title: str
    can: frozenset[str] = frozenset()  # names of core/capabilities.py that no method implies
    binary: str | None = None  # None: nothing to install
    install: str = ""  # the command that installs it
    variables: tuple[str, ...] = ()  # its credentials and endpoints; `NAME` or `PREFIX_*`
    tested: tuple[str, str] | None = None  # oldest and newest version that the test suite ran
    sign_in: str = ""  # how to sign in where no command does it: "set ACME_API_KEY"
    prompted: bool = True  # False: it runs by itself and accepts no prompts
    asks: frozenset[ToolClass] = frozenset()  # approval is requested for all calls of these classes
    runs_tools: bool = True  # False: it has no native tools, so it never requests approval
    efforts: tuple[str, ...] = ()  # the levels it accepts; empty: the agent itself rejects others
    preset_at_launch: bool = False  # it withholds tools according to the preset, only at start
    built_for: BuiltFor = BuiltFor()  # versions of the contracts it was written for


class Approval(Struct, frozen=True):
    preset: str = "ask"  # for an agent that cannot ask and so must restrict itself
    accept_advisory: bool = False  # start although the preset is not enforced for this agent


class ToolSelection(Struct, frozen=True):
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    only: tuple[str, ...] = ()  # tillerman's names, enforced by policy or the agent's list
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # MCP, by name


class NativeLimits(Struct, frozen=True):
    """The limits of a turn that the agent itself enforces."""

    turns: int | None = None
    cost: float | None = None


class NativeOptions(Struct, frozen=True):
    flags: tuple[str, ...] = ()  # extra command-line arguments
    options: Mapping[str, Any] = field(default_factory=dict)  # [agents.NAME] of the config


class SessionSpec(Struct, frozen=True):
    """Options for opening a conversation. An agent raises `Unsupported` for what it cannot do."""

    cwd: Path
    folders: tuple[Path, ...] = ()  # that it may use besides
    model: str | None = None
    effort: str | None = None
    mode: Mode = "agent"
    system: str | None = None
    output_schema: Mapping[str, Any] | None = None
    resume: str | None = None  # AgentReady.native_id of an earlier conversation
    fork: bool = False  # with resume: leave the earlier conversation unchanged
    approval: Approval = Approval()
    tools: ToolSelection = ToolSelection()
    limits: NativeLimits = NativeLimits()
    native: NativeOptions = NativeOptions()


class File(NamedTuple):
    """A file attached to a prompt."""

    name: str
    mime: str
    data: bytes


class Prompt(Struct, frozen=True):
    text: str
    files: tuple[File, ...] = ()


class DecodedLine(NamedTuple):
    """The events decoded from one line of the agent's output. Replies have been sent already."""

    raw: bytes | None
    events: Sequence[Event]
    kept: Sequence[bytes] = ()  # bytes for the store's attachments


class Exit(NamedTuple):
    """The exit status of a process: either `code` or `signal` is set."""

    code: int | None
    signal: int | None

    @property
    def clean(self) -> bool:
        return self.code == 0


class Child(Protocol):
    """A supervised process. Its descriptors are non-blocking and belong to the caller."""

    pid: int
    stdin: int | None
    stdout: int
    stderr: int

    async def wait(self) -> Exit: ...  # of the process itself, even with open pipes
    def signal(self, number: int) -> None: ...  # to this process only
    async def kill(self) -> None: ...  # the whole process tree; returns when it has ended


class Spill(Protocol):
    """A size-capped file for output too long for an event. Its content is redacted."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> str: ...  # its name in the session's spill folder


class SecretFile(NamedTuple):
    """A command-line argument or environment variable whose value is written to a private file.

    The argument becomes `flag` followed by the file's path, because every user can read command
    lines. Only the user can read the file, and it is removed with the session.
    """

    flag: str
    content: bytes


class SecretFolder(NamedTuple):
    """Like `SecretFile` for several files: the argument is `flag` plus the path of their folder."""

    flag: str
    files: Mapping[str, bytes]  # by path relative to the folder


Word = str | SecretFile | SecretFolder


class Programs(Protocol):
    """The part of a host that starts programs under supervision."""

    @property
    def level(self) -> str: ...  # the supervision level
    def find(self, binary: str) -> str | None: ...
    def variable(self, name: str) -> str | None: ...  # of the environment of the started programs
    async def spawn(
        self,
        argv: Sequence[Word],
        *,
        cwd: Path,
        env: Mapping[str, Word] = {},
        stdin: bool = True,
        enforced: bool = True,  # False: a command of the user, which no rule applies to
    ) -> Child: ...


class PlacedFiles(Protocol):
    """The part of a host that puts files into the user's folders for a while."""

    def place_file(self, path: Path, content: bytes) -> bool: ...  # False: it exists
    def remove_placed_files(self) -> None: ...  # unless they were changed; also at the end


class SessionOutput(Protocol):
    """The part of a host that stores what an agent writes, besides events."""

    @property
    def line_cap(self) -> int: ...  # bytes; a longer line is spilled, not decoded
    def spill(self) -> Spill: ...
    def report(self, notice: Notice) -> None: ...  # to the log, before there is a conversation


class Host(Programs, PlacedFiles, SessionOutput, Protocol):
    """The services that a session provides to its conversation."""

    @property
    def request_timeout(self) -> float | None: ...  # seconds until an open request is denied


class Conversation(Protocol):
    """One live connection to an agent: emits events, accepts prompts, answers and cancels."""

    @property
    def asks(self) -> frozenset[ToolClass]: ...  # like `AgentInfo.asks`, for this process
    def batches(self) -> AsyncIterator[Sequence[DecodedLine]]: ...  # ends after AgentExited

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        """Raises `SessionBusy` if the agent has just started a turn, `Unsupported` for a file.

        The call itself raises, not the await: the new turn is reported only between the two.
        """
        ...

    async def steer(self, prompt: Prompt) -> None: ...  # within the turn; SessionBusy: it has ended
    async def answer(self, request_id: str, answer: Answer) -> None: ...
    async def cancel(self) -> None: ...  # the running turn; a TurnEnded follows
    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None: ...
    async def close(self) -> None: ...  # ends the process tree


class Agent(Protocol):
    info: AgentInfo

    async def open(self, spec: SessionSpec, host: Host) -> Conversation: ...
