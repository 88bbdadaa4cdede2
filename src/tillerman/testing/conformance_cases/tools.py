"""Conformance cases: tool calls, and their events in the log."""

from __future__ import annotations

from tillerman.core.events import Diff, FilesChanged, PlanChanged, ToolFinished, ToolStarted
from tillerman.testing.conformance_cases.case import case
from tillerman.testing.model_double.script import Say
from tillerman.testing.scenario import (
    Scenario,
    UnsupportedAction,
    agent_text,
    call,
    do,
    end,
    of,
    play,
    shown,
)


@case("runs a command, and reports its output")
async def shell(scene: Scenario) -> None:
    log = await play(
        await scene.start(approve="auto"),
        scene.script([do("shell", "printf heron-%d 42")], [Say("Ran.")]),
    )
    begun, done = call(log, "Bash")
    assert "printf heron-" in begun.title, begun.title
    assert done.outcome == "completed", done
    assert "heron-42" in shown(done), shown(done)
    assert agent_text(log).endswith("Ran."), agent_text(log)


@case("distinguishes failed commands from successful ones")
async def failing_command(scene: Scenario) -> None:
    log = await play(
        await scene.start(approve="auto"),
        scene.script([do("shell", "echo oops >&2; exit 3")], [Say("It failed.")]),
    )
    _, done = call(log, "Bash")
    assert done.outcome == "failed", done
    assert end(log).reason == "completed", end(log)


@case("writes a file, and reports the content")
async def writes(scene: Scenario) -> None:
    file = scene.project / "heron.txt"
    log = await play(
        await scene.start(approve="auto"),
        scene.script([do("write", file, "grey\nlong\n")], [Say("Written.")]),
    )
    begun, done = call(log, "Write", "Edit")
    assert file.read_text() == "grey\nlong\n", file.read_text()
    assert str(file) in begun.paths, begun.paths
    assert done.outcome == "completed", done


@case("reports a change as a diff")
async def diff(scene: Scenario) -> None:
    file = scene.project / "diff.txt"
    log = await play(
        await scene.start(approve="auto"),
        scene.script([do("write", file, "grey\nlong\n")], [Say("Written.")]),
    )
    _, done = call(log, "Write", "Edit")
    changes = [part for part in done.content if isinstance(part, Diff)]
    assert len(changes) == 1, done.content
    assert "grey" in f"{changes[0].patch}{changes[0].new}", changes


@case("edits a file that it has read")
async def edits(scene: Scenario) -> None:
    file = scene.project / "edited.txt"
    file.write_text("one\ntwo\n")
    replies = ([do("edit", file, "two", "three")], [Say("Edited.")])
    try:
        prompt = scene.script([do("read", file)], *replies)
    except UnsupportedAction:
        prompt = scene.script(*replies)
    log = await play(await scene.start(approve="auto"), prompt)
    begun, done = call(log, "Edit", "Write")
    assert file.read_text() == "one\nthree\n", file.read_text()
    assert (str(file) in begun.paths, done.outcome) == (True, "completed"), (begun, done)


@case("reads a file")
async def reads(scene: Scenario) -> None:
    file = scene.project / "read.txt"
    file.write_text("a rare bird\n")
    log = await play(
        await scene.start(approve="auto"), scene.script([do("read", file)], [Say("Read.")])
    )
    begun, done = call(log, "Read")
    assert (str(file) in begun.paths, done.outcome) == (True, "completed"), (begun, done)


@case("ends every one of several parallel calls")
async def parallel_calls(scene: Scenario) -> None:
    calls = [do("shell", f"echo bird-{number}") for number in (1, 2)]
    log = await play(await scene.start(approve="auto"), scene.script(calls, [Say("Both.")]))
    begun = [event for event in of(log, ToolStarted) if event.tool == "Bash"]
    done = {event.call_id: shown(event) for event in of(log, ToolFinished)}
    assert len(begun) == 2, begun
    for event in begun:  # in any order
        bird = next(bird for bird in ("bird-1", "bird-2") if bird in event.title)
        assert bird in done[event.call_id], (event, done)


@case("truncates long output, and says so")
async def long_output(scene: Scenario) -> None:
    log = await play(
        await scene.start(approve="auto", output_cap=10_000),
        scene.script([do("shell", "seq -f line-%g 20000")], [Say("Long.")]),
    )
    _, done = call(log, "Bash")
    assert done.outcome == "completed", done.outcome
    assert len(shown(done)) <= 12_000, len(shown(done))
    assert "line-" in shown(done), shown(done)[:200]


@case("reports its plan")
async def plan(scene: Scenario) -> None:
    log = await play(
        await scene.start(approve="auto"),
        scene.script([do("todo", "look for herons", "count them")], [Say("Planned.")]),
    )
    plans = of(log, PlanChanged)
    assert plans, "no plan was told"
    assert [step.text for step in plans[-1].steps] == ["look for herons", "count them"], plans[-1]


@case("reports all files that changed on disk during a turn")
async def files_changed(scene: Scenario) -> None:
    log = await play(
        await scene.start(approve="auto"),
        scene.script([do("shell", "echo shell > by-shell.txt")], [Say("Made.")]),
    )
    changed = [file.path for event in of(log, FilesChanged) for file in event.files]
    assert any(path.endswith("by-shell.txt") for path in changed), changed


@case("calls the tools of an MCP server", "mcp")
async def mcp(scene: Scenario) -> None:
    log = await play(
        await scene.start(approve="auto", servers={"birds": scene.server}),
        scene.script([do("mcp", "birds", "shout", "rara avis")], [Say("Called.")]),
    )
    begun, done = call(log, "MCP")
    assert "birds" in begun.title, begun.title
    assert done.outcome == "completed", done
    assert "RARA AVIS" in shown(done), shown(done)
