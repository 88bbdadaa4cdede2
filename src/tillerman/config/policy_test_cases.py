"""Parses test cases for `tillerman policy test`: tool calls with their expected decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from tillerman.config.policy_rules import VERDICTS, near, read_rules
from tillerman.config.settings import APPROVE
from tillerman.core.agent import Mode
from tillerman.core.errors import ConfigError
from tillerman.core.permission import Rule

_GROUP = ("title", "approve", "mode", "agent", "rules", "cases")
_CASE = ("tool", "input", "command", "expect", "rule")


class PolicyTestCase(Struct, frozen=True):
    tool: str
    input: dict[str, Any]
    expect: str
    rule: str | None  # expected deciding rule, or None for any
    number: int  # position in the file, from 1


class Group(Struct, frozen=True):
    """Test cases that share one policy. None means the value from the config."""

    title: str
    cases: tuple[PolicyTestCase, ...]
    approve: str | None = None
    mode: Mode = "agent"
    agent: str = ""
    rules: tuple[Rule, ...] | None = None


def read_cases(path: Path) -> list[Group]:
    """Reads the cases of a file: one implicit group, or several `[[groups]]`."""
    import tomllib

    try:
        text = path.read_text()
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            hint="check that it exists, and its permissions",
        ) from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}", hint="fix the file") from None
    groups = tables.get("groups", [tables])
    if not isinstance(groups, list) or not all(isinstance(one, dict) for one in groups):
        raise ConfigError(f"{path}: groups must be tables", hint="start each with [[groups]]")
    found: list[Group] = []
    count = 0
    for table in groups:
        made = _group(table, str(path), count)
        count += len(made.cases)
        found.append(made)
    if not count:
        raise ConfigError(f"{path} has no cases", hint="start each with [[cases]]")
    return found


def _group(table: Mapping[str, Any], path: str, before: int) -> Group:
    title = table.get("title", "")
    where = f"{path}: group {title!r}" if title else path
    _refuse_unknown(table, _GROUP, where)
    approve, mode = table.get("approve"), table.get("mode", "agent")
    if approve is not None and approve not in APPROVE:
        hint = near(str(approve), APPROVE)
        raise ConfigError(f"{where}: unknown preset: {approve!r}", hint=hint)
    if mode not in get_args(Mode):
        hint = near(str(mode), get_args(Mode))
        raise ConfigError(f"{where}: unknown mode {mode!r}", hint=hint)
    cases = table.get("cases", [])
    if not isinstance(cases, list) or not all(isinstance(one, dict) for one in cases):
        raise ConfigError(f"{where}: cases must be tables", hint="start each with [[cases]]")
    return Group(
        title=str(title),
        cases=tuple(_case(one, path, number) for number, one in enumerate(cases, before + 1)),
        approve=approve,
        mode=mode,
        agent=str(table.get("agent", "")),
        rules=read_rules(table["rules"], "", where, "case") if "rules" in table else None,
    )


def _case(table: Mapping[str, Any], path: str, number: int) -> PolicyTestCase:
    where = f"{path}: case {number}"
    _refuse_unknown(table, _CASE, where)
    expect = table.get("expect")
    if expect not in VERDICTS:
        raise ConfigError(
            f"{where}: expect must be one of {', '.join(VERDICTS)}, not {expect!r}",
            hint=near(str(expect), VERDICTS),
        )
    input = table.get("input", {})
    if not isinstance(input, dict):
        raise ConfigError(
            f"{where}: input must be a table, not {input!r}", hint='input = { file_path = "a.txt" }'
        )
    if "command" in table:
        if not isinstance(table["command"], str):
            raise ConfigError(
                f"{where}: command must be a string, not {table['command']!r}",
                hint="put it in quotes",
            )
        input = {**input, "command": table["command"]}
    elif "tool" not in table:
        raise ConfigError(f"{where} names neither tool nor command", hint="add one of them")
    for key in ("tool", "rule"):
        if not isinstance(table.get(key, ""), str):
            raise ConfigError(
                f"{where}: {key} must be a string, not {table[key]!r}", hint="put it in quotes"
            )
    return PolicyTestCase(table.get("tool", "Bash"), input, expect, table.get("rule"), number)


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{where} has an unknown key {key!r}", hint=near(key, known))
