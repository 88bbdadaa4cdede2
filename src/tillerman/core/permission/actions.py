"""Splits a request into actions: each command, file, host and tool is decided separately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from tillerman.core.events import PermissionRequested
from tillerman.core.permission.action import PolicyAction, names_of
from tillerman.core.permission.command_actions import command_acts
from tillerman.core.permission.path_location import DecisionContext, PathLocation, spot, spot_of
from tillerman.core.permission.search_paths import SEARCHES, reached, reads_folders, searched_tree
from tillerman.core.permission.shell.parsed_script import HOLE, FileAccess
from tillerman.core.permission.tool_paths import file_addresses, other_texts, spellings
from tillerman.core.tools import READS, WRITES, class_of, paths_of

_MORE_PATHS = ("old_path", "new_path", "source", "destination", "from", "to")
_PATH_LISTS = ("paths", "files", "file_paths")


def acts_of(request: PermissionRequested, context: DecisionContext) -> list[PolicyAction]:
    if request.tool == "Bash":
        return list(command_acts(request, context))
    names = names_of(request.tool)
    if request.tool in READS | WRITES:
        return list(_files(request, names, context))
    kind = class_of(request.tool)
    if kind == "network":
        addresses = file_addresses(request.input)
        return [_network(request, names), *_mentions(request, addresses, names, context)]
    paths = list(dict.fromkeys(named(request)))
    spots = tuple(spot(one, context) for path in paths for one in spellings(path))
    server = server_of(request) if kind == "mcp" else None
    told = server or request.tool
    call = PolicyAction("call", request.tool, names, names, told, spots, server=server)
    others = other_texts(request.input, paths) if kind == "mcp" else ()
    return [call, *_mentions(request, others, names, context)]


def _mentions(
    request: PermissionRequested,
    texts: Sequence[str],
    names: frozenset[str],
    context: DecisionContext,
) -> Iterator[PolicyAction]:
    """Texts of the input that may name files, for rules on paths."""
    for text in texts:
        spots = tuple(spot(one, context) for one in spellings(text))
        yield PolicyAction(
            "file",
            request.tool,
            names | names_of("Read"),
            names,
            text,
            spots,
            derived=True,
        )


def server_of(request: PermissionRequested) -> str | None:
    """`server.tool`, or None if it is unknown."""
    if request.tool != "MCP":
        return request.tool
    inside = request.title.removeprefix("MCP `").removesuffix("`")
    if not inside or inside == request.title or "`" in inside:
        return None
    parts = inside.split("__", 2)
    return f"{parts[1]}.{parts[2]}" if len(parts) == 3 and parts[0] == "mcp" else inside


# -- files, hosts ----------------------------------------------------------------------------------


def _files(
    request: PermissionRequested, names: frozenset[str], context: DecisionContext
) -> Iterator[PolicyAction]:
    tool = request.tool
    paths = list(dict.fromkeys(named(request)))
    for path in paths:
        spots = tuple(_spot(request, one, context) for one in spellings(path))
        yield PolicyAction("file", tool, names, names, path, spots)
    if tool not in SEARCHES:
        yield from _mentions(request, other_texts(request.input, paths), names, context)
    if tree := searched_tree(request, context):
        yield PolicyAction("file", tool, names, names, tree.told, (tree,))
    if not paths:
        nowhere = PathLocation("", frozenset({"unnamed"}))
        found = spot(".", context) if tool in SEARCHES else nowhere
        yield PolicyAction("file", tool, names, names, tool, (found,))


def _spot(request: PermissionRequested, path: str, context: DecisionContext) -> PathLocation:
    """The location of a path; deleting or moving a folder includes its content."""
    if request.tool in ("Delete", "Rename"):
        return spot_of(FileAccess(path, "remove", recursive=True), context)
    if request.tool == "Read" and reads_folders(request.input):
        return spot_of(FileAccess(path, "read", recursive=True), context)
    return spot(path, context)


def named(request: PermissionRequested) -> Iterator[str]:
    """All file paths that a call names, from every known field."""
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


def _network(request: PermissionRequested, names: frozenset[str]) -> PolicyAction:
    url = request.input.get("url")
    host = host_of(url) if isinstance(url, str) else None
    return PolicyAction("host", request.tool, names, names, host or request.tool, host=host)


def host_of(url: str) -> str:
    """The host that a request to this URL goes to; `HOLE` if URL parsers disagree."""
    if "\\" in url or any(ord(c) <= 32 or ord(c) == 127 for c in url.strip()):
        return HOLE
    url = url.strip()
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host = parts.hostname or ""
    except ValueError:
        return HOLE
    return HOLE if parts.scheme == "file" else host.rstrip(".").lower() or HOLE
