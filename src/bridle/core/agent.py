"""The port: what bridle asks of a coding agent, and what an agent may ask of bridle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    runtime_checkable,
)

from msgspec import Struct, field

if TYPE_CHECKING:
    from bridle.core.events import Answer, Event
    from bridle.core.failure import Failure

Mode = Literal["agent", "plan", "ask"]
T = TypeVar("T")


class AgentInfo(Struct, frozen=True):
    name: str
    title: str
    can: frozenset[str] = frozenset()  # words of CAPABILITIES that show in no method
    binary: str | None = None  # None: nothing to install
    install: str = ""  # the command that installs it
    variables: tuple[str, ...] = ()  # its credentials and endpoints; `NAME` or `PREFIX_*`
    tested: tuple[str, str] | None = None  # oldest and newest version that the suite has run
    sign_in: str = ""  # how, where no command does it: "set GEMINI_API_KEY"


CAPABILITIES = {
    "streaming": "text arrives as it is written",
    "thinking": "its reasoning is shown",
    "resume": "goes on with an earlier conversation, in a new process",
    "fork": "copies a conversation and goes on in the copy",
    "steer": "takes words in the middle of a turn",
    "cancel": "stops a turn and stays usable",
    "permissions": "asks before it acts",
    "questions": "asks the user questions with choices",
    "modes": "plans without acting",
    "model": "takes a model by name",
    "effort": "takes a level of effort",
    "images": "takes images",
    "mcp": "takes MCP servers",
    "system": "takes a system prompt",
    "folders": "takes extra folders",
    "schema": "answers in a given JSON schema",
    "subagents": "starts agents of its own",
    "background": "works on after its turn and wakes by itself",
    "usage": "tells tokens and cost",
    "limits": "takes limits on turns and cost",
    "tools": "takes lists of allowed and denied tools",
    "sandbox": "confines the commands it runs",
    "install": "tells where it is installed",
    "auth": "tells who is signed in",
    "about": "tells its plan, endpoint and the like",
    "models": "lists its models",
    "login": "signs in",
    "logout": "signs out",
    "sessions": "lists its own sessions",
    "create": "makes a session of its own before any prompt",
    "history": "gives what was said in its own sessions",
    "servers": "lists its MCP servers",
    "server-tools": "lists the tools of an MCP server",
    "server-add": "adds and removes MCP servers",
    "server-switch": "enables and disables MCP servers",
}


class SessionSpec(Struct, frozen=True):
    """How a conversation is opened. An agent refuses what it cannot do with `Unsupported`."""

    cwd: Path
    model: str | None = None
    mode: Mode = "agent"
    approve: str = "ask"  # the preset, for an agent that cannot ask and so must hold itself back
    resume: str | None = None  # AgentReady.native_id of an earlier conversation
    fork: bool = False  # with resume: leave the earlier one as it is
    effort: str | None = None
    system: str | None = None
    folders: tuple[Path, ...] = ()
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # MCP, by name
    allowed_tools: tuple[str, ...] = ()
    denied_tools: tuple[str, ...] = ()
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


class Heard(NamedTuple):
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
    name: str = ""  # then the path is that of a folder, in which the file has this name


Word = str | SecretFile


class Host(Protocol):
    """What a session lends to its conversation."""

    @property
    def level(self) -> str: ...  # of supervision
    @property
    def line_cap(self) -> int: ...  # bytes; a longer line is spilled, not decoded
    def find(self, binary: str) -> str | None: ...
    def variable(self, name: str) -> str | None: ...  # of the environment its programs get
    def spill(self) -> Spill: ...
    def put(self, path: Path, content: bytes) -> bool: ...  # False: something is there already
    def take_back(self) -> None: ...  # what was put and is still the same; also at the end
    async def spawn(
        self, argv: Sequence[Word], *, cwd: Path, env: Mapping[str, Word] = {}, stdin: bool = True
    ) -> Child: ...


class Conversation(Protocol):
    """One live connection to an agent: events come out, verbs go in."""

    def heard(self) -> AsyncIterator[Sequence[Heard]]: ...  # ends after AgentExited

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


# -- JSON-lines agents write a Wire; agents/stdio.py does the rest ---------------------------------


class Reply(NamedTuple):
    """A message that the host must send back at once: a handshake, a callback."""

    message: dict[str, Any]


class Keep(NamedTuple):
    """The bytes of an `Image` in an event that comes with it."""

    data: bytes


class Place(NamedTuple):
    """A file that a program finds where the user works, and that is gone after the turn."""

    path: Path
    content: bytes
    instead: bytes | None = None  # goes in before stdin where something is there; None: refused


class Launch(Struct, frozen=True):
    argv: Sequence[Word]
    env: Mapping[str, Word] = field(default_factory=dict)
    stdin: bytes | None = None  # per-turn agents: all that goes in, then the pipe closes
    places: Sequence[Place] = ()  # per-turn agents only


class Wire(Protocol):
    """Pure translation between an agent's messages and events; one per conversation.

    `decode` never raises for what the agent sent: it yields `Unrecognized`. It yields a
    `TurnStarted` only when the agent wakes by itself, and a `TurnEnded` at the end of every turn.
    """

    lifetime: ClassVar[Literal["session", "turn"]]  # one process for all turns, or one for each

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch: ...
    def greet(self) -> Iterable[dict[str, Any]]: ...  # sent as soon as the process runs
    def decode(self, line: bytes) -> Iterable[Event | Reply | Keep]: ...
    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]: ...
    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]: ...
    def cancel(self) -> Iterable[dict[str, Any]]: ...
    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]: ...


@runtime_checkable
class ExplainsExit(Protocol):
    """A wire whose program says on stderr alone why it failed."""

    def explain(self, exit: Exit, stderr: str) -> Failure | None: ...


# -- what an agent may tell besides: it has the method, or it has not ----------------------------


class Installed(Struct, frozen=True):
    binary: str
    path: str | None  # None: not installed
    version: str | None
    command: str  # that installs it


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
    shipped: bool = False  # from bridle's own table: the agent cannot list its models


class NativeSession(Struct, frozen=True):
    native_id: str
    title: str
    updated: str  # UTC, RFC 3339; empty if unknown
    cwd: str | None = None


class McpServer(Struct, frozen=True):
    name: str
    status: str  # the agent's word: connected, disabled, needs approval, …
    command: str = ""  # or its URL


class McpTool(Struct, frozen=True):
    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()


class Ran(NamedTuple):
    exit: Exit  # code 124: it was ended by the limit
    stdout: bytes
    stderr: bytes


# Says bytes, is sent each line that came back, and returns what was found out. Without I/O.
Dialog = Generator[bytes, bytes, T]


class Run(Protocol):
    """Runs a program of the agent's, supervised and bounded, in the user's home.

    Not in a project: its settings could name programs that nobody has trusted yet.
    """

    def find(self, binary: str) -> str | None: ...
    def variable(self, name: str) -> str | None: ...  # of the environment it runs programs in

    async def __call__(
        self,
        argv: Sequence[Word],
        *,
        env: Mapping[str, str] = {},
        input: bytes = b"",
        limit: float = 20,
    ) -> Ran: ...

    async def dialog(
        self,
        argv: Sequence[Word],
        dialog: Dialog[T],
        *,
        env: Mapping[str, str] = {},
        limit: float = 20,
    ) -> (
        T
    ): ...  # the program is ended as soon as the dialog returns; AgentError: it said too little


@runtime_checkable
class TellsInstall(Protocol):
    async def installed(self, run: Run) -> Installed: ...


@runtime_checkable
class TellsAuth(Protocol):
    async def account(self, run: Run) -> Account: ...


@runtime_checkable
class TellsAbout(Protocol):
    async def about(self, run: Run) -> Mapping[str, str]: ...  # plan, endpoint, …: what it tells


@runtime_checkable
class TellsModels(Protocol):
    async def models(self, run: Run) -> Sequence[Model]: ...


@runtime_checkable
class SignsIn(Protocol):
    """The words to run on the user's terminal: signing in is between them and the agent."""

    def login(self) -> Sequence[str]: ...


@runtime_checkable
class SignsOut(Protocol):
    def logout(self) -> Sequence[str]: ...


@runtime_checkable
class TellsSessions(Protocol):
    async def native_sessions(self, run: Run, cwd: Path) -> Sequence[NativeSession]: ...


@runtime_checkable
class CreatesSessions(Protocol):
    async def create_session(self, run: Run, cwd: Path) -> str: ...  # its native id


@runtime_checkable
class TellsHistory(Protocol):
    async def native_history(self, run: Run, session: NativeSession) -> Sequence[Event]:
        """What was said and done in it: `UserMessage(how="imported")`, chunks, tools; no turns."""
        ...


@runtime_checkable
class ListsServers(Protocol):
    async def mcp_servers(self, run: Run) -> Sequence[McpServer]: ...


@runtime_checkable
class ListsServerTools(Protocol):
    async def mcp_tools(self, run: Run, name: str) -> Sequence[McpTool]: ...


@runtime_checkable
class ChangesServers(Protocol):
    """For the user, not for a project. `config`: command, args, env; or type, url, headers.

    Command lines are read by every user: a secret goes by `SecretFile`, stdin or the agent's file.
    """

    async def mcp_add(self, run: Run, name: str, config: Mapping[str, Any]) -> None: ...
    async def mcp_remove(self, run: Run, name: str) -> None: ...


@runtime_checkable
class SwitchesServers(Protocol):
    async def mcp_switch(self, run: Run, name: str, on: bool) -> None: ...


METHODS: dict[str, type] = {
    "install": TellsInstall,
    "auth": TellsAuth,
    "about": TellsAbout,
    "models": TellsModels,
    "login": SignsIn,
    "logout": SignsOut,
    "sessions": TellsSessions,
    "create": CreatesSessions,
    "history": TellsHistory,
    "servers": ListsServers,
    "server-tools": ListsServerTools,
    "server-add": ChangesServers,
    "server-switch": SwitchesServers,
}


def capabilities(agent: Agent) -> frozenset[str]:
    return agent.info.can | {word for word, has in METHODS.items() if isinstance(agent, has)}
