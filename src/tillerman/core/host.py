"""Host: the services that a session provides to its conversation with an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tillerman.core.events import Notice


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
