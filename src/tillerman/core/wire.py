"""A wire: translates the JSON lines of one agent; `agents/stdio/agent.py` does the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct, field

from tillerman.core.agent import Exit, Mode, Prompt, SessionSpec, Word

if TYPE_CHECKING:
    from tillerman.core.events import Answer, Event
    from tillerman.core.failure import Failure


class WireReply(NamedTuple):
    """A message that the host must send back at once: a handshake, a callback."""

    message: dict[str, Any]


class AttachmentBytes(NamedTuple):
    """The bytes of an `Image` in an event that comes with it."""

    data: bytes


class TemporaryFile(NamedTuple):
    """A file that a program finds where the user works, and that is gone after the turn."""

    path: Path
    content: bytes
    instead: bytes | None = None  # goes in before stdin where something is there; None: refused


class Launch(Struct, frozen=True):
    argv: Sequence[Word]
    env: Mapping[str, Word] = field(default_factory=dict)
    stdin: bytes | None = None  # per-turn agents: all that goes in, then the pipe closes
    places: Sequence[TemporaryFile] = ()  # per-turn agents only


class Wire(Protocol):
    """Pure translation between an agent's messages and events; one per conversation.

    `decode` never raises for what the agent sent: it yields `Unrecognized`. It yields a
    `TurnStarted` only when the agent wakes by itself, and a `TurnEnded` at the end of every turn.
    """

    lifetime: ClassVar[Literal["session", "turn"]]  # one process for all turns, or one for each

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch: ...
    def greet(self) -> Iterable[dict[str, Any]]: ...  # sent as soon as the process runs
    def decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]: ...
    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]: ...
    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]: ...
    def cancel(self) -> Iterable[dict[str, Any]]: ...
    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]: ...


@runtime_checkable
class ExplainsExit(Protocol):
    """A wire whose program says on stderr alone why it failed."""

    def explain(self, exit: Exit, stderr: str) -> Failure | None: ...


@runtime_checkable
class DecodesStderr(Protocol):
    """A wire whose program reports on stderr what its stream does not: that it tries again."""

    def decode_stderr(self, line: str) -> Iterable[Event]: ...
