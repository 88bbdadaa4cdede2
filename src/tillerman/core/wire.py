"""Wire protocol: translates an agent's JSON lines to events; `agents/stdio` does the I/O."""

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
    """A message that the host must send back immediately: a handshake, a callback."""

    message: dict[str, Any]


class AttachmentBytes(NamedTuple):
    """The bytes of an `Image` in an event of the same line."""

    data: bytes


class TemporaryFile(NamedTuple):
    """A file that exists in the user's folder for one turn only."""

    path: Path
    content: bytes
    instead: bytes | None = None  # sent before stdin if the path exists; None: refuse


class Launch(Struct, frozen=True):
    argv: Sequence[Word]
    env: Mapping[str, Word] = field(default_factory=dict)
    stdin: bytes | None = None  # per-turn agents: the whole input, then the pipe closes
    places: Sequence[TemporaryFile] = ()  # per-turn agents only


class Wire(Protocol):
    """Pure translation between an agent's messages and events; one instance per conversation.

    `decode` never raises for the agent's output: it yields `Unrecognized`. It yields a
    `TurnStarted` only when the agent starts a turn by itself, and a `TurnEnded` at the end of
    every turn.
    """

    lifetime: ClassVar[Literal["session", "turn"]]  # one process for all turns, or one per turn

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch: ...
    def greet(self) -> Iterable[dict[str, Any]]: ...  # sent as soon as the process runs
    def decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]: ...
    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]: ...
    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]: ...
    def cancel(self) -> Iterable[dict[str, Any]]: ...
    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]: ...


@runtime_checkable
class ExplainsExit(Protocol):
    """A wire whose program reports the reason of a failure only on stderr."""

    def explain(self, exit: Exit, stderr: str) -> Failure | None: ...


@runtime_checkable
class DecodesStderr(Protocol):
    """A wire whose program reports retries on stderr, not in its stream."""

    def decode_stderr(self, line: str) -> Iterable[Event]: ...
