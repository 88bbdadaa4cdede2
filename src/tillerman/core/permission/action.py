"""One thing that a request would do: a call, a simple command, a file or a host that it reaches."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tillerman.core.permission.path_location import PathLocation
from tillerman.core.permission.shell.parsed_script import ParsedCommand
from tillerman.core.tools import class_of


class PolicyAction(Struct, frozen=True):
    """`kind`: a whole call, one simple command of it, a file or a host that it reaches.

    What is `derived` stands in the words of a command: only rules that name files, or hosts, or
    forbid commands, speak of it; the command itself is judged by all.
    """

    kind: Literal["call", "command", "file", "host"]
    tool: str
    names: frozenset[str]  # tools and classes that it goes by
    call: frozenset[str]  # those of the request
    told: str = ""
    spots: tuple[PathLocation, ...] = ()
    command: ParsedCommand | None = None
    line: str | None = None  # the whole command line it is of
    host: str | None = None
    server: str | None = None
    derived: bool = False
    possible: bool = False  # it may come to this, and nobody can tell


def names_of(tool: str) -> frozenset[str]:
    """The tool's own, and that of its class."""
    return frozenset({tool, class_of(tool) or tool})
