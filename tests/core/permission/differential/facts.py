"""What a line did when a real shell ran it."""

from __future__ import annotations

import json
from typing import NamedTuple, Self


class Exec(NamedTuple):
    """One execve that reached a program."""

    path: str  # absolute, as the caller named it
    argv: tuple[str, ...]
    cwd: str
    via: tuple[str, ...]  # the programs that led to it, nearest first; none: the shell itself

    @property
    def program(self) -> str:
        return self.path.rpartition("/")[2]


class Facts(NamedTuple):
    execs: tuple[Exec, ...] = ()
    changed: tuple[str, ...] = ()  # created, written, removed or given another mode
    replaced: frozenset[str] = frozenset()  # folders of those that are new, gone or another one now
    left: frozenset[str] = frozenset()  # paths of those that exist in the end
    read: tuple[str, ...] = ()
    timed_out: bool = False
    status: int = 0

    @classmethod
    def decoded(cls, answer: bytes) -> Self:
        """As the sandbox reports them."""
        found = json.loads(answer)
        return cls(
            execs=tuple(
                Exec(path, tuple(argv), cwd, tuple(via)) for path, argv, cwd, via in found["execs"]
            ),
            changed=tuple(found["changed"]),
            replaced=frozenset(found["replaced"]),
            left=frozenset(found["left"]),
            read=tuple(found["read"]),
            timed_out=found["timed_out"],
            status=found["status"],
        )
