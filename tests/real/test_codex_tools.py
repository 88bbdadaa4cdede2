"""Tools of the real Codex, and how their calls are decided."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.desk import (
    Desk,
    agent_text,
    ends,
    finished,
    of,
    processes_with,
    run,
    shown,
    started,
    until,
    until_true,
)
from tests.real.stages import STAGES
from tillerman.core.events import (
    Answer,
    BackgroundChanged,
    Diff,
    Notice,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.testing.model_double.script import (
    ModelRequest,
    ModelToolCall,
    ReplyHold,
    Say,
    Step,
    reply,
)

pytestmark = [pytest.mark.real, pytest.mark.agents("codex"), pytest.mark.timeout(90)]

COMPLETED = TurnEnded(reason="completed")
SERVER = {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}
stage = STAGES["codex"]


def patch(text: str, id: str) -> ModelToolCall:
    return ModelToolCall("apply_patch", {"input": f"*** Begin Patch\n{text}*** End Patch\n"}, id)


async def test_a_command_runs_and_its_whole_output_is_shown(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["sh"] = [
        reply(stage.shell("echo one; echo two > made.txt; cat made.txt", id="call_s")),
        reply(Say("Done.")),
    ]
    session = await desk.start()

    log = await run(session, "@@sh@@ go")

    begun = started(log, "call_s")
    assert (begun.tool, begun.title) == (
        "Bash",
        "Bash `echo one; echo two > made.txt; cat made.txt`",
    )
    assert finished(log, "call_s").outcome == "completed"
    assert shown(finished(log, "call_s")) == "one\ntwo\n"
    assert (desk.project / "made.txt").read_text() == "two\n"
    [asked] = of(log, PermissionRequested)
    assert (asked.tool, asked.call_id, asked.input["command"]) == (
        "Bash",
        "call_s",
        begun.input["command"],
    )
    assert [answer.by for answer in of(log, RequestAnswered)] == ["policy"]


async def test_a_command_that_fails_is_reported(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["sh"] = [
        reply(stage.shell("echo oops; exit 3", id="call_f")),
        reply(Say("It failed.")),
    ]
    session = await desk.start()

    log = await run(session, "@@sh@@ go")

    end = finished(log, "call_f")
    assert (end.outcome, shown(end)) == ("failed", "oops\n\nexit code 3")
    assert ends(log) == [COMPLETED]


async def test_a_patch_is_a_call_for_each_file_with_its_diff(any_desk: Desk) -> None:
    desk, project = any_desk, any_desk.project
    for name in ("a.txt", "b.txt", "c.txt"):
        (project / name).write_text("hello\nworld\n")
    desk.double.scenarios["patch"] = [
        reply(
            patch(
                "*** Update File: a.txt\n@@\n hello\n-world\n+WORLD\n"
                "*** Update File: b.txt\n*** Move to: moved.txt\n@@\n hello\n-world\n+moon\n"
                "*** Delete File: c.txt\n"
                "*** Add File: new.txt\n+fresh\n",
                id="call_p",
            )
        ),
        reply(Say("Patched.")),
    ]
    session = await desk.start()

    log = await run(session, "@@patch@@ go")

    calls = {call.tool: call for call in of(log, ToolStarted)}
    results = {end.call_id: end for end in of(log, ToolFinished)}
    assert set(calls) == {"Edit", "Rename", "Delete", "Write"}
    assert {end.outcome for end in results.values()} == {"completed"}
    diffs = {tool: results[call.call_id].content for tool, call in calls.items()}
    hunk = "@@ -1,2 +1,2 @@\n hello\n-world\n"
    assert diffs == {
        "Edit": (Diff(str(project / "a.txt"), patch=f"{hunk}+WORLD\n"),),
        "Rename": (Diff(str(project / "moved.txt"), patch=f"{hunk}+moon\n"),),
        "Delete": (Diff(str(project / "c.txt"), old="hello\nworld\n"),),
        "Write": (Diff(str(project / "new.txt"), new="fresh\n"),),
    }
    assert sorted(path.name for path in project.glob("*.txt")) == ["a.txt", "moved.txt", "new.txt"]
    [asked] = of(log, PermissionRequested)
    assert asked.tool == "MultiEdit"
    assert sorted(Path(path).name for path in asked.paths) == [
        "a.txt",
        "b.txt",
        "c.txt",
        "moved.txt",
        "new.txt",
    ]


async def test_a_denied_call_does_not_run_and_the_turn_continues(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["both"] = [
        reply(stage.shell("echo x > shell.txt", id="call_s")),
        reply(patch("*** Add File: patch.txt\n+x\n", id="call_p")),
        reply(Say("I may not.")),
    ]
    session = await desk.start(approve="ask")

    await session.prompt("@@both@@ go")
    for call_id in ("call_s", "call_p"):
        asked = await until(session, PermissionRequested, lambda one, id=call_id: one.call_id == id)
        assert [option.id for option in asked.options] == ["allow", "deny"]
        session.answer(asked.request_id, Answer("deny", note="use a pencil"))
    await session.idle()

    log = desk.log(session)
    assert [finished(log, id).outcome for id in ("call_s", "call_p")] == ["denied", "denied"]
    assert list(desk.project.glob("*.txt")) == []
    assert (agent_text(log), ends(log)) == ("I may not.", [COMPLETED])
    assert "use a pencil" in json.dumps(desk.double.turns[-1].body["input"])


async def test_an_answer_for_the_session_is_our_rule_and_codex_asks_again(
    any_desk: Desk,
) -> None:
    desk = any_desk
    again = [stage.shell("echo same >> log.txt", id=id) for id in ("call_1", "call_2")]
    desk.double.scenarios["twice"] = [*[reply(call) for call in again], reply(Say("Twice."))]
    session = await desk.start(approve="ask")

    await session.prompt("@@twice@@ go")
    asked = await until(session, PermissionRequested)
    session.answer(asked.request_id, Answer("allow", remember="session"))
    await session.idle()

    assert (desk.project / "log.txt").read_text() == "same\nsame\n"
    answers = [(one.answer, one.by) for one in of(desk.log(session), RequestAnswered)]
    assert answers == [(Answer("allow", remember="session"), "person"), (Answer("allow"), "policy")]


@pytest.fixture
def outside_tmp() -> Iterator[Path]:
    """Codex lets its commands write to /tmp, where tests have their folders."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tillerman-") as folder:
        yield Path(folder)


async def test_a_write_outside_of_the_workspace_is_denied_by_policy(
    any_desk: Desk, outside_tmp: Path
) -> None:
    desk = any_desk
    outside = outside_tmp / "outside.txt"  # where its sandbox forbids writes
    desk.double.scenarios["out"] = [
        reply(patch(f"*** Add File: {outside}\n+x\n", id="call_p")),
        reply(stage.shell(f"echo x > {outside}", id="call_s")),
        reply(Say("No.")),
    ]
    session = await desk.start(approve="edits")

    log = await run(session, "@@out@@ go")

    assert finished(log, "call_p").outcome == "denied"
    assert finished(log, "call_s").outcome == "denied"
    assert not outside.exists()


async def test_an_extra_folder_may_be_written(any_desk: Desk, outside_tmp: Path) -> None:
    desk, extra = any_desk, outside_tmp
    desk.double.scenarios["extra"] = [
        reply(stage.shell(f"echo x > {extra}/file.txt", id="call_s")),
        reply(Say("Written.")),
    ]
    session = await desk.start(folders=(extra,))

    log = await run(session, "@@extra@@ go")

    assert finished(log, "call_s").outcome == "completed"
    assert (extra / "file.txt").read_text() == "x\n"


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_plan_and_ask_mode_write_nothing_even_if_allowed(any_desk: Desk, mode: str) -> None:
    desk = any_desk
    desk.double.scenarios["try"] = [
        reply(stage.shell("echo x > never.txt", id="call_s")),
        reply(Say("I only look.")),
    ]
    session = await desk.start(mode=mode)

    log = await run(session, "@@try@@ go")

    assert finished(log, "call_s").outcome == "denied"
    assert not (desk.project / "never.txt").exists()
    assert ends(log) == [COMPLETED]


async def test_tools_of_an_mcp_server_are_requested_and_run(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["mcp"] = [
        reply(stage.mcp("tiny", "shout", {"text": "hi"}, id="call_1")),
        reply(stage.mcp("tiny", "shout", {"text": "no"}, id="call_2")),
        reply(Say("Shouted.")),
    ]
    session = await desk.start(approve="ask", servers={"tiny": SERVER})

    await session.prompt("@@mcp@@ go")
    for call_id, option in (("call_1", "allow"), ("call_2", "deny")):
        asked = await until(session, PermissionRequested, lambda one, id=call_id: one.call_id == id)
        assert (asked.tool, asked.title) == ("MCP", "MCP `tiny.shout`")
        session.answer(asked.request_id, Answer(option))
    await session.idle()

    log = desk.log(session)
    assert shown(finished(log, "call_1")) == "HI"
    assert [finished(log, id).outcome for id in ("call_1", "call_2")] == ["completed", "denied"]
    assert ends(log) == [COMPLETED]


async def test_an_mcp_server_that_does_not_start_is_reported(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["hello"] = [reply(Say("Hello."))]
    session = await desk.start(servers={"broken": {"command": "/nonexistent"}})

    await run(session, "@@hello@@ go")
    notice = await until(session, Notice, lambda one: "broken" in one.text)

    assert notice.text.startswith("MCP server 'broken' did not start: ")


async def test_viewing_an_image_is_a_read(any_desk: Desk) -> None:
    desk = any_desk
    (desk.project / "dot.gif").write_bytes(b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\4\1\0\0"
                                           b"\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;")  # fmt: skip
    desk.double.scenarios["look"] = [
        reply(ModelToolCall("view_image", {"path": str(desk.project / "dot.gif")}, id="call_v")),
        reply(Say("A dot.")),
    ]
    session = await desk.start()

    log = await run(session, "@@look@@ go")

    assert (started(log, "call_v").tool, started(log, "call_v").title) == ("Read", "Read `dot.gif`")


async def test_a_model_that_writes_scripts_is_requested_call_by_call(any_desk: Desk) -> None:
    """The newest models call all tools from within a script."""
    desk = any_desk
    script = """\
const made = await tools.exec_command({cmd: "echo one; echo x > made.txt"});
await tools.apply_patch("*** Begin Patch\\n*** Add File: new.txt\\n+fresh\\n*** End Patch\\n");
text(made.output);
"""
    desk.double.scenarios["script"] = [
        reply(ModelToolCall("functions__exec", {"input": script}, id="call_x")),
        reply(Say("Done.")),
    ]
    session = await desk.start(model="gpt-6.1-sol")

    log = await run(session, "@@script@@ go")

    assert [call.tool for call in of(log, ToolStarted)] == ["Bash", "Write"]
    assert [asked.tool for asked in of(log, PermissionRequested)] == ["Bash", "Write"]
    assert [end.outcome for end in of(log, ToolFinished)] == ["completed", "completed"]
    assert (desk.project / "made.txt").read_text() == "x\n"
    assert (desk.project / "new.txt").read_text() == "fresh\n"
    assert (agent_text(log), ends(log)) == ("Done.", [COMPLETED])


def team(request: ModelRequest) -> Step:
    """Both agents play one scenario: a subagent's prompt is not a message of the user."""
    seen = json.dumps(request.body["input"])
    mail = json.dumps([i for i in request.body["input"] if i["type"] == "agent_message"])
    spawn = {"message": "do it", "task_name": "second"}
    if "NEW_TASK" in mail:
        call = stage.shell("echo from below", id="call_sub")
        return reply(Say("I did it.")) if "call_sub" in seen else reply(call)
    if "FINAL_ANSWER" in mail:
        return reply(Say("It is done."))
    if "call_spawn" in seen:
        return reply(
            ModelToolCall("collaboration__wait_agent", {"timeout_ms": 20_000}, id="call_wait")
        )
    return reply(ModelToolCall("collaboration__spawn_agent", spawn, id="call_spawn"))


async def test_a_subagent_works_inside_the_call_that_began_it(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["team"] = team
    session = await desk.start(flags=("-c", "features.multi_agent_v2=true"))

    log = await run(session, "@@team@@ go")

    assert (started(log, "call_spawn").tool, started(log, "call_wait").name) == ("Task", "wait")
    assert started(log, "call_sub").parent == "call_spawn"
    assert shown(finished(log, "call_sub")) == "from below\n"
    assert shown(finished(log, "call_spawn")) == "I did it."
    assert agent_text(log, parent="call_spawn") == "I did it."
    assert (agent_text(log), ends(log)) == ("It is done.", [COMPLETED])


async def test_a_subagent_that_outlasts_the_turn_works_in_the_background(any_desk: Desk) -> None:
    desk = any_desk
    spawn = ModelToolCall(
        "multi_agent_v1__spawn_agent", {"message": "@@sub@@ do it"}, id="call_spawn"
    )
    desk.double.scenarios |= {
        "main": [reply(spawn), reply(Say("It is begun."))],
        "sub": [reply(stage.shell("sleep 1; echo late", id="call_sub")), reply(Say("I did it."))],
    }
    session = await desk.start()

    log = await run(session, "@@main@@ go")

    assert (agent_text(log), ends(log)) == ("It is begun.", [COMPLETED])
    assert shown(finished(log, "call_spawn")) == "Works in the background."
    assert [len(change.tasks) for change in of(log, BackgroundChanged)] == [1, 0]
    assert shown(finished(log, "call_sub")) == "late\n"
    assert agent_text(log, parent="call_spawn") == "I did it."


async def test_an_interrupt_ends_subagents_too(any_desk: Desk) -> None:
    desk = any_desk
    spawn = ModelToolCall(
        "multi_agent_v1__spawn_agent", {"message": "@@sub@@ do it"}, id="call_spawn"
    )
    endless = {"cmd": "while :; do sleep 0.2; done", "yield_time_ms": 30_000}
    desk.double.scenarios |= {
        "main": [reply(spawn), reply(Say("I wait. ", chunks=1), ReplyHold("never"))],
        "sub": [reply(ModelToolCall("exec_command", endless, id="call_sub"))],
    }
    session = await desk.start()

    await session.prompt("@@main@@ go")
    await until_true(lambda: bool(_sleepers(desk)))
    await session.cancel()
    await session.idle()
    await until_true(lambda: not _sleepers(desk), within=3)

    log = desk.log(session)
    assert ends(log) == [TurnEnded(reason="cancelled")]
    assert {finished(log, id).outcome for id in ("call_spawn", "call_sub")} == {"cancelled"}


def _sleepers(desk: Desk) -> list[str]:
    return [line for line in processes_with(f"HOME={desk.player.home}") if "sleep 0.2" in line]
