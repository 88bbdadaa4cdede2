"""Splits a command line into actions: its commands, and the files and hosts they access."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from tillerman.core.events import PermissionRequested
from tillerman.core.permission.action import PolicyAction, names_of
from tillerman.core.permission.hidden_characters import hidden_characters, visible
from tillerman.core.permission.listed_files import with_listed_files
from tillerman.core.permission.outside_folders import outside_folders
from tillerman.core.permission.path_location import (
    HIDDEN,
    UNREAD,
    DecisionContext,
    PathLocation,
    holding,
    spot,
    spot_of,
)
from tillerman.core.permission.shell.parsed_script import (
    HOLE,
    SIGNS,
    Directory,
    FileAccess,
    ParsedCommand,
    ParsedScript,
    joined,
    shown,
)

LINE_KEYS = ("command", "cmd", "script")  # input fields that hold the command line of a shell call
# input fields that hold the working directory of a shell call, without case and separators
_FOLDER_KEYS = frozenset({
    "cwd", "currentdir", "currentdirectory", "dir", "directory", "dirpath", "folder",
    "targetdirectory", "workdir", "workdirectory", "workingdir", "workingdirectory",
    "workingfolder", "workspacedirectory",
})  # fmt: skip
_SHELL = names_of("Bash")
_TOOLS = {"read": "Read", "mention": "Read", "write": "Write", "remove": "Delete"}
_OUTSIDE = frozenset({"outside", "unnamed"})


def load_reader() -> None:
    """Imports the shell reader ahead of time: a request would wait some milliseconds for it."""
    import tillerman.core.permission.shell.reader  # noqa: F401


def line_key(input: Mapping[str, Any]) -> str:
    """The input field of the command line; empty if there is none."""
    return next((key for key in LINE_KEYS if input.get(key)), "")


def script_of(request: PermissionRequested, start: str = "") -> tuple[str, ParsedScript]:
    """The command line of a shell call, and its parsed script; `start`: its working directory."""
    from tillerman.core.permission.shell.reader import read, read_words  # most calls need no shell

    key = line_key(request.input)
    value = request.input.get(key)
    if isinstance(value, str):
        line, script = value, read(value, start)
    elif isinstance(value, list):
        words = [str(word) for word in value]
        line, script = shlex.join(words), read_words(words)
    else:
        return "", ParsedScript()
    others = {str(request.input[one]) for one in LINE_KEYS if request.input.get(one)}
    if len(others) > 1:
        script = replace(script, unread=(*script.unread, "two command lines in one call"))
    return line, script


def located(request: PermissionRequested, start: str = "") -> tuple[str, ParsedScript]:
    """Like `script_of`, run from the working directory that the call names."""
    line, script = script_of(request, start)
    starts = start_directories(request)
    for one in starts:
        line = f"cd {shlex.quote(one)} && {line}"  # a rule for the line alone must not match
    return line, _moved(script, starts)


def start_directories(request: PermissionRequested) -> list[str]:
    """The working directories that the call names; empty if none."""
    named = [
        value if isinstance(value, str) else HOLE
        for key, value in request.input.items()
        if value and key.replace("_", "").replace("-", "").lower() in _FOLDER_KEYS
    ]
    return list(dict.fromkeys(named))


def _start_path(request: PermissionRequested, context: DecisionContext) -> str:
    """The absolute path of the working directory; empty if it is unknown."""
    base = str(context.base or context.cwd)
    match start_directories(request):
        case []:
            return base
        case [one] if HOLE not in one and not one.startswith("~"):
            return posixpath.join(base, one)
    return ""


def command_acts(request: PermissionRequested, context: DecisionContext) -> Iterator[PolicyAction]:
    line, script = located(request, _start_path(request, context))
    if (raw := request.input.get(line_key(request.input))) and isinstance(raw, str):
        script = with_listed_files(raw, script, partial(_names_below, context))
    for one in start_directories(request):
        if not _is_within(one, context):
            yield from _command(_to(one), line, context, (), changes_nothing=False)
    yield from _unread(request, line, script)
    if line.strip() and not (script.commands or script.redirections or script.unread):
        yield PolicyAction("command", "Bash", _SHELL, _SHELL, line, line=line)
    changes_nothing = [_only_reads_inside(one, context) for one in script.commands]
    for command, rests in zip(script.commands, changes_nothing, strict=True):
        yield from _command(
            command,
            line,
            context,
            outside_folders(command, script, context),
            changes_nothing=rests and not all(changes_nothing),
        )
    for target in script.redirections:
        tool = _TOOLS[target.kind]
        found = spot_of(target, context)
        yield PolicyAction(
            "file", tool, names_of(tool) | _SHELL, _SHELL, found.told, (found,), line=line
        )
    asked_for = request.input.get("networkApprovalContext")
    if isinstance(asked_for, dict) and isinstance(host := asked_for.get("host"), str):
        yield _host(host.lower(), line)


def _names_below(context: DecisionContext, access: FileAccess) -> Iterator[str]:
    """The file names below; " ", which no rule relies on, where the list is incomplete."""
    if context.files is None or not SIGNS.isdisjoint(access.path):
        yield " "
        return
    found = spot(access.path, context, folders=access.directories)
    if not found.wholes:
        yield " "
    for folder in dict.fromkeys(found.wholes[1::2]):
        listing = context.files.below(folder, frozenset())
        yield from listing.by_name if listing.complete else (" ",)


def _unread(
    request: PermissionRequested, line: str, script: ParsedScript
) -> Iterator[PolicyAction]:
    """Actions for a line that could not be parsed fully: it may run, write and access anything."""
    hidden = hidden_characters(line)
    reasons = script.unread
    if not line.strip():
        reasons = ("no readable command",)
    if not reasons and not hidden:
        return
    if hidden:
        found = ", ".join(f"{visible(c)} {_times(count)}" for c, count in hidden.items())
        told = f"{found} in `{visible(line)}`"
        spots = (PathLocation(told, frozenset({HIDDEN})),)
        whole = ParsedCommand((), line, doubts=(f"invisible characters: {found}",))
        yield PolicyAction("command", "Bash", _SHELL, _SHELL, visible(line), spots, whole, line)
    if reasons:
        whole = ParsedCommand((), line, doubts=reasons)
        yield PolicyAction("command", "Bash", _SHELL, _SHELL, visible(line), (), whole, line)
        anywhere = PathLocation(reasons[0], frozenset({"unnamed", UNREAD}))
        names = names_of("Write") | _SHELL
        yield PolicyAction(
            "file", "Write", names, _SHELL, "any file", (anywhere,), line=line, derived=True
        )
        yield _host(HOLE, line)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _host(host: str, line: str) -> PolicyAction:
    names = names_of("WebFetch") | _SHELL
    return PolicyAction(
        "host", "WebFetch", names, _SHELL, shown(host), host=host, line=line, derived=True
    )


def _moved(script: ParsedScript, starts: Sequence[str]) -> ParsedScript:
    """The script with its directories relative to each possible working directory."""
    if not starts:
        return script

    def moved(directories: tuple[Directory, ...]) -> tuple[Directory, ...]:
        return tuple(dict.fromkeys(_below(start, one) for start in starts for one in directories))

    def accessed(access: FileAccess) -> FileAccess:
        return replace(access, directories=moved(access.directories))

    commands = tuple(
        replace(
            one,
            accesses=tuple(map(accessed, one.accesses)),
            directories=moved(one.directories),
            folders=tuple(map(accessed, one.folders)),
        )
        for one in script.commands
    )
    return ParsedScript(commands, tuple(map(accessed, script.redirections)), script.unread)


def _below(start: str, folder: Directory) -> Directory:
    if folder is None or folder.startswith(("/", "~")):
        return folder
    return None if HOLE in start else posixpath.join(start, folder)


def _is_within(folder: str, context: DecisionContext) -> bool:
    return not spot(folder, context).places & _OUTSIDE


def _to(folder: str) -> ParsedCommand:
    """A `cd` command, because running a line elsewhere means to go there first."""
    words = ("cd", folder)
    return ParsedCommand(words, joined(words), accesses=(FileAccess(folder, "read"),))


def _only_reads_inside(command: ParsedCommand, context: DecisionContext) -> bool:
    if command.effect != "none":
        return False
    return not any(spot_of(one, context).places & _OUTSIDE for one in command.accesses)


def _command(
    command: ParsedCommand,
    line: str,
    context: DecisionContext,
    folders: Sequence[PathLocation],
    *,
    changes_nothing: bool,
) -> Iterator[PolicyAction]:
    """`folders`: those outside in which it may change files that the line does not name."""
    spots = [spot_of(one, context) for one in command.accesses]
    spots = _copied(command.accesses, spots, context)
    yield PolicyAction(
        "command", "Bash", _SHELL, _SHELL, shown(command.text), (*spots, *folders), command, line,
        derived=command.inner or changes_nothing,
    )  # fmt: skip
    for access, found in zip(command.accesses, spots, strict=True):
        tool = _TOOLS[access.kind]
        names = names_of(tool) | _SHELL
        yield PolicyAction(
            "file", tool, names, _SHELL, found.told, (found,), line=line, derived=True
        )
        if access.kind == "mention" and "protected" in found.places:
            names = names_of("Write") | _SHELL
            yield PolicyAction("file", "Write", names, _SHELL, found.told, (found,), line=line,
                      derived=True, possible=True)  # fmt: skip
    for host in command.hosts:
        yield _host(host, line)


def _copied(
    accesses: Sequence[FileAccess], spots: Sequence[PathLocation], context: DecisionContext
) -> list[PathLocation]:
    """Adds names of trees that are read to trees that are written: they are copied there."""
    sources = [found.tree for access, found in zip(accesses, spots, strict=True)
               if found.tree and access.kind in ("read", "remove")]  # fmt: skip
    copied = list(spots)
    for at, access in enumerate(accesses):
        if access.recursive and access.kind == "write":
            for tree in sources:
                copied[at] = holding(copied[at], tree, context)
    return copied
