"""Third-party MCP clients with the workspace server: the official Inspector, and the protocol's own
test suite."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.mcp_desk import ERRANDS, PROCESS, Machine, text
from tests.real.clis import Cli, CliError, pinned
from tests.real.token_bearer import bearing
from tillerman.workspace.tools.tool_schemas import CALLS

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

Inspect = Callable[..., Any]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("house"))
    yield machine
    machine.close()


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    yield machine
    machine.close()


def run(
    cli: Cli, words: Sequence[str], folder: Path, *, codes: Sequence[int] = (0,)
) -> subprocess.CompletedProcess[str]:
    try:
        program = cli.path()
    except CliError as missing:
        pytest.fail(str(missing), pytrace=False)
    done = subprocess.run(
        [str(program), *words],
        cwd=folder,
        env={"PATH": cli.search_path(), "HOME": str(folder / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done


@dataclass(frozen=True)
class Door:
    port: int
    token: str


@pytest.fixture(scope="module")
def door(house: Machine) -> Iterator[Door]:
    """An HTTP server, with a token for the Inspector: each of its calls is a new session."""
    process = subprocess.Popen(
        house.command("mcp", "serve", "--http", "0", "--approve", "auto", "--client", "inspector"),
        cwd=house.project,
        env=house.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    with process:
        reported = re.search(r":(\d+)/mcp, token in", process.stderr.readline())
        named = re.fullmatch(r".*inspector.* (/.+)\n", process.stderr.readline())
        assert reported and named
        yield Door(int(reported[1]), Path(named[1]).read_text().strip())
        process.terminate()
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()


# -- the Inspector ---------------------------------------------------------------------------------


def inspect(
    machine: Machine, target: Sequence[str], *words: str, codes: Sequence[int] = (0,)
) -> Any:
    [cli] = pinned("mcp-inspector")
    return json.loads(run(cli, ["--cli", *target, *words], machine.folder, codes=codes).stdout)


def by_stdio(machine: Machine) -> list[str]:
    """It starts the server again for each request."""
    variables = [
        w for name, value in machine.environment.items() for w in ("-e", f"{name}={value}")
    ]
    server = machine.command("mcp", "serve", "-C", str(machine.project), "--approve", "auto")
    return [*variables, *server]


def by_http(door: Door) -> list[str]:
    return [f"http://127.0.0.1:{door.port}/mcp", "--header", f"Authorization: Bearer {door.token}"]


def every_tool(machine: Machine, target: Sequence[str]) -> None:
    listed = inspect(machine, target, "--method", "tools/list", "--strict")
    assert [tool["name"] for tool in listed["tools"]] == list(CALLS)
    process = ""
    for tool, arguments, expected in ERRANDS:
        words = ["--method", "tools/call", "--tool-name", tool, "--tool-arg"]
        for name, value in arguments.items():
            given = process if value == "*" else value
            words.append(f"{name}={given if isinstance(given, str) else json.dumps(given)}")
        result = inspect(machine, target, *(words if arguments else words[:-1]))
        assert not result["isError"] and expected in text(result), tool
        process = PROCESS.findall(text(result))[0] if tool == "execute_shell" else process
    assert (machine.project / "notes/a.txt").read_text() == "one\nzwei\n"


def resources(machine: Machine, target: Sequence[str]) -> None:
    listed = inspect(machine, target, "--method", "resources/list")["resources"]
    assert listed[0]["uri"] == "tillerman://workspace"
    [template] = inspect(machine, target, "--method", "resources/templates/list")[
        "resourceTemplates"
    ]
    assert template["uriTemplate"] == "tillerman://processes/{process_id}/{stream}"
    for one in listed:
        [content] = inspect(machine, target, "--method", "resources/read", "--uri", one["uri"])[
            "contents"
        ]
        assert content["mimeType"] == "text/plain"
    assert (
        str(machine.project)
        in inspect(machine, target, "--method", "resources/read", "--uri", "tillerman://workspace")[
            "contents"
        ][0]["text"]
    )


def test_the_inspector_calls_every_tool_over_stdio(machine: Machine) -> None:
    """Each server process after the first finds the background process again."""
    every_tool(machine, by_stdio(machine))
    resources(machine, by_stdio(machine))


def test_the_inspector_calls_every_tool_over_http(house: Machine, door: Door) -> None:
    every_tool(house, by_http(door))
    resources(house, by_http(door))


def test_the_inspector_shows_a_refusal(house: Machine, door: Door) -> None:
    words = ["--method", "tools/call", "--tool-name", "read_file", "--tool-arg", "path=../../etc"]
    result = inspect(house, by_http(door), *words, codes=[5])
    assert result["isError"] and text(result)
    [cli] = pinned("mcp-inspector")
    wrong = [f"http://127.0.0.1:{door.port}/mcp", "--header", "Authorization: Bearer wrong"]
    done = run(cli, ["--cli", *wrong, "--method", "tools/list"], house.folder, codes=range(1, 256))
    assert "execute_shell" not in done.stdout


# -- the suite of the protocol ---------------------------------------------------------------------

# Scenarios that ask for what any server has to do, and the checks that each must pass.
APPLIES = {
    "server-initialize": {"server-initialize": "SUCCESS"},
    "ping": {"ping": "SUCCESS"},
    "tools-list": {"tools-list": "SUCCESS"},
    "resources-list": {"resources-list": "SUCCESS"},
    "server-sse-multiple-streams": {
        "server-accepts-multiple-post-streams": "SUCCESS",
        "server-sse-streams-functional": "SUCCESS",
    },
    "dns-rebinding-protection": {
        "localhost-host-rebinding-rejected": "SUCCESS",
        # Its good request carries an Origin, as a web page's does: here those are all refused.
        "localhost-host-valid-accepted": "FAILURE",
    },
}

_ITS_TOOL = "calls a tool that only the suite's example server has"
_ITS_RESOURCE = "reads a resource that only the suite's example server has"
_NO_PROMPTS = "there are no prompts here, and the server does not say that there are"
_NO_SUBSCRIPTIONS = "resources cannot be subscribed to, and the server does not say that they can"
_NO_LOGGING = "the server says nothing of logging: what happens is in the session's log"

# The others, and why: most drive tools, resources and prompts of the suite's own example server.
LEFT_OUT = {
    "logging-set-level": _NO_LOGGING,
    "completion-complete": "nothing is completed here, and the server does not say that it is",
    "tools-call-simple-text": _ITS_TOOL,  # passes, since the refusal is a text too
    "tools-call-image": _ITS_TOOL,
    "tools-call-audio": _ITS_TOOL,
    "tools-call-embedded-resource": _ITS_TOOL,
    "tools-call-mixed-content": _ITS_TOOL,
    "tools-call-with-logging": _NO_LOGGING,
    "tools-call-error": _ITS_TOOL,  # passes, since an unknown tool is an error too
    "tools-call-with-progress": _ITS_TOOL,
    "tools-call-sampling": "the server never asks the client's model for anything",
    "tools-call-elicitation": "the server asks people by tillerman, not through the client",
    "json-schema-2020-12": _ITS_TOOL,
    "elicitation-sep1034-defaults": "the server asks people by tillerman, not through the client",
    "elicitation-sep1330-enums": "the server asks people by tillerman, not through the client",
    "server-sse-polling": _ITS_TOOL,
    "resources-read-text": _ITS_RESOURCE,
    "resources-read-binary": _ITS_RESOURCE,
    "resources-templates-read": _ITS_RESOURCE,
    "resources-subscribe": _NO_SUBSCRIPTIONS,
    "resources-unsubscribe": _NO_SUBSCRIPTIONS,
    "prompts-list": _NO_PROMPTS,
    "prompts-get-simple": _NO_PROMPTS,
    "prompts-get-with-args": _NO_PROMPTS,
    "prompts-get-embedded-resource": _NO_PROMPTS,
    "prompts-get-with-image": _NO_PROMPTS,
}


def test_every_scenario_of_the_suite_is_accounted_for(house: Machine) -> None:
    [cli] = pinned("mcp-conformance")
    listed = run(cli, ["list", "--server"], house.folder).stdout
    assert set(re.findall(r"^  - (\S+)", listed, re.MULTILINE)) == {*APPLIES, *LEFT_OUT}


def test_the_scenarios_that_apply_pass(house: Machine, door: Door, tmp_path: Path) -> None:
    """The suite has no option for a token: a proxy adds it."""
    [cli] = pinned("mcp-conformance")
    with bearing(door.port, door.token) as port:
        for scenario, expected in APPLIES.items():
            place = tmp_path / scenario
            words = ["--url", f"http://127.0.0.1:{port}/mcp", "--scenario", scenario]
            run(cli, ["server", *words, "-o", str(place)], house.folder, codes=(0, 1))
            [file] = place.rglob("checks.json")
            checks = json.loads(file.read_text())
            fields = {one["id"]: one["status"] for one in checks if one["status"] != "INFO"}
            assert fields == expected, checks


def test_without_the_token_the_suite_is_refused(house: Machine, door: Door, tmp_path: Path) -> None:
    [cli] = pinned("mcp-conformance")
    words = ["--url", f"http://127.0.0.1:{door.port}/mcp", "--scenario", "tools-list"]
    run(cli, ["server", *words, "-o", str(tmp_path)], house.folder, codes=(1,))
    [file] = tmp_path.rglob("checks.json")
    assert [one["status"] for one in json.loads(file.read_text())] == ["FAILURE"]
