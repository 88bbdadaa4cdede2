"""Agent port: what a coding agent provides (Agent, Conversation); see also host and wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from tillerman.core.contract import BuiltFor
from tillerman.core.host import Child, Exit, Host, SecretFile, SecretFolder, Spill, Word
from tillerman.core.session_spec import Mode, SessionSpec
from tillerman.core.tools import ToolClass

if TYPE_CHECKING:
    from tillerman.core.events import Answer, Event

__all__ = [
    "Agent", "AgentInfo", "Child", "Conversation", "DecodedLine", "Exit", "File", "Host", "Mode",
    "Prompt", "SecretFile", "SecretFolder", "SessionSpec", "Spill", "StartFiles", "Word",
]  # fmt: skip


class StartFiles(Struct, frozen=True):
    """The user's files that an agent's program reads when it starts, and not again."""

    names: tuple[str, ...] = ()  # in the home; `file#key`: only the values of a key, of a JSON file
    moved: tuple[str, str] = ("", "")  # a variable that replaces this folder of the home


class AgentInfo(Struct, frozen=True):
    name: str
    title: str
    can: frozenset[str] = frozenset()  # names of core/capabilities.py that no method implies
    binary: str | None = None  # None: nothing to install
    install: str = ""  # the command that installs it
    variables: tuple[str, ...] = ()  # its credentials and endpoints; also PREFIX_*
    tested: tuple[str, str] | None = None  # oldest and newest version that the test suite ran
    sign_in: str = ""  # how to sign in where no command does it: "set ACME_API_KEY"
    prompted: bool = True  # False: it runs by itself and accepts no prompts
    asks: frozenset[ToolClass] = frozenset()  # approval is requested for all calls of these classes
    runs_tools: bool = True  # False: it has no native tools, so it never requests approval
    efforts: tuple[str, ...] = ()  # the levels it accepts; empty: the agent itself rejects others
    preset_at_launch: bool = False  # it withholds tools according to the preset, only at start
    start_files: StartFiles | None = None  # None: unknown, so it is not started beforehand
    built_for: BuiltFor = BuiltFor()  # versions of the contracts it was written for


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
