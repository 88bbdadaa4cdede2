"""Lines that an earlier reader allowed by mistake, each cause with its variants."""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tillerman.core.permission.shell.parsed_script import (
    ANY,
    HOLE,
    ONE,
    FileAccess,
    ParsedCommand,
    ParsedScript,
)
from tillerman.core.permission.shell.reader import read

GROUPS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("misses.toml").read_text(encoding="utf-8")
)["lines"]
LINKS = {"/ws/out": "/outside"}  # of the workspace that the lines were run in


def cases(key: str) -> list[Any]:
    found = []
    for group in GROUPS:
        if key not in group:
            continue
        made = [text * int(count) + end for text, count, end in group.get("generated", ())]
        for at, line in enumerate([*group.get("lines", ()), *made]):
            found.append(pytest.param(line, group[key], id=f"{group['cause']} {at}"))
    return found


def doubted(script: ParsedScript) -> bool:
    return bool(script.unread) or any(command.doubts for command in script.commands)


def names(command: ParsedCommand, program: str) -> bool:
    texts = [command.text, *command.others]
    plain = [re.sub(r"^(\S*/)", "", text) for text in texts]
    return any(text == program or text.startswith(f"{program} ") for text in [*texts, *plain])


def wholes(access: FileAccess) -> list[str]:
    """Where an access may lead, with links followed; HOLE if that is not known."""
    found = []
    for base in access.directories:
        if base is None or HOLE in access.path:
            found.append(HOLE)
            continue
        path = posixpath.join("/ws", base, access.path)
        for link, target in LINKS.items():
            path = re.sub(rf"^{link}(?=/|$)", target, path)
        found.append(posixpath.normpath(path))
    return found


def covers(access: FileAccess, path: str) -> bool:
    target = posixpath.normpath(posixpath.join("/ws", path))
    for whole in wholes(access):
        if whole == HOLE:
            return True
        pattern = re.escape(whole).replace(ANY, "[^/]*").replace(ONE, "[^/]")
        below = "(/.*)?" if access.recursive else ""
        if re.fullmatch(pattern + below, target):
            return True
    return False


def accesses(script: ParsedScript) -> list[FileAccess]:
    return [*script.redirections, *(one for each in script.commands for one in each.accesses)]


@pytest.mark.parametrize(("line", "program"), cases("runs"))
def test_a_program_that_runs_is_named_or_marked_uncertain(line: str, program: str) -> None:
    script = read(line)
    assert doubted(script) or any(names(command, program) for command in script.commands)


@pytest.mark.parametrize(("line", "unread"), cases("unread"))
def test_a_line_that_may_do_anything_counts_as_not_read(line: str, unread: bool) -> None:
    assert bool(read(line).unread) == unread


@pytest.mark.parametrize(("line", "path"), cases("writes"))
def test_a_file_that_is_written_is_covered_or_the_line_is_not_read(line: str, path: str) -> None:
    script = read(line)
    found = [one for one in accesses(script) if one.kind != "read"]
    assert script.unread or any(covers(one, path) for one in found)


@pytest.mark.parametrize(("line", "path"), cases("removes"))
def test_a_file_that_is_deleted_is_covered_by_a_removal(line: str, path: str) -> None:
    found = [one for one in accesses(read(line)) if one.kind == "remove"]
    assert any(covers(one, path) for one in found)


@pytest.mark.parametrize(("line", "path"), cases("reads"))
def test_a_file_that_is_read_is_covered(line: str, path: str) -> None:
    script = read(line)
    assert script.unread or any(covers(one, path) for one in accesses(script))


@pytest.mark.parametrize(("line", "command"), cases("elsewhere"))
def test_a_command_that_is_another_than_it_looks_is_not_taken_for_itself(
    line: str, command: str
) -> None:
    script = read(line)
    harmless = [
        not one.doubts
        and (one.text == command or (one.effect == "none" and all(map(_is_inside, one.accesses))))
        for one in script.commands
    ]
    assert script.unread or not all(harmless)


def _is_inside(access: FileAccess) -> bool:
    return all(whole == "/ws" or whole.startswith("/ws/") for whole in wholes(access))


@pytest.mark.parametrize("script", ["exit", "exit 4", "echo heard; exit 4", "rm -f a.txt; exit"])
@pytest.mark.parametrize("signal", ["USR1", "TERM INT", "EXIT", "0"])
def test_a_trap_that_only_ends_the_shell_leaves_the_line_read(script: str, signal: str) -> None:
    assert read(f"trap '{script}' {signal}; ls").unread == ()


@pytest.mark.parametrize("script", ["cd src", "break", "x=1", "return", "rm() { ls; }", "set -- x"])
def test_a_trap_that_changes_the_shell_does_not(script: str) -> None:
    assert read(f"trap '{script}' USR1; ls").unread != ()


@pytest.mark.parametrize(
    "line",
    ["f() { npm x; }", "f() { npm x; }; f", "echo $( f() { npm x; } )", "echo $(npm x)", "`npm x`"],
)
def test_commands_of_a_function_or_a_substitution_have_no_certain_position(line: str) -> None:
    assert [one.span for one in read(line).commands if one.words == ("npm", "x")] == [None]
