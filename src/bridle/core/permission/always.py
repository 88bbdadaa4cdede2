"""The narrow rule that an answer of "always" adds: this again, and nothing beside it."""

from __future__ import annotations

from functools import partial
from typing import Literal

from msgspec.structs import replace

from bridle.core.events import PermissionRequested
from bridle.core.permission.acts import host_of, script_of, server_of
from bridle.core.permission.globs import escaped
from bridle.core.permission.rules import Rule
from bridle.core.permission.shell.script import HOLE, is_open
from bridle.core.tools import READS, WRITES, class_of, paths_of

ALWAYS, NEVER = "always", "never"
_rule = partial(Rule, ALWAYS, "allow", source="remembered")


def rule_for(request: PermissionRequested, verdict: Literal["allow", "deny"] = "allow") -> Rule:
    """`Rule.told` says it to the person before it counts."""
    rule = _rule_for(request)
    if verdict == "allow":
        return rule
    return replace(rule, name=NEVER, verdict="deny", note="a person said never to this")


def _rule_for(request: PermissionRequested) -> Rule:
    tool = request.tool
    kind = class_of(tool)
    if tool == "Bash":
        return _commands(request)
    paths = tuple(dict.fromkeys((*request.paths, *paths_of(request.input))))
    if tool in READS | WRITES and paths:
        return _rule(tools=frozenset({kind or tool}), paths=tuple(map(_pattern, paths)))
    url = request.input.get("url")
    if kind == "network" and isinstance(url, str) and (host := host_of(url)) != HOLE:
        return _rule(tools=frozenset({tool}), hosts=(host,))
    if tool == "MCP":
        return _rule(tools=frozenset({"MCP"}), servers=(escaped(server_of(request) or ""),))
    return _rule(tools=frozenset({tool}))


def _commands(request: PermissionRequested) -> Rule:
    """The simple commands; the whole line where they do not tell all of it."""
    line, script = script_of(request)
    unclear = any(one.doubts or is_open(one.text) for one in script.commands)
    if unclear or script.redirections or not script.commands:
        return _rule(tools=frozenset({"shell"}), line=line)
    working = [one for one in script.commands if not one.idle] or script.commands
    texts = dict.fromkeys(escaped(one.text) for one in working if not one.inner)
    return _rule(tools=frozenset({"shell"}), commands=tuple(texts))


def _pattern(path: str) -> str:
    """A bare name would stand for any file of that name."""
    plain = escaped(path.removeprefix("file://"))
    return plain if plain.startswith(("/", "~")) else f"./{plain.removeprefix('./')}"
