"""Derives the narrow rule that an answer of "always" or "never" stores."""

from __future__ import annotations

import posixpath
from functools import partial
from typing import Literal
from urllib.parse import unquote

from msgspec.structs import replace

from tillerman.core.events import PermissionRequested
from tillerman.core.permission.actions import host_of, named, server_of
from tillerman.core.permission.command_actions import located
from tillerman.core.permission.hidden_characters import hidden_characters
from tillerman.core.permission.patterns import escaped
from tillerman.core.permission.rules import Rule
from tillerman.core.permission.shell.parsed_script import HOLE, is_open
from tillerman.core.tools import READS, WRITES, class_of

ALWAYS, NEVER = "always", "never"
_rule = partial(Rule, ALWAYS, "allow", source="remembered")


def rule_for(
    request: PermissionRequested, verdict: Literal["allow", "deny"] = "allow"
) -> Rule | None:
    """The rule for requests like this one; `Rule.told` describes it. None: there is none."""
    rule = _rule_for(request)
    if verdict == "allow" or rule is None:
        return rule
    note = "you denied this permanently"
    return replace(rule, name=NEVER, verdict="deny", note=note, directory=None)


def _rule_for(request: PermissionRequested) -> Rule | None:
    tool = request.tool
    if tool == "Bash":
        return _commands(request)
    if tool in READS | WRITES:
        return _files(request)
    if tool == "WebFetch":
        url = request.input.get("url")
        host = host_of(url) if isinstance(url, str) else HOLE
        return _rule(tools=frozenset({tool}), hosts=(host,)) if host != HOLE else None
    if tool == "MCP":
        server = server_of(request)
        return _rule(tools=frozenset({tool}), servers=(escaped(server),)) if server else None
    return _rule(tools=frozenset({tool}))


def _files(request: PermissionRequested) -> Rule | None:
    patterns = [_pattern(path) for path in dict.fromkeys(named(request))]
    known = tuple(one for one in patterns if one is not None)
    if not known or len(known) < len(patterns):
        return None
    return _rule(tools=frozenset({class_of(request.tool) or request.tool}), paths=known)


def _commands(request: PermissionRequested) -> Rule | None:
    """The simple commands in their directories; the whole line if they do not describe it fully."""
    line, script = located(request)
    if not line.strip() or hidden_characters(line):
        return None
    unclear = bool(script.unread) or any(one.doubts or is_open(one.text) for one in script.commands)
    whole = _rule(tools=frozenset({"shell"}), line=line)
    if unclear or script.redirections or not script.commands or _is_fed(line):
        return whole
    working = [one for one in script.commands if one.effect != "none"] or script.commands
    directories = {posixpath.normpath(one or ".") if one is not None else None
                   for command in working for one in command.directories}  # fmt: skip
    texts = dict.fromkeys(escaped(one.text) for one in working if not one.inner)
    match list(directories):
        case ["."]:
            where = ""
        case [str(where)] if not where.startswith(("/", "~", "..")):
            pass
        case _:
            return whole
    return _rule(tools=frozenset({"shell"}), commands=tuple(texts), directory=where)


def _is_fed(line: str) -> bool:
    """Whether a command reads input from the line, which its arguments do not show."""
    return "<<" in line or "|" in line.replace("||", "")


def _pattern(path: str) -> str | None:
    """The pattern for this path only; None if there is none.

    A bare name would match any file of that name, a trailing `/` everything below.
    """
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://"))
    plain = escaped(posixpath.normpath(path))
    if plain.startswith("/"):
        return plain if plain.strip("/") else None
    if plain.startswith("~"):
        return plain if plain == "~" or plain.startswith("~/") else None
    return f"./{plain}"
