"""Every tool as a client calls it: arguments, results, and errors."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client, StdioServerParameters

from tests.mcp.mcp_desk import ERRANDS, MAX_WAIT, PROCESS, Machine, Wire, text
from tillerman.workspace.tools.tool_schemas import CALLS, schema_of

pytestmark = pytest.mark.timeout(120)

MODES = ("legacy", "auto")  # the handshake of old, and the protocol of 2026


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_works_from_the_sdks_own_client(machine: Machine, mode: Any) -> None:
    assert {tool for tool, _, _ in ERRANDS} == set(CALLS)
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tillerman", "mcp", "serve", "--approve", "auto"],
        env=machine.environment,
        cwd=machine.project,
    )
    async with Client(server, mode=mode) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == list(CALLS)
        assert client.server_info and client.server_info.name == "tillerman"
        assert client.instructions
        process = ""
        for tool, arguments, expected in ERRANDS:
            given = {k: process if v == "*" else v for k, v in arguments.items()}
            async with asyncio.timeout(MAX_WAIT):
                while True:  # a process takes its time to say what it has to
                    result = await client.call_tool(tool, given)
                    message = "".join(part.text for part in result.content if part.type == "text")
                    if expected in message or tool not in ("poll_process", "read_process_output"):
                        break
            assert expected in message, tool
            assert not result.is_error, message
            assert result.meta and "tillerman/result" in result.meta
            process = PROCESS.findall(message)[0] if tool == "execute_shell" else process
    assert (machine.project / "notes/a.txt").read_text() == "one\nzwei\n"


def test_the_schemas_are_complete_and_describe_each_argument(wire: Wire) -> None:
    tools = wire.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == list(CALLS)
    for tool in tools:
        schema = tool["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert "$ref" not in str(schema) and "$defs" not in str(schema)
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert tool["description"] and tool["annotations"]["title"] == tool["title"]
    for tool, arguments, _ in ERRANDS:
        schema = next(one["inputSchema"] for one in tools if one["name"] == tool)
        jsonschema.validate(arguments, schema)


# -- what is refused -------------------------------------------------------------------------------

GOOD: dict[str, dict[str, Any]] = {
    tool: {key: "p0123456789" if value == "*" else value for key, value in arguments.items()}
    for tool, arguments, _ in ERRANDS
} | {"execute_shell": {"command": "touch ran"}}

_OTHER = {"string": 7, "integer": "7", "number": "7", "boolean": "true", "array": {}, "object": []}


def wrong() -> list[tuple[str, dict[str, Any]]]:
    """For each tool: an argument of another type, an extra one, a missing required one."""
    found = []
    for tool, call in CALLS.items():
        schema = schema_of(call)
        good = GOOD[tool]
        found += [(tool, {**good, "nonsense": 1}), (tool, {**good, "": None, "\0": 1})]
        for name in schema.get("required", ()):
            found.append((tool, {k: v for k, v in good.items() if k != name}))
            found.append((tool, {**good, name: None}))
        for name, kind in schema["properties"].items():
            found.append((tool, {**good, name: _OTHER[kind["type"]]}))
            found.append((tool, {**good, name: [[[]]]}))
            if "enum" in kind:
                found.append((tool, {**good, name: "none of them"}))
            if kind["type"] in ("integer", "number"):
                found.append((tool, {**good, name: -(10**30)}))
    return found


_STRANGE = {
    str: ("", "\0", "a\0b", "x" * 300_000, "\n", "\x1b[2J", "../" * 5000, "\uffff𝒳"),
    list: ([], ["\0"], ["x" * 300_000], ["a"] * 1000),
    int: (10**400, 2**31, 2**63, 2**64),
    dict: ({},),
    bool: (False,),
}


def odd() -> list[tuple[str, dict[str, Any]]]:
    """Arguments of the right type with unusual values."""
    found = [
        (tool, {**good, name: strange})
        for tool, good in GOOD.items()
        for name, value in good.items()
        for strange in _STRANGE[type(value)]
    ]
    found += [
        ("execute_shell", {"command": "true", "env": {"A=B": "c"}}),
        ("execute_shell", {"command": "true", "env": {"A": "\0"}}),
        ("execute_shell", {"command": "true", "env": {"": "x"}}),
        ("execute_shell", {"command": "true", "env": {"A": "x" * 300_000}}),
        ("execute_shell", {"command": "true", "cwd": "/"}),
        ("execute_shell", {"command": "true", "cwd": "nowhere"}),
        ("execute_shell", {"command": "cat", "stdin": "x" * 2_000_000}),
        ("read_file", {"path": "seen.txt", "offset": 10**400}),
        ("read_process_output", {"process_id": "p0123456789", "offset": 10**400}),
        ("search_files", {"pattern": "(", "kind": "regex"}),
        ("search_files", {"pattern": "[", "kind": "name"}),
        ("replace_lines_in_file", GOOD["replace_lines_in_file"] | {"start": 10**400}),
        ("replace_lines_in_file", GOOD["replace_lines_in_file"] | {"end": 10**400}),
    ]
    return found


def test_bad_arguments_are_refused_with_a_message(house: Machine, wire: Wire) -> None:
    cases = wrong()
    requests = [wire.begin(tool, **arguments) for tool, arguments in cases]
    for (tool, arguments), request in zip(cases, requests, strict=True):
        result = wire.called(request)
        assert result["isError"], (tool, arguments)
        assert text(result).startswith(f"{tool}: ") and "arguments: " in text(result), (
            tool,
            result,
        )
    assert not (house.project / "ran").exists()


def test_a_number_above_a_maximum_is_reduced_to_it(wire: Wire) -> None:
    answers: dict[tuple[str, str], str] = {}
    for tool in wire.ask("tools/list")["result"]["tools"]:
        for name, field in tool["inputSchema"]["properties"].items():
            most = re.search(r"at most (\d+)$", field.get("description", ""))
            assert "maximum" not in field
            if most or field.get("type") == "number":
                assert most, (tool["name"], name)
                arguments = {**GOOD.get(tool["name"], {}), name: 1_000 * int(most[1])}
                answers[tool["name"], name] = text(wire.call(tool["name"], **arguments))
    assert {("execute_shell", "timeout"), ("read_file", "limit")} < set(answers)
    assert len(answers) > 8
    assert not {
        key: reported for key, reported in answers.items() if reported.startswith(f"{key[0]}: ")
    }


def test_a_variable_with_a_nul_is_refused_before_anybody_is_asked(wire: Wire) -> None:
    result = wire.call("execute_shell", command="true", env={"A": "a\0b"})
    assert text(result).startswith("env: A contains a NUL character")


def test_odd_arguments_are_answered_and_nothing_breaks(house: Machine, wire: Wire) -> None:
    (house.project / "seen.txt").write_text("one\n")
    for tool, arguments in odd():
        result = wire.call(tool, **arguments)
        message = text(result)
        assert message and "Traceback" not in message, (tool, message)
        assert not result["isError"] or len(message) < 30_000, (tool, message[:1000])
    assert "Traceback" not in wire.errors
    assert [path.name for path in house.folder.iterdir() if path.name not in _THERE] == []


_THERE = ("home", "project", "tillerman")


@pytest.mark.parametrize(
    "name", ["nope", "", "\0", "Execute_Shell", "x" * 100_000, "tillerman.read_file"]
)
def test_an_unknown_tool_is_answered_with_the_known_ones(wire: Wire, name: str) -> None:
    result = wire.call(name)
    assert result["isError"]
    assert all(tool in text(result) for tool in CALLS)


def test_null_takes_the_default(wire: Wire) -> None:
    result = wire.call("list_directory", path=None, depth=None, ignored=None, limit=None)
    assert not result["isError"]


def test_a_call_may_leave_out_its_arguments(wire: Wire) -> None:
    answer = wire.ask("tools/call", {"name": "list_processes"})
    assert not answer["result"]["isError"]


def test_names_that_are_not_text_can_be_listed(house: Machine, wire: Wire) -> None:
    folder = house.project / "odd"
    folder.mkdir()
    Path(folder, os.fsdecode(b"\xff\xfe.txt")).write_bytes(b"needle \xff\xfe\n")
    Path(folder, "link").symlink_to(os.fsdecode(b"\xfd"))
    for tool, arguments in {
        "list_directory": {"path": "odd"},
        "search_files": {"path": "odd", "pattern": "needle"},
        "execute_shell": {"command": "ls odd; cat odd/*.txt"},
        "export_zip": {"paths": ["odd"]},
    }.items():
        assert not wire.call(tool, **arguments)["isError"], tool
    found = wire.ask("resources/read", {"uri": "tillerman://workspace"})
    assert "odd/" in found["result"]["contents"][0]["text"]
