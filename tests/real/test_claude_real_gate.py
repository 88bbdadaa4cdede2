"""What the real Claude Code requests, wherever a call comes from and whatever its files contain."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from pathlib import Path

import pytest

from tests.real.claude_desk import ClaudeDesk
from tests.real.desk import of, run
from tests.real.real_claude import RealClaude
from tillerman.agents.claude.requests import HOOK_TIMEOUT
from tillerman.agents.claude.wire import ClaudeWire
from tillerman.config.policy_rules import rule_of
from tillerman.core.agent import Prompt
from tillerman.core.events import (
    PermissionRequested,
    RequestAnswered,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.session_options import session_spec
from tillerman.testing.gate_probe.probes import NOBODY
from tillerman.testing.model_double.script import ModelRequest, ModelToolCall, Say, Step, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

COMPLETED = TurnEnded(reason="completed")
NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def settings(folder: Path, name: str, **content: object) -> None:
    (folder / ".claude").mkdir(exist_ok=True)
    (folder / ".claude" / name).write_text(json.dumps(content))


@pytest.mark.parametrize("file", ["settings.json", "settings.local.json"])
async def test_no_file_of_the_project_opens_the_gate(desk: ClaudeDesk, file: str) -> None:
    """Nor does one of the user's: theirs may allow what the policy denies."""
    allow = ["Bash", "Read", "Write", "Edit", "WebFetch", "mcp__*"]
    permissions = {"allow": allow, "defaultMode": "bypassPermissions"}
    settings(desk.project, file, disableAllHooks=True, permissions=permissions)
    settings(desk.claude.home, "settings.json", disableAllHooks=True, permissions=permissions)
    (desk.project / "secret.txt").write_text("heron-7321\n")
    target = desk.project / "made"
    desk.double.scenarios["all"] = [
        reply(
            ModelToolCall("Bash", {"command": f"touch {target}", "description": "x"}, id="toolu_1"),
            ModelToolCall("Write", {"file_path": str(target), "content": "x"}, id="toolu_2"),
            ModelToolCall("Read", {"file_path": str(desk.project / "secret.txt")}, id="toolu_3"),
        ),
        reply(Say("So be it.")),
    ]
    session = await desk.start(approve="ask", tools=NOBODY)

    log = await run(session, "@@all@@ go")

    assert {ask.call_id for ask in of(log, PermissionRequested)} == {
        "toolu_1",
        "toolu_2",
        "toolu_3",
    }
    assert [end.outcome for end in of(log, ToolFinished)] == ["denied"] * 3
    assert not target.exists()
    assert "heron-7321" not in json.dumps([turn.body for turn in desk.double.turns])
    assert of(log, TurnEnded) == [COMPLETED]


async def test_a_subagent_and_its_background_commands_are_requested(desk: ClaudeDesk) -> None:
    project = desk.project
    (project / "book.ipynb").write_text(json.dumps(NOTEBOOK))

    def script(request: ModelRequest) -> Step:
        if request.step == 0:
            task = {
                "description": "look",
                "prompt": "@@inner@@ go",
                "subagent_type": "general-purpose",
            }
            return reply(
                ModelToolCall(
                    "Task" if desk.claude.version == "2.1.197" else "Agent", task, id="toolu_t"
                )
            )
        return reply(Say("Seen."))

    book = str(project / "book.ipynb")
    cell = {"notebook_path": book, "new_source": "1", "edit_mode": "insert", "cell_type": "code"}
    desk.double.scenarios["outer"] = script
    desk.double.scenarios["inner"] = [
        reply(ModelToolCall("Read", {"file_path": book}, id="toolu_0")),
        reply(
            ModelToolCall("Bash", {"command": "touch deep", "description": "x"}, id="toolu_1"),
            ModelToolCall(
                "Bash",
                {"command": "touch later", "description": "x", "run_in_background": True},
                id="toolu_2",
            ),
            ModelToolCall("NotebookEdit", cell, id="toolu_3"),
            ModelToolCall(
                "WebFetch", {"url": f"{desk.double.base_url}/x", "prompt": "?"}, id="toolu_4"
            ),
        ),
        reply(Say("Looked.")),
    ]
    session = await desk.start(approve="ask", tools=("Task", "Read"))

    log = await run(session, "@@outer@@ go")

    asked = {ask.call_id for ask in of(log, PermissionRequested) if ask.parent}
    assert asked >= {"toolu_0", "toolu_1", "toolu_2", "toolu_3", "toolu_4"}
    ended = {end.call_id: end.outcome for end in of(log, ToolFinished)}
    assert {id: ended[id] for id in sorted(asked)} == {
        "toolu_0": "completed",
        "toolu_1": "denied",
        "toolu_2": "denied",
        "toolu_3": "denied",
        "toolu_4": "denied",
    }
    assert not (project / "deep").exists()
    assert not (project / "later").exists()
    assert json.loads((project / "book.ipynb").read_text()) == NOTEBOOK
    assert of(log, TurnEnded)[-1] == COMPLETED


async def test_writing_its_own_plan_is_not_requested_and_is_no_bypass(desk: ClaudeDesk) -> None:
    def script(request: ModelRequest) -> Step:
        if request.step:
            return reply(Say("Planned."))
        [file] = set(re.findall(r"/[\w./-]+/plans/[\w-]+\.md", json.dumps(request.body)))
        return reply(
            ModelToolCall("Write", {"file_path": file, "content": "1. Look.\n"}, id="toolu_p")
        )

    desk.double.scenarios["plan"] = script
    session = await desk.start(approve="ask", mode="plan")

    log = await run(session, "@@plan@@ go")

    [begun] = of(log, ToolStarted)
    assert (begun.tool, begun.name) == ("SavePlan", "Write")
    assert of(log, RequestAnswered) == []
    assert [end.outcome for end in of(log, ToolFinished)] == ["completed"]
    assert of(log, TurnEnded) == [COMPLETED]


@pytest.mark.parametrize(("tool", "end"), [("Write", "late"), ("Write", "gone"), ("Bash", "gone")])
async def test_a_request_that_is_never_answered_runs_nothing(
    claude: RealClaude, double: ModelDouble, tool: str, end: str
) -> None:
    """Neither after the CLI's own timeout (ours is never shorter), nor after its host has ended,
    though its own rules would allow the call. After its host has ended, 2.1.197 applies those rules
    to the requests of its callback: then the supervision ends it first."""
    marker = claude.project / "made"
    inputs = {
        "Bash": {"command": f"touch {marker}", "description": "x"},
        "Write": {"file_path": str(marker), "content": ""},
    }
    double.scenarios["ask"] = [
        reply(ModelToolCall(tool, inputs[tool], id="toolu_1")),
        reply(Say("So be it.")),
    ]
    lax = (tool, end, claude.version) != ("Write", "gone", "2.1.197")
    spec = session_spec(cwd=claude.project, allowed_tools=(tool,) if lax else ())
    wire = ClaudeWire(spec)
    [hello] = wire.greet()
    hello["request"]["hooks"]["PreToolUse"][0]["timeout"] = 2 if end == "late" else HOOK_TIMEOUT
    process = await asyncio.create_subprocess_exec(
        str(claude.program),
        *[str(word) for word in wire.launch(spec, None).argv[1:]],
        cwd=claude.project,
        env=claude.environment(double.base_url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin
    assert process.stdout
    try:
        for message in (hello, *wire.prompt(Prompt("@@ask@@ go"))):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(40):
            async for line in process.stdout:
                if end == "gone" and re.search(rb'"(hook_callback|can_use_tool)"', line):
                    process.stdin.close()
                if b'"type":"result"' in line:
                    break
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    assert [turn.step for turn in double.turns][:1] == [0]
    assert not marker.exists()


DENIED_FILES = [".env", "conf/key one.pem", "src/deep/{key},[a].pem", "src/private/notes.txt"]


@pytest.mark.parametrize("below", ["", "src"])
async def test_a_search_leaves_out_the_files_that_a_rule_denies(
    desk: ClaudeDesk, below: str
) -> None:
    """Wherever the CLI starts ripgrep, and however the names are spelled."""
    names = [*DENIED_FILES, "src/app.py", "other/keys.txt", "README.md"]
    for name in names:
        file = desk.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"word {Path(name).name.encode().hex()}\n")
    rules = [
        rule_of({"deny": "no", "path": one}, "rules.toml:1")
        for one in (".env", "*.pem", "src/private/**")
    ]
    search = {"pattern": "word", "output_mode": "content"}
    if below:
        search["path"] = str(desk.project / below)
    desk.double.scenarios["search"] = [
        reply(ModelToolCall("Grep", search, id="toolu_1")),
        reply(Say("Found.")),
    ]
    # elsewhere the CLI has no such tool, and searches with commands
    where = {"CLAUDE_CODE_ENTRYPOINT": "local-agent"}
    session = await desk.start(approve="ask", rules=rules, environment=where)

    log = await run(session, "@@search@@ go")

    assert [answer.answer.option for answer in of(log, RequestAnswered)] == ["allow"]
    (end,) = of(log, ToolFinished)
    message = "".join(part.text for part in end.content if isinstance(part, Text))
    found = {name for name in names if Path(name).name.encode().hex() in message}
    expected = {name for name in set(names) - set(DENIED_FILES) if name.startswith(below)}
    assert (end.outcome, found) == ("completed", expected)
    seen = json.dumps([turn.body for turn in desk.double.turns])
    assert not [name for name in DENIED_FILES if Path(name).name.encode().hex() in seen]
