"""Every pinned agent CLI plays the scripted model's replies, without tillerman in between."""

from __future__ import annotations

import re

import pytest

from tests.real.bare import run_bare
from tests.real.home_tree import home_tree
from tests.real.stages import Actor
from tillerman.testing.model_double.script import Fail, ModelRequest, Say, Think, Usage, reply
from tillerman.testing.model_double.server import ModelDouble, api_of

pytestmark = [pytest.mark.real, pytest.mark.newest, pytest.mark.timeout(120)]


async def test_model_output_arrives_and_no_background_request_takes_a_step(
    actor: Actor, double: ModelDouble
) -> None:
    """The tools of the setup are those that the CLI offers."""
    double.scenarios["hello"] = [reply(Think("Let me see."), Say("Good morning."))]
    double.scenarios["bye"] = [reply(Say("Good night."))]

    run = await run_bare(actor, double, "@@hello@@ say it", "@@bye@@ say it")

    received = run.text if actor.stage.speaks_acp else "\n".join(run.output)
    assert ("Good morning." in received, "Good night." in received) == (True, True), received
    # codex-acp asks some things twice; what counts is that no errand moves the script on
    turns = list(dict.fromkeys((turn.api, turn.scenario, turn.step) for turn in double.turns))
    assert turns == [(actor.stage.api, name, 0) for name in ("hello", "bye")]
    assert "sk-fake" not in str(double.requests)
    stage, file = actor.stage, actor.project / "some.txt"
    tools = [stage.shell("ls"), stage.write(file, "x\n"), stage.edit(file, "x", "y")]
    assert {tool.name for tool in tools} <= _offered(double.turns[0])


async def test_its_tools_do_what_the_model_requests(actor: Actor, double: ModelDouble) -> None:
    stage, file = actor.stage, actor.project / "made.txt"
    calls = {
        "c_shell": stage.shell("expr 6 '*' 7", id="c_shell"),
        "c_write": stage.write(file, "one\ntwo\n", id="c_write"),
        "c_edit": stage.edit(file, "two", "three", id="c_edit"),
    }
    if actor.lacks("read"):
        calls["c_read"] = stage.shell(f"cat {file}", id="c_read")
    else:
        calls["c_read"] = stage.read(file, id="c_read")
    if not actor.lacks("todo"):
        calls["c_todo"] = stage.todo(("Dig", "in_progress"), ("Fill", "pending"), id="c_todo")
    double.scenarios["tools"] = [*[reply(call) for call in calls.values()], reply(Say("Done."))]

    await run_bare(actor, double, "@@tools@@ go", free=True)

    assert file.read_text() == "one\nthree\n"
    last = double.turns[-1]
    results = api_of(last).tool_results(last.body)
    assert (last.step, results.keys()) == (len(calls), calls.keys())
    assert "42" in results["c_shell"]
    assert "three" in results["c_read"]
    assert re.search("(?i)updated|modified|Dig", results.get("c_todo", "Dig"))


async def test_a_refusal_of_the_api_is_reported(actor: Actor, double: ModelDouble) -> None:
    double.scenarios["broken"] = [Fail(400, message="no such thing here")]

    run = await run_bare(actor, double, "@@broken@@ go")

    reported = [*run.output, str(run.answers)]
    assert any("no such thing here" in line for line in reported), reported
    assert {turn.step for turn in double.turns} == {0}


async def test_two_bare_runs_leave_the_same_files(actor: Actor, double: ModelDouble) -> None:
    double.scenarios["hello"] = [reply(Say("Hello."))]
    trees = []
    for _ in range(2):
        await run_bare(actor, double, "@@hello@@ say it")
        trees.append(home_tree(actor.home, actor.stage.volatile_files))

    assert trees[0] == trees[1]


@pytest.mark.agents("codex", "gemini", "qwen", "opencode")
async def test_a_conversation_that_is_compacted_continues_where_it_was(
    actor: Actor, double: ModelDouble
) -> None:
    full = Usage(input=950_000)
    last = full if actor.agent == "gemini" else Usage()  # it looks when it is prompted
    command = actor.stage.shell("echo hello")
    double.scenarios["long"] = [
        reply(command, usage=full),
        reply(Say("two"), usage=last),
        reply(Say("three")),
    ]
    prompts = ["@@long@@ go", "go on"] if actor.stage.speaks_acp else ["@@long@@ go"]

    await run_bare(actor, double, *prompts, free=True)

    assert "summary" in [request.kind for request in double.requests]
    assert [turn.step for turn in double.turns] == [0, *range(1, len(prompts) + 1)]


def _offered(request: ModelRequest) -> set[str]:
    """The names of all tools in a request, in the format of any API."""
    found: set[str] = set()

    def walk(tool: object) -> None:
        if isinstance(tool, dict):
            if isinstance(name := tool.get("name"), str):
                found.add(name)
            for key in ("function", "functionDeclarations", "tools"):
                walk(tool.get(key))
        elif isinstance(tool, list):
            for one in tool:
                walk(one)

    walk(request.body["tools"])
    return found
