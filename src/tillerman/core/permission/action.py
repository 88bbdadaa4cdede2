"""An action of a request that the policy decides: a call, a simple command, a file or a host."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tillerman.core.permission.path_location import PathLocation
from tillerman.core.permission.shell.parsed_script import ParsedCommand
from tillerman.core.tools import class_of


class PolicyAction(Struct, frozen=True):
    """One action; `kind`: the whole call, one simple command, or a file or host that it accesses.

    A `derived` action comes from a command's arguments: only rules that name files or hosts, or
    that deny commands, apply to it; all rules apply to the command itself.
    """

    kind: Literal["call", "command", "file", "host"]
    tool: str
    names: frozenset[str]  # tool and class names that it matches
    call: frozenset[str]  # those of the request
    told: str = ""
    spots: tuple[PathLocation, ...] = ()
    command: ParsedCommand | None = None
    line: str | None = None  # the command line that contains it
    host: str | None = None
    server: str | None = None
    derived: bool = False
    possible: bool = False  # may happen; cannot be determined


def names_of(tool: str) -> frozenset[str]:
    """The name of the tool and that of its class."""
    return frozenset({tool, class_of(tool) or tool})
