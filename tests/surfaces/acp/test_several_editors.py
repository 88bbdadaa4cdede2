"""Two editors on one session, other surfaces beside an editor, and an editor that disappears."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest

from tests.surfaces.acp.conftest import StartEditor
from tests.surfaces.acp.editor import Editor, Message, RpcRefused, choose
from tests.surfaces.conftest import Bench, wait_until

ASK = {"write": "made.txt", "text": "made\n"}
_STORY = (
    {"think": "so"},
    {"say": "one two"},
    {"plan": ["look"]},
    {"run": "echo hi"},
    ASK,
    {"say": "done"},
)
_LIVE = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")


def start(editor: Editor, session: str, *steps: Any) -> int:
    text = json.dumps(steps)
    return editor.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


async def load(editor: Editor, session: str, bench: Bench) -> None:
    await editor.call("session/load", sessionId=session, cwd=str(bench.project), mcpServers=[])


def joined(updates: list[Message]) -> list[Message]:
    """Chunks of one message in one piece: an editor that is behind gets them so."""
    found: list[Message] = []
    for update in updates:
        last = found[-1] if found else {}
        if "messageId" in update and update["messageId"] == last.get("messageId"):
            text = last["content"]["text"] + update["content"]["text"]
            found[-1] = {**last, "content": {"type": "text", "text": text}}
        else:
            found.append(update)
    return found


async def test_two_editors_on_one_session_see_the_same(
    bench: Bench, open_editor: StartEditor
) -> None:
    first, second = await open_editor(), await open_editor()
    session = await first.new(bench.project)
    await first.prompt(session, {"say": "earlier"})
    await load(second, session, bench)
    assert second.said() == "earlier"
    before = len(first.messages), len(second.messages)
    first.handlers["session/request_permission"] = choose("allow_once")
    assert (await first.prompt(session, *_STORY))["stopReason"] == "end_turn"
    await second.until_update(
        "agent_message_chunk", lambda update: update["content"]["text"] == "done"
    )
    live = [
        joined(
            [
                u
                for u in editor.updates(*_LIVE)
                if u.get("messageId", u.get("toolCallId", "2")).startswith("2")
            ]
        )
        for editor in (first, second)
    ]
    assert live[0] == live[1]
    assert before[0] < len(first.messages)
    prompted = second.said("user_message_chunk")
    assert json.dumps(_STORY) in prompted, "the second editor is shown the prompt of the first"
    assert json.dumps(_STORY) not in first.said("user_message_chunk")


async def test_a_prompt_through_an_editor_that_does_not_run_the_session(
    bench: Bench, open_editor: StartEditor
) -> None:
    first, second = await open_editor(), await open_editor()
    session = await first.new(bench.project)
    await first.prompt(session, {"say": "earlier"})
    await load(second, session, bench)
    told = await second.prompt(session, {"say": "from the second"})
    assert told["stopReason"] == "end_turn"
    assert second.said().endswith("from the second")
    await first.until_update(
        "agent_message_chunk", lambda update: update["content"]["text"] == "second"
    )
    assert "from the second" in first.said("user_message_chunk")
    with pytest.raises(RpcRefused):
        await second.prompt(session, {"fail": "api_error"})
    prompt = start(second, session, {"say": "long"}, {"hang": True})
    await second.until_update(
        "agent_message_chunk", lambda update: update["content"]["text"] == "long"
    )
    second.notify("session/cancel", sessionId=session)
    assert (await second.answer(prompt))["stopReason"] == "cancelled"


async def test_a_request_that_one_editor_answers_is_withdrawn_from_the_other(
    bench: Bench, open_editor: StartEditor
) -> None:
    first, second = await open_editor(), await open_editor()
    session = await first.new(bench.project)
    await first.prompt(session, {"say": "earlier"})
    await load(second, session, bench)
    prompt = start(first, session, ASK)
    shown = await first.until(lambda m: m.get("method") == "session/request_permission")
    await second.until(lambda m: m.get("method") == "session/request_permission")
    [asked] = second.requests("session/request_permission")
    answer = choose("allow_once")(asked["params"])
    second.write({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
    assert (await first.answer(prompt))["stopReason"] == "end_turn"
    withdrawn = await first.until(lambda m: m.get("method") == "$/cancel_request")
    assert withdrawn["params"] == {"requestId": shown["id"]}
    first.write(
        {"jsonrpc": "2.0", "id": shown["id"], "result": choose("reject_once")(shown["params"])}
    )
    assert (bench.project / "made.txt").exists()
    assert (await first.prompt(session, {"say": "again"}))["stopReason"] == "end_turn"


async def test_a_request_is_answered_on_the_command_line_and_the_dialog_is_withdrawn(
    bench: Bench, editor: Editor
) -> None:
    session = await editor.new(bench.project)
    prompt = start(editor, session, ASK)
    await editor.until(lambda m: m.get("method") == "session/request_permission")
    [open] = json.loads(bench.run("requests", "list", "--json").stdout)
    bench.run(
        "requests",
        "answer",
        f"{session}/{open['request']['request_id']}",
        "deny",
        "--note",
        "not now",
    )
    assert (await editor.answer(prompt))["stopReason"] == "end_turn"
    await editor.until(lambda m: m.get("method") == "$/cancel_request")
    assert not (bench.project / "made.txt").exists()


async def test_an_open_request_is_shown_to_an_editor_that_comes_later(
    bench: Bench, open_editor: StartEditor
) -> None:
    first, second = await open_editor(), await open_editor()
    session = await first.new(bench.project)
    prompt = start(first, session, ASK)
    await first.until(lambda m: m.get("method") == "session/request_permission")
    second.handlers["session/request_permission"] = choose("allow_once")
    await load(second, session, bench)
    assert (await first.answer(prompt))["stopReason"] == "end_turn"
    assert (bench.project / "made.txt").exists()


async def test_a_request_outlives_its_editor_and_is_answered_elsewhere(
    bench: Bench, open_editor: StartEditor
) -> None:
    editor = await open_editor()
    session = await editor.new(bench.project)
    start(editor, session, ASK, {"say": "done"})
    await editor.until(lambda m: m.get("method") == "session/request_permission")
    leaving = asyncio.create_task(editor.leave())
    [open] = json.loads(bench.run("requests", "list", "--json").stdout)
    bench.run("requests", "answer", f"{session}/{open['request']['request_id']}", "allow", "--yes")
    assert await leaving == 0
    assert (bench.project / "made.txt").exists()
    [row] = json.loads(bench.run("sessions", "list", "--json").stdout)
    assert row["status"] == "completed"


async def test_a_request_of_a_killed_editor_stays_open(
    bench: Bench, open_editor: StartEditor
) -> None:
    editor = await open_editor()
    session = await editor.new(bench.project)
    start(editor, session, ASK, {"say": "done"})
    await editor.until(lambda m: m.get("method") == "session/request_permission")
    editor.process.send_signal(signal.SIGKILL)
    await editor.process.wait()
    later = await open_editor()
    later.handlers["session/request_permission"] = choose("allow_once")
    await load(later, session, bench)
    await later.until(lambda m: m.get("method") == "session/request_permission")
    await later.prompt(session, ASK, {"say": "done"})
    assert (bench.project / "made.txt").exists()


async def test_an_editor_that_cannot_show_a_request_leaves_it_open(
    bench: Bench, editor: Editor
) -> None:
    def refuse(params: Message) -> None:
        raise RpcRefused({"code": -32601, "message": "Method not found"})

    editor.handlers["session/request_permission"] = refuse
    session = await editor.new(bench.project)
    prompt = start(editor, session, ASK)
    told = await editor.until_update("agent_thought_chunk")
    [open] = json.loads(bench.run("requests", "list", "--json").stdout)
    name = f"{session}/{open['request']['request_id']}"
    assert f"tillerman requests answer {name}" in told["content"]["text"]
    bench.run("requests", "answer", name, "allow")
    assert (await editor.answer(prompt))["stopReason"] == "end_turn"
    assert (bench.project / "made.txt").exists()


async def test_a_turn_goes_on_after_the_editor_has_left(
    bench: Bench, open_editor: StartEditor
) -> None:
    editor = await open_editor("--approve", "auto")
    session = await editor.new(bench.project)
    start(editor, session, {"say": "now"}, {"sleep": 0.5}, ASK)
    await editor.until_update("agent_message_chunk")
    assert await editor.leave() == 0
    assert (bench.project / "made.txt").exists()


async def test_a_terminated_server_leaves_no_process(
    bench: Bench, open_editor: StartEditor
) -> None:
    editor = await open_editor("--approve", "auto")
    session = await editor.new(bench.project)
    start(editor, session, {"run": "echo $$ > pid; exec sleep 60"})
    wait_until(
        lambda: (bench.project / "pid").exists() and bool((bench.project / "pid").read_text())
    )
    editor.process.terminate()
    assert await editor.process.wait() == 0
    [row] = json.loads(bench.run("sessions", "list", "--json").stdout)
    assert row["status"] == "cancelled" or row["status"] == "failed"


async def test_a_session_that_a_command_runs_is_followed_and_steered(
    bench: Bench, editor: Editor
) -> None:
    steps = json.dumps([{"say": "working"}, {"hang": True}])
    bench.start("run", "-a", "mock", steps)
    wait_until(lambda: '"running"' in bench.run("sessions", "list", "--json").stdout)
    [row] = json.loads(bench.run("sessions", "list", "--json").stdout)
    await load(editor, row["id"], bench)
    await editor.until_update("agent_message_chunk")
    editor.notify("session/cancel", sessionId=row["id"])
    wait_until(lambda: '"running"' not in bench.run("sessions", "list", "--json").stdout)
