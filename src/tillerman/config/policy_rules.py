"""Parses policy rules from TOML tables with validation errors, and serializes them back."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from tillerman.core.agent import Mode
from tillerman.core.errors import ConfigError
from tillerman.core.permission import Rule
from tillerman.core.tools import TOOLS, ToolClass

VERDICTS = ("allow", "deny", "ask", "rewrite")
_CLASSES = get_args(ToolClass)
_MODES = get_args(Mode)
_MATCHERS = ("agent", "tool", "command", "directory", "line", "path", "host", "mcp", "mode")
KEYS = ("name", *VERDICTS, *_MATCHERS)
_HINT = "see docs/policy.md for the format of rules"
_DENIED, _ASKED = "denied by a user rule", "a user rule requires approval"
# Matchers that never apply to the same action.
_APART = (
    ("command", "host"), ("command", "mcp"), ("path", "host"), ("host", "mcp"),
    ("line", "command"), ("line", "path"), ("line", "host"), ("line", "mcp"),
)  # fmt: skip


def read_rules(tables: Any, text: str, path: str, layer: str) -> tuple[Rule, ...]:
    """Parses the `[[rules]]` of a file. `text` is the whole file, used for line numbers."""
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ConfigError(f"{path}: rules must be tables", hint="start each with [[rules]]")
    lines = _lines(text)
    rules = []
    for number, table in enumerate(tables, 1):
        line = lines[number - 1] if len(lines) == len(tables) else None
        source = f"{path}:{line}" if line else f"{path}, rule {number}"
        where = f"{path}:{line}: rule {number}" if line else f"{path}: rule {number}"
        rules.append(rule_of(table, source, where=where, name=f"{layer}.{number}"))
    return tuple(rules)


def rule_of(table: Mapping[str, Any], source: str, *, where: str = "", name: str = "rule") -> Rule:
    """Parses one rule. `where` prefixes errors; `name` is the default for an unnamed rule."""
    where = where or source
    for key in table:
        if key not in KEYS:
            raise ConfigError(f"{where} has an unknown key {key!r}", hint=near(key, KEYS))
    verdict, note, rewrite = _verdict(table, where)
    name = _text(table, "name", where) if "name" in table else name
    named = {key: _texts(table, key, where) for key in _MATCHERS if key in table}
    for first, second in _APART:
        if first in named and second in named:
            raise ConfigError(
                f"{where} combines {first} and {second}, which never match the same action",
                hint="write two rules",
            )
    if verdict == "allow" and "command" in named and "path" in named:
        raise ConfigError(
            f"{where} allows a command by its paths, but the paths that a command uses"
            " are not all known",
            hint="allow by command alone, and deny by path in a rule before it",
        )
    if "directory" in named and "command" not in named:
        raise ConfigError(f"{where} has a directory, but no command", hint="add command = …")
    if isinstance(rewrite, str) and "command" not in named:
        raise ConfigError(f"{where} has a rewrite, but no command", hint="add command = …")
    return Rule(
        name=name,
        verdict=verdict,
        note=note,
        agents=named.get("agent", ()),
        tools=_tools(named["tool"], where) if "tool" in named else None,
        commands=named.get("command", ()),
        directory=_directory(named["directory"], where) if "directory" in named else None,
        line=named["line"][0] if "line" in named else None,
        paths=named.get("path", ()),
        hosts=_hosts(named.get("host", ()), where),
        servers=named.get("mcp", ()),
        modes=_modes(named["mode"], where) if "mode" in named else None,
        rewrite=rewrite,
        source=source,
    )


def rule_table(rule: Rule) -> dict[str, Any]:
    """Serializes a rule to the table that `rule_of` parses."""
    verdict: Any = True if rule.verdict == "allow" else rule.note or True
    if rule.verdict == "rewrite":
        verdict = rule.rewrite
    matchers: dict[str, Sequence[str] | frozenset[str] | None] = {
        "agent": rule.agents,
        "tool": rule.tools,
        "command": rule.commands,
        "directory": () if rule.directory is None else (rule.directory or ".",),
        "line": (rule.line,) if rule.line is not None else (),
        "path": rule.paths,
        "host": rule.hosts,
        "mcp": rule.servers,
        "mode": rule.modes,
    }
    table: dict[str, Any] = {"name": rule.name, rule.verdict: verdict}
    for key, found in matchers.items():
        if found:
            words = list(found) if isinstance(found, tuple) else sorted(found)
            table[key] = words[0] if len(words) == 1 else words
    return table


def near(word: str, known: Sequence[str]) -> str:
    """Hint for an unknown word: the closest match, or the list of known words."""
    from difflib import get_close_matches

    by_case = [one for one in known if one.casefold() == word.casefold()]
    near = by_case or get_close_matches(word, known, n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


# -- keys ------------------------------------------------------------------------------------------


def _verdict(
    table: Mapping[str, Any], where: str
) -> tuple[Literal["allow", "deny", "ask", "rewrite"], str, str | dict[str, Any] | None]:
    verdicts = [key for key in VERDICTS if key in table]
    if len(verdicts) != 1:
        what = "has " + " and ".join(verdicts) if verdicts else "has no verdict"
        raise ConfigError(
            f"{where} {what}", hint="one of allow = true, deny = …, ask = true, rewrite = …"
        )
    value = table[verdicts[0]]
    match verdicts[0]:
        case "allow" if value is True:
            return "allow", "", None
        case "deny" if value is True or (isinstance(value, str) and value.strip()):
            return "deny", value if isinstance(value, str) else _DENIED, None
        case "ask" if value is True or (isinstance(value, str) and value.strip()):
            return "ask", value if isinstance(value, str) else _ASKED, None
        case "rewrite" if (isinstance(value, str) and value.strip()) or (
            isinstance(value, dict) and value
        ):
            return "rewrite", "", value
    wanted = {
        "allow": "true",
        "deny": "a message for the agent",
        "ask": "true, or a reason",
        "rewrite": "a command, or a table of input keys",
    }[verdicts[0]]
    raise ConfigError(f"{where}: {verdicts[0]} must be {wanted}, not {value!r}", hint=_HINT)


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {key} must be a string, not {value!r}", hint=_HINT)
    return value


def _texts(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table[key]
    values = value if isinstance(value, list) and key != "line" else [value]
    if not values or not all(isinstance(one, str) and one.strip() for one in values):
        wanted = "a string" if key == "line" else "a string, or a list of strings"
        raise ConfigError(f"{where}: {key} must be {wanted}, not {value!r}", hint=_HINT)
    return tuple(values)


def _tools(words: Sequence[str], where: str) -> frozenset[str]:
    known = (*_CLASSES, *TOOLS)
    found = frozenset(part.strip() for word in words for part in word.split("|"))
    for word in sorted(found - set(known)):
        hint = near(word, known)
        if hint.startswith("did") or not word:  # else it may be a vendor-specific tool
            raise ConfigError(f"{where}: unknown tool {word!r}", hint=hint)
    return found


def _directory(words: Sequence[str], where: str) -> str:
    """Normalizes the path relative to the workspace; the workspace itself is ""."""
    if len(words) != 1 or words[0].startswith("~"):
        raise ConfigError(f"{where}: directory must be one path", hint=_HINT)
    path = posixpath.normpath(words[0])
    return "" if path == "." else path


def _modes(words: Sequence[str], where: str) -> frozenset[Mode]:
    for word in words:
        if word not in _MODES:
            raise ConfigError(f"{where}: unknown mode {word!r}", hint=near(word, _MODES))
    return frozenset(words)  # type: ignore[arg-type]


def _hosts(words: Sequence[str], where: str) -> tuple[str, ...]:
    for word in words:
        if not re.fullmatch(r"(\*\.)?[^\s/:*@]+", word):
            raise ConfigError(
                f"{where}: {word!r} is not a host", hint="for example example.com or *.example.com"
            )
    return tuple(words)


def _lines(text: str) -> list[int]:
    """Line numbers of the `[[rules]]` headers."""
    begins = re.compile(r"\s*\[\[\s*[\"']?rules[\"']?\s*\]\]")
    return [number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)]
