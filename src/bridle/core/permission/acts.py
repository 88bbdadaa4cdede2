"""What a request would do, taken apart: each command, file, host and tool is judged by itself."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from bridle.core.events import PermissionRequested
from bridle.core.permission.searches import SEARCHES, reached
from bridle.core.permission.shell.parsed_script import (
    HOLE,
    Command,
    Directory,
    FileAccess,
    ParsedScript,
    joined,
    shown,
)
from bridle.core.permission.spots import Context, Spot, spot
from bridle.core.tools import READS, WRITES, class_of, paths_of

LINE_KEYS = ("command", "cmd", "script")  # where a shell's call has its command line
_MORE_PATHS = ("old_path", "new_path", "source", "destination", "from", "to")
_PATH_LISTS = ("paths", "files", "file_paths")
# where a shell's call says which folder it runs in, however the words are put together
_FOLDER_KEYS = frozenset({
    "cwd", "currentdir", "currentdirectory", "dir", "directory", "dirpath", "folder",
    "targetdirectory", "workdir", "workdirectory", "workingdir", "workingdirectory",
    "workingfolder", "workspacedirectory",
})  # fmt: skip


class Act(Struct, frozen=True):
    """`kind`: a whole call, one simple command of it, a file or a host that it reaches.

    What is `derived` stands in the words of a command: only rules that name files, or hosts, or
    forbid commands, speak of it; the command itself is judged by all.
    """

    kind: Literal["call", "command", "file", "host"]
    tool: str
    names: frozenset[str]  # tools and classes that it goes by
    call: frozenset[str]  # those of the request
    told: str = ""
    spots: tuple[Spot, ...] = ()
    command: Command | None = None
    line: str | None = None  # the whole command line it is of
    host: str | None = None
    server: str | None = None
    derived: bool = False


def acts_of(request: PermissionRequested, context: Context) -> list[Act]:
    if request.tool == "Bash":
        return list(_shell(request, context))
    names = _names(request.tool)
    if request.tool in READS | WRITES:
        return list(_files(request, names, context))
    kind = class_of(request.tool)
    if kind == "network":
        return [_network(request, names)]
    spots = tuple(spot(path, context) for path in dict.fromkeys(named(request)))
    server = server_of(request) if kind == "mcp" else None
    told = server or request.tool
    return [Act("call", request.tool, names, names, told, spots, server=server)]


def server_of(request: PermissionRequested) -> str | None:
    """`server.tool`; None for what nobody told."""
    if request.tool != "MCP":
        return request.tool
    inside = request.title.removeprefix("MCP `").removesuffix("`")
    if not inside or inside == request.title or "`" in inside:
        return None
    parts = inside.split("__", 2)
    return f"{parts[1]}.{parts[2]}" if len(parts) == 3 and parts[0] == "mcp" else inside


def load_reader() -> None:
    """While there is time: it takes some milliseconds, and whoever asks about a command waits."""
    import bridle.core.permission.shell.reader  # noqa: F401


def script_of(request: PermissionRequested) -> tuple[str, ParsedScript]:
    """The command line of a shell's call, and what it comes to."""
    from bridle.core.permission.shell.reader import read, read_words  # most calls need no shell

    for key in LINE_KEYS:
        value = request.input.get(key)
        if isinstance(value, str) and value:
            return value, read(value)
        if isinstance(value, list) and value:
            words = [str(word) for word in value]
            return shlex.join(words), read_words(words)
    return "", ParsedScript()


def _names(tool: str) -> frozenset[str]:
    return frozenset({tool, class_of(tool) or tool})


# -- files, hosts ----------------------------------------------------------------------------------


def _files(request: PermissionRequested, names: frozenset[str], context: Context) -> Iterator[Act]:
    tool = request.tool
    removed = tool in ("Delete", "Rename")
    paths = list(dict.fromkeys(named(request)))
    for path in paths:
        found = spot(path, context, removed=removed)
        yield Act("file", tool, names, names, path, (found,))
    if not paths:
        nowhere = Spot("", frozenset({"unnamed"}))
        found = spot(".", context) if tool in SEARCHES else nowhere
        yield Act("file", tool, names, names, tool, (found,))


def named(request: PermissionRequested) -> Iterator[str]:
    """The files that a call says it is about, wherever it says so."""
    yield from request.paths
    yield from paths_of(request.input)
    for key in _MORE_PATHS:
        value = request.input.get(key)
        if isinstance(value, str) and value:
            yield value
    for key in _PATH_LISTS:
        value = request.input.get(key)
        if isinstance(value, list):
            yield from (path for path in value if isinstance(path, str) and path)
    if request.tool in SEARCHES:
        yield from reached(request.tool, request.input)


def _network(request: PermissionRequested, names: frozenset[str]) -> Act:
    url = request.input.get("url")
    host = host_of(url) if isinstance(url, str) else None
    return Act("host", request.tool, names, names, host or request.tool, host=host)


def host_of(url: str) -> str:
    """The host that a request to this address goes to; a sign for one that readers disagree on."""
    if "\\" in url or any(ord(c) <= 32 or ord(c) == 127 for c in url.strip()):
        return HOLE
    url = url.strip()
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host = parts.hostname or ""
    except ValueError:
        return HOLE
    return HOLE if parts.scheme == "file" else host.rstrip(".").lower() or HOLE


# -- command lines ---------------------------------------------------------------------------------


def _shell(request: PermissionRequested, context: Context) -> Iterator[Act]:
    shell = _names("Bash")
    line, script = script_of(request)
    starts = _starts(request)
    script = _moved(script, starts)
    elsewhere = [one for one in starts if not _is_within(one, context)]
    for one in elsewhere:
        line = f"cd {shlex.quote(one)} && {line}"  # allowed as a line at home, it is not there
    for one in elsewhere:
        yield from _command(_to(one), line, shell, context, resting=False)
    if not line.strip():
        unread = Command((), "", doubts=("there is no command that can be read",))
        yield Act("command", "Bash", shell, shell, command=unread, line=line)
        yield _anything(line, shell)
    elif script.unread:
        whole = Command((), line, doubts=script.unread)
        yield Act("command", "Bash", shell, shell, line, command=whole, line=line)
        yield _anything(line, shell)
    elif not script.commands and not script.redirections:
        yield Act("command", "Bash", shell, shell, line, line=line)
    resting = [_rests(one, context) for one in script.commands]
    for command, rests in zip(script.commands, resting, strict=True):
        yield from _command(command, line, shell, context, resting=rests and not all(resting))
    for target in script.redirections:
        tool = "Read" if target.kind == "read" else "Write"
        found = spot(target.path, context, folders=target.directories)
        yield Act("file", tool, _names(tool) | shell, shell, found.told, (found,), line=line)
    asked_for = request.input.get("networkApprovalContext")
    if isinstance(asked_for, dict) and isinstance(host := asked_for.get("host"), str):
        yield Act("host", "WebFetch", _names("WebFetch") | shell, shell, host, host=host.lower(),
                  line=line, derived=True)  # fmt: skip


def _anything(line: str, shell: frozenset[str]) -> Act:
    """What was not read may write anywhere."""
    nowhere = Spot("", frozenset({"unnamed"}))
    return Act(
        "file", "Write", _names("Write") | shell, shell, spots=(nowhere,), line=line, derived=True
    )


def _starts(request: PermissionRequested) -> list[str]:
    """The folders that the agent would run it in; none where it names none."""
    named = [
        value if isinstance(value, str) else HOLE
        for key, value in request.input.items()
        if value and key.replace("_", "").replace("-", "").lower() in _FOLDER_KEYS
    ]
    return list(dict.fromkeys(named))


def _moved(script: ParsedScript, starts: Sequence[str]) -> ParsedScript:
    """From each folder that it may run in."""
    if not starts:
        return script

    def moved(access: FileAccess) -> FileAccess:
        pairs = [_below(start, one) for start in starts for one in access.directories]
        return replace(access, directories=tuple(dict.fromkeys(pairs)))

    return ParsedScript(
        tuple(replace(one, accesses=tuple(map(moved, one.accesses))) for one in script.commands),
        tuple(map(moved, script.redirections)),
        script.unread,
    )


def _below(start: str, folder: Directory) -> Directory:
    if folder is None or folder.startswith(("/", "~")):
        return folder
    return None if HOLE in start else posixpath.join(start, folder)


def _is_within(folder: str, context: Context) -> bool:
    return not spot(folder, context).places & {"outside", "unnamed"}


def _to(folder: str) -> Command:
    """To run a line elsewhere is to go there first."""
    words = ("cd", folder)
    return Command(words, joined(words), accesses=(FileAccess(folder, "read"),))


def _rests(command: Command, context: Context) -> bool:
    if command.effect != "none":
        return False
    spots = [_spot(one, context) for one in command.accesses]
    return not any(one.places & {"outside", "unnamed"} for one in spots)


def _spot(access: FileAccess, context: Context) -> Spot:
    below = access.kind == "write" and posixpath.normpath(access.path) != "."
    removed = (access.kind == "remove" or (access.recursive and below)) and not access.only
    return spot(access.path, context, folders=access.directories, removed=removed)


_TOOLS = {"read": "Read", "write": "Write", "remove": "Delete"}


def _command(
    command: Command, line: str, shell: frozenset[str], context: Context, *, resting: bool
) -> Iterator[Act]:
    accesses = [one for one in command.accesses if one.kind != "mention"]
    spots = [_spot(one, context) for one in accesses]
    yield Act(
        "command", "Bash", shell, shell, shown(command.text), tuple(spots), command, line,
        derived=command.inner or resting,
    )  # fmt: skip
    for access, found in zip(accesses, spots, strict=True):
        tool = _TOOLS[access.kind]
        names = _names(tool) | shell
        yield Act("file", tool, names, shell, found.told, (found,), line=line, derived=True)
    for host in command.hosts:
        names = _names("WebFetch") | shell
        yield Act("host", "WebFetch", names, shell, host, host=host, line=line, derived=True)
