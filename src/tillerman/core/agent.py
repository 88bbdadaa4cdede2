"""The port: what tillerman asks of a coding agent, and what an agent may ask of tillerman."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from msgspec import Struct, field

from tillerman.core.tools import ToolClass

if TYPE_CHECKING:
    from tillerman.core.events import Answer, Event, Notice

Mode = Literal["agent", "plan", "ask"]


class AgentInfo(Struct, frozen=True):
    name: str
    title: str
    can: frozenset[str] = frozenset()  # words of core/capabilities.py that show in no method
    binary: str | None = None  # None: nothing to install
    install: str = ""  # the command that installs it
    variables: tuple[str, ...] = ()  # its credentials and endpoints; `NAME` or `PREFIX_*`
    tested: tuple[str, str] | None = None  # oldest and newest version that the suite has run
    sign_in: str = ""  # how, where no command does it: "set GEMINI_API_KEY"
    prompted: bool = True  # False: it speaks by itself, and nobody can speak to it
    asks: frozenset[ToolClass] = frozenset()  # of every call of these classes, before it runs
    runs_tools: bool = True  # False: it has no tools of its own, so there is nothing to ask about
    efforts: tuple[str, ...] = ()  # the levels that it knows; none: it refuses others by itself
    preset_at_launch: bool = False  # it withholds tools by the preset, and only when it starts


class SessionSpec(Struct, frozen=True):
    """How a conversation is opened. An agent refuses what it cannot do with `Unsupported`."""

    cwd: Path
    model: str | None = None
    mode: Mode = "agent"
    approve: str = "ask"  # the preset, for an agent that cannot ask and so must hold itself back
    accept_advisory: bool = False  # though what the preset says will not hold for this agent
    resume: str | None = None  # AgentReady.native_id of an earlier conversation
    fork: bool = False  # with resume: leave the earlier one as it is
    effort: str | None = None
    system: str | None = None
    folders: tuple[Path, ...] = ()
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # MCP, by name
    allowed_tools: tuple[str, ...] = ()
    denied_tools: tuple[str, ...] = ()
    only_tools: tuple[str, ...] = ()  # ours, held by our policy: for who asks, or takes a list
    output_schema: Mapping[str, Any] | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    flags: tuple[str, ...] = ()  # extra words for its command line
    options: Mapping[str, Any] = field(default_factory=dict)  # [agents.NAME] of the config


class File(NamedTuple):
    """A file that goes with a prompt."""

    name: str
    mime: str
    data: bytes


class Prompt(Struct, frozen=True):
    text: str
    files: tuple[File, ...] = ()


class DecodedLine(NamedTuple):
    """What one line of the agent meant. Replies have been sent already."""

    raw: bytes | None
    events: Sequence[Event]
    kept: Sequence[bytes] = ()  # what goes to the store's attachments


class Exit(NamedTuple):
    """How a process ended: one of the two is set."""

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

    async def wait(self) -> Exit: ...  # of the process itself, whoever still holds its pipes
    def signal(self, number: int) -> None: ...  # to the process alone
    async def kill(self) -> None: ...  # the whole tree; returns when it is gone


class Spill(Protocol):
    """A capped file for what is too long for an event. What it keeps is redacted."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> str: ...  # its name in the session's spill folder


class SecretFile(NamedTuple):
    """A word of a command line, or a variable, that names a file.

    The word is `flag` and the file's path: every user can read command lines. The file is the
    user's alone, and gone with the session.
    """

    flag: str
    content: bytes


class SecretFolder(NamedTuple):
    """As a `SecretFile`, of several: the word is `flag` and the path of the folder they are in."""

    flag: str
    files: Mapping[str, bytes]  # by their path in it


Word = str | SecretFile | SecretFolder


class Host(Protocol):
    """What a session lends to its conversation."""

    @property
    def level(self) -> str: ...  # of supervision
    @property
    def line_cap(self) -> int: ...  # bytes; a longer line is spilled, not decoded
    def find(self, binary: str) -> str | None: ...
    def variable(self, name: str) -> str | None: ...  # of the environment its programs get
    def spill(self) -> Spill: ...
    def report(self, notice: Notice) -> None: ...  # for the log, before there is a conversation
    def put(self, path: Path, content: bytes) -> bool: ...  # False: something is there already
    def take_back(self) -> None: ...  # what was put and is still the same; also at the end
    async def spawn(
        self,
        argv: Sequence[Word],
        *,
        cwd: Path,
        env: Mapping[str, Word] = {},
        stdin: bool = True,
        enforced: bool = True,  # False: a command of the user's own, which no rule is for
    ) -> Child: ...
    @property
    def patience(self) -> float | None: ...  # seconds until an open request is denied


class Conversation(Protocol):
    """One live connection to an agent: events come out, verbs go in."""

    @property
    def asks(self) -> frozenset[ToolClass]: ...  # as `AgentInfo`, of what was really started
    def heard(self) -> AsyncIterator[Sequence[DecodedLine]]: ...  # ends after AgentExited

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        """Raises `SessionBusy` if the agent woke just now, and `Unsupported` for a file.

        By the call itself, not when awaited: only in between is a new turn told to anybody.
        """
        ...

    async def steer(self, prompt: Prompt) -> None: ...  # within the turn; SessionBusy: it is over
    async def answer(self, request_id: str, answer: Answer) -> None: ...
    async def cancel(self) -> None: ...  # the running turn; a TurnEnded follows
    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None: ...
    async def close(self) -> None: ...  # ends the process tree


class Agent(Protocol):
    info: AgentInfo

    async def open(self, spec: SessionSpec, host: Host) -> Conversation: ...
