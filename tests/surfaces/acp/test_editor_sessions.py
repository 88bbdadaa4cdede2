"""An editor opens, prompts, cancels, configures, lists, loads, forks and deletes sessions."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents.mock.mock_scene import SERVER
from tests.surfaces.acp.conftest import StartEditor
from tests.surfaces.acp.editor import Editor, RpcRefused, choose
from tests.surfaces.conftest import Bench, wait_until
from tillerman.supervision.linux import process_table
from tillerman.testing.conformance_cases.inputs import DOT

WRITE = {"write": "made.txt", "text": "made\n"}
HANG = ({"say": "working on it"}, {"hang": True})


def option(options: list[dict[str, Any]], id: str) -> dict[str, Any]:
    return next(one for one in options if one["id"] == id)


async def test_it_introduces_itself_with_what_the_agent_and_the_protocol_have(
    open_editor: StartEditor,
) -> None:
    editor = await open_editor()
    told = await editor.initialize()
    assert told["protocolVersion"] == 1
    assert told["agentInfo"]["name"] == "tillerman"
    can = told["agentCapabilities"]
    assert can["loadSession"] is True
    assert can["promptCapabilities"] == {"image": True, "audio": False, "embeddedContext": True}
    assert can["mcpCapabilities"] == {"http": True, "sse": True}
    assert {"list", "resume", "fork", "close", "delete"} <= set(can["sessionCapabilities"])
    assert told["authMethods"] == []


async def test_an_editor_of_a_later_protocol_is_offered_ours(editor: Editor) -> None:
    told = await editor.call("initialize", protocolVersion=7, clientCapabilities={})
    assert told["protocolVersion"] == 1


async def test_a_turn_streams_text_thoughts_calls_and_the_plan_in_order(
    editor: Editor, project: Path
) -> None:
    editor.handlers["session/request_permission"] = choose("allow_once")
    session = await editor.new(project)
    told = await editor.prompt(
        session,
        {"think": "so"},
        {"say": "one two three"},
        {"plan": ["look", {"text": "leap", "status": "in_progress"}]},
        WRITE,
        {"say": "done"},
    )
    assert told["stopReason"] == "end_turn"
    assert told["usage"]["outputTokens"] > 0
    kinds = [update["sessionUpdate"] for update in editor.updates()]
    order = [kind for kind in dict.fromkeys(kinds) if kind != "config_option_update"]
    assert order == [
        "agent_thought_chunk", "agent_message_chunk", "plan", "tool_call", "tool_call_update",
    ]  # fmt: skip
    assert (editor.said("agent_thought_chunk"), editor.said()) == ("so", "one two threedone")
    assert len(editor.updates("agent_message_chunk")) > 2
    assert editor.updates("plan")[-1]["entries"] == [
        {"content": "look", "priority": "medium", "status": "pending"},
        {"content": "leap", "priority": "medium", "status": "in_progress"},
    ]
    [call] = editor.updates("tool_call")
    assert (call["kind"], call["name"]) == ("edit", "Write")
    assert call["locations"] == [{"path": str(project / "made.txt")}]
    change = {"type": "diff", "path": str(project / "made.txt"), "oldText": None}
    assert call["content"] == [{**change, "newText": "made\n"}]
    assert editor.updates("tool_call_update")[-1]["status"] == "completed"
    assert not editor.updates("user_message_chunk"), "the editor shows its own prompt already"


@pytest.mark.parametrize(("kind", "made"), [("allow_once", True), ("reject_once", False)])
async def test_the_editor_decides_what_the_policy_leaves_open(
    editor: Editor, project: Path, kind: str, made: bool
) -> None:
    editor.handlers["session/request_permission"] = choose(kind)
    session = await editor.new(project)
    assert (await editor.prompt(session, WRITE))["stopReason"] == "end_turn"
    assert (project / "made.txt").exists() is made
    [asked] = editor.requests("session/request_permission")
    call = asked["params"]["toolCall"]
    assert (call["status"], call["kind"]) == ("pending", "edit")
    assert call["toolCallId"] == editor.updates("tool_call")[0]["toolCallId"]
    offered = [one["kind"] for one in asked["params"]["options"]]
    assert offered == ["allow_once", "allow_always", "allow_always", "reject_once"]
    ended = editor.updates("tool_call_update")[-1]["status"]
    assert ended == ("completed" if made else "failed")


async def test_an_answer_for_always_is_remembered_in_the_session(
    editor: Editor, project: Path
) -> None:
    editor.handlers["session/request_permission"] = choose("allow_always")
    session = await editor.new(project)
    await editor.prompt(session, {"run": "touch one"}, {"run": "touch one"})
    assert len(editor.requests("session/request_permission")) == 1
    assert (project / "one").exists()


async def test_what_a_rule_decides_is_not_asked(open_editor: StartEditor, project: Path) -> None:
    editor = await open_editor("--approve", "auto")
    session = await editor.new(project)
    await editor.prompt(session, WRITE)
    assert (project / "made.txt").exists()
    assert editor.requests("session/request_permission") == []


async def test_a_dismissed_dialog_denies(editor: Editor, project: Path) -> None:
    editor.handlers["session/request_permission"] = lambda _: {"outcome": {"outcome": "cancelled"}}
    session = await editor.new(project)
    assert (await editor.prompt(session, WRITE))["stopReason"] == "end_turn"
    assert not (project / "made.txt").exists()


async def test_cancel_ends_the_prompt_and_the_next_one_works(editor: Editor, project: Path) -> None:
    session = await editor.new(project)
    prompt = editor.send(
        "session/prompt", sessionId=session, prompt=[{"type": "text", "text": json.dumps(HANG)}]
    )
    await editor.until_update("agent_message_chunk")
    editor.notify("session/cancel", sessionId=session)
    assert (await editor.answer(prompt))["stopReason"] == "cancelled"
    assert (await editor.prompt(session, {"say": "again"}))["stopReason"] == "end_turn"


async def test_a_cancel_that_comes_before_the_agent_runs_is_not_lost(
    editor: Editor, project: Path
) -> None:
    session = await editor.new(project)
    for _ in range(3):
        text = json.dumps(HANG)
        prompt = editor.send(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}]
        )
        editor.notify("session/cancel", sessionId=session)
        assert (await editor.answer(prompt))["stopReason"] == "cancelled"
    assert (await editor.prompt(session, {"say": "again"}))["stopReason"] == "end_turn"


async def test_cancel_also_drops_the_prompts_that_wait(editor: Editor, project: Path) -> None:
    session = await editor.new(project)
    texts = [json.dumps(HANG), '[{"say": "late"}]']
    prompts = [
        editor.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
        for text in texts
    ]
    await editor.until_update("agent_message_chunk")
    editor.notify("session/cancel", sessionId=session)
    answers = [(await editor.answer(prompt))["stopReason"] for prompt in prompts]
    assert answers == ["cancelled", "cancelled"]
    assert "late" not in editor.said()


async def test_a_request_to_cancel_the_prompt_ends_its_turn(editor: Editor, project: Path) -> None:
    session = await editor.new(project)
    prompt = editor.send(
        "session/prompt", sessionId=session, prompt=[{"type": "text", "text": json.dumps(HANG)}]
    )
    await editor.until_update("agent_message_chunk")
    editor.notify("$/cancel_request", requestId=prompt)
    with pytest.raises(RpcRefused) as refused:
        await editor.answer(prompt)
    assert refused.value.error["code"] == -32800
    assert (await editor.prompt(session, {"say": "again"}))["stopReason"] == "end_turn"


async def test_a_prompt_during_a_turn_waits_for_its_own(editor: Editor, project: Path) -> None:
    session = await editor.new(project)
    steps = [[{"say": "first"}, {"sleep": 0.3}], [{"say": "second"}]]
    prompts = [
        editor.send(
            "session/prompt",
            sessionId=session,
            prompt=[{"type": "text", "text": json.dumps(one)}],
        )
        for one in steps
    ]
    assert (await editor.answer(prompts[0]))["stopReason"] == "end_turn"
    assert (await editor.answer(prompts[1]))["stopReason"] == "end_turn"
    assert editor.said() == "firstsecond"
    first_answer = next(n for n, m in enumerate(editor.messages) if m.get("id") == prompts[0])
    before = str(editor.messages[:first_answer])
    assert "first" in before and "second" not in before


@pytest.mark.parametrize(
    ("kind", "stop"),
    [("output_limit", "max_tokens"), ("turn_limit", "max_turn_requests"), ("refused", "refusal")],
)
async def test_a_limit_of_the_model_is_a_stop_reason(
    editor: Editor, project: Path, kind: str, stop: str
) -> None:
    session = await editor.new(project)
    assert (await editor.prompt(session, {"fail": kind}))["stopReason"] == stop


@pytest.mark.parametrize(
    ("kind", "code"),
    [("not_signed_in", -32000), ("rate_limited", -32603), ("context_overflow", -32603)],
)
async def test_a_failed_turn_is_an_error_with_its_kind_and_hint(
    editor: Editor, project: Path, kind: str, code: int
) -> None:
    session = await editor.new(project)
    with pytest.raises(RpcRefused) as refused:
        await editor.prompt(session, {"fail": kind, "message": "no way", "hint": "try later"})
    error = refused.value.error
    assert (error["code"], error["message"]) == (code, "no way")
    assert error["data"] == {"errorKind": kind, "hint": "try later"}
    assert (await editor.prompt(session, {"say": "again"}))["stopReason"] == "end_turn"


async def test_mode_model_approval_and_effort_are_config_options(
    editor: Editor, project: Path
) -> None:
    told = await editor.call("session/new", cwd=str(project), mcpServers=[])
    session, options = told["sessionId"], told["configOptions"]
    assert [one["id"] for one in options] == ["agent", "model", "mode", "approve", "effort"]
    assert [one["category"] for one in options][1:3] == ["model", "mode"]
    assert {"mock-quick", "mock-deep"} <= {
        one["value"] for one in option(options, "model")["options"]
    }
    assert told["modes"]["currentModeId"] == "agent"
    for id, value in (
        ("model", "mock-deep"), ("mode", "plan"), ("approve", "edits"), ("effort", "high")
    ):  # fmt: skip
        changed = await editor.call(
            "session/set_config_option", sessionId=session, configId=id, value=value
        )
        assert option(changed["configOptions"], id)["currentValue"] == value
    await editor.prompt(session, {"say": "{model} {mode} {effort}"})
    assert editor.said() == "mock-deep plan high"
    await editor.call("session/set_mode", sessionId=session, modeId="agent")
    mode = await editor.until_update(
        "current_mode_update", lambda update: bool(update["currentModeId"] == "agent")
    )
    assert mode["currentModeId"] == "agent"
    await editor.prompt(session, WRITE)
    assert (project / "made.txt").exists(), "with preset edits nobody is asked"


async def test_the_effort_changes_between_turns_of_one_conversation(
    editor: Editor, project: Path
) -> None:
    session = await editor.new(project)
    await editor.prompt(session, {"say": "the bird is a heron"})
    await editor.call(
        "session/set_config_option", sessionId=session, configId="effort", value="low"
    )
    await editor.prompt(session, {"say": "{effort}: {before}"})
    assert "the bird is a heron" in editor.said().partition("low: ")[2]


async def test_the_agent_is_a_config_option_and_the_next_one_gets_the_history(
    bench: Bench, open_editor: StartEditor
) -> None:
    config = Path(bench.environment["TILLERMAN_HOME"]) / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    editor = await open_editor("--accept-advisory", agent="mock")
    session = await editor.new(bench.project)
    await editor.prompt(session, {"say": "the bird is a heron"})
    recording = bench.run("sessions", "export", session, "--format", "jsonl").stdout
    file = bench.project / "log.jsonl"
    file.write_text(recording)
    changed = await editor.call(
        "session/set_config_option",
        sessionId=session,
        configId="agent",
        value=f"replay:{file}",
    )
    assert option(changed["configOptions"], "agent")["currentValue"] == "replay"
    back = await editor.call(
        "session/set_config_option", sessionId=session, configId="agent", value="mock"
    )
    assert option(back["configOptions"], "agent")["currentValue"] == "mock"
    told = await editor.prompt(session, {"say": "told: {prompt}"})
    assert told["stopReason"] == "end_turn"
    assert "the bird is a heron" in editor.said().partition("told: ")[2]


async def test_a_session_is_loaded_with_its_whole_history(
    open_editor: StartEditor, project: Path
) -> None:
    first = await open_editor("--approve", "auto")
    session = await first.new(project)
    await first.prompt(session, {"think": "hm"}, {"say": "the bird is a heron"}, WRITE)
    assert await first.leave() == 0
    second = await open_editor()
    told = await second.call("session/load", sessionId=session, cwd=str(project), mcpServers=[])
    assert option(told["configOptions"], "approve")["currentValue"] == "auto"
    kinds = [u["sessionUpdate"] for u in second.updates() if u["sessionUpdate"] != "usage_update"]
    assert kinds == [
        "user_message_chunk", "agent_thought_chunk", "agent_message_chunk", "tool_call",
        "tool_call_update",
    ]  # fmt: skip
    assert second.said() == "the bird is a heron"
    assert "the bird is a heron" in second.said("user_message_chunk")
    before = len(second.messages)
    await second.prompt(session, {"say": "before: {before}"})
    assert "the bird is a heron" in second.said().partition("before: ")[2]
    assert len(second.messages) > before


async def test_a_session_is_resumed_without_its_history(
    open_editor: StartEditor, project: Path
) -> None:
    first = await open_editor()
    session = await first.new(project)
    await first.prompt(session, {"say": "the bird is a heron"})
    await first.leave()
    second = await open_editor()
    await second.call("session/resume", sessionId=session, cwd=str(project), mcpServers=[])
    assert second.updates("agent_message_chunk", "user_message_chunk") == []
    await second.prompt(session, {"say": "before: {before}"})
    assert "the bird is a heron" in second.said()


async def test_a_fork_continues_apart_from_the_original(editor: Editor, project: Path) -> None:
    session = await editor.new(project)
    await editor.prompt(session, {"say": "the bird is a heron"})
    fork = (await editor.call("session/fork", sessionId=session, cwd=str(project)))["sessionId"]
    assert fork != session
    await editor.prompt(fork, {"say": "fork: {before}"})
    assert "the bird is a heron" in editor.said().partition("fork: ")[2]
    await editor.prompt(session, {"say": "original: {before}"})
    assert "fork" not in editor.said().partition("original: ")[2]


async def test_sessions_are_listed_by_folder_without_those_nobody_prompted(
    editor: Editor, project: Path, tmp_path: Path
) -> None:
    await editor.new(project)
    prompted = await editor.new(project)
    await editor.prompt(prompted, {"say": "here"})
    listed = (await editor.call("session/list", cwd=str(project)))["sessions"]
    assert [(one["sessionId"], one["cwd"]) for one in listed] == [(prompted, str(project))]
    assert "here" in listed[0]["title"]
    assert listed[0]["updatedAt"]
    assert (await editor.call("session/list", cwd=str(tmp_path)))["sessions"] == []


async def test_a_long_list_comes_in_pages(bench: Bench, open_editor: StartEditor) -> None:
    first = bench.mock([{"say": "x"}], "--json").stdout
    id = json.loads(first.splitlines()[0])["session"]
    for _ in range(54):
        bench.run("sessions", "fork", id)
    editor = await open_editor()
    page = await editor.call("session/list")
    rest = await editor.call("session/list", cursor=page["nextCursor"])
    found = {one["sessionId"] for one in (*page["sessions"], *rest["sessions"])}
    assert (len(page["sessions"]), len(found), "nextCursor" in rest) == (50, 55, False)


async def test_a_closed_session_is_kept_and_a_deleted_one_is_gone(
    editor: Editor, project: Path
) -> None:
    session = await editor.new(project)
    await editor.prompt(session, {"say": "here"})
    assert await editor.call("session/close", sessionId=session) == {}
    with pytest.raises(RpcRefused, match="not open here"):
        await editor.prompt(session, {"say": "x"})
    assert len((await editor.call("session/list"))["sessions"]) == 1
    assert await editor.call("session/delete", sessionId=session) == {}
    assert (await editor.call("session/list"))["sessions"] == []


async def test_closing_a_session_cancels_its_turn(editor: Editor, project: Path) -> None:
    session = await editor.new(project)
    prompt = editor.send(
        "session/prompt", sessionId=session, prompt=[{"type": "text", "text": json.dumps(HANG)}]
    )
    await editor.until_update("agent_message_chunk")
    await editor.call("session/close", sessionId=session)
    assert (await editor.answer(prompt))["stopReason"] == "cancelled"


async def test_a_session_without_a_prompt_leaves_nothing(
    open_editor: StartEditor, bench: Bench
) -> None:
    editor = await open_editor()
    await editor.new(bench.project)
    assert await editor.leave() == 0
    assert json.loads(bench.run("sessions", "list", "--json").stdout) == []


async def test_the_agent_of_a_new_session_loads_before_the_first_prompt(
    open_editor: StartEditor, bench: Bench
) -> None:
    editor = await open_editor()
    await editor.new(bench.project)

    def loaded() -> bool:
        table = process_table.snapshot()
        below = process_table.descendants([editor.process.pid], table)
        return any(b"agents/mock/child.py" in _command(pid) for pid in below)

    await asyncio.to_thread(wait_until, loaded)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_pictures_texts_and_links_reach_the_agent(editor: Editor, project: Path) -> None:
    session = await editor.new(project)
    linked = project / "linked file.txt"
    linked.write_text("x")
    data = base64.b64encode(DOT).decode()
    steps = json.dumps([{"say": "{files} | {prompt}"}])
    await editor.call(
        "session/prompt",
        sessionId=session,
        prompt=[
            {"type": "text", "text": steps},
            {"type": "image", "mimeType": "image/png", "data": data},
            {"type": "resource_link", "name": "linked", "uri": linked.as_uri() + "#L3:7"},
            {
                "type": "resource",
                "resource": {
                    "uri": "file:///x/notes.md",
                    "mimeType": "text/markdown",
                    "text": "hi",
                },
            },
        ],
    )
    said = editor.said()
    assert f"image-1.png ({len(DOT)} bytes" in said
    assert "notes.md (2 bytes" in said
    assert f"@{linked} (lines 3-7)" in said


async def test_a_linked_file_with_unsaved_changes_is_attached_as_the_editor_shows_it(
    open_editor: StartEditor, project: Path
) -> None:
    editor = await open_editor(fs={"readTextFile": True})
    (project / "saved.txt").write_text("same\n")
    (project / "changed.txt").write_text("old\n")
    buffers = {"saved.txt": "same\n", "changed.txt": "new and longer\n"}
    editor.handlers["fs/read_text_file"] = lambda params: {
        "content": buffers[Path(params["path"]).name]
    }
    session = await editor.new(project)
    links = [
        {"type": "resource_link", "name": name, "uri": (project / name).as_uri()}
        for name in buffers
    ]
    steps = json.dumps([{"say": "{files}"}])
    await editor.call(
        "session/prompt", sessionId=session, prompt=[{"type": "text", "text": steps}, *links]
    )
    assert editor.said().startswith("changed.txt (not saved yet) (15 bytes")
    assert "saved.txt (" not in editor.said().replace("changed.txt", "")


async def test_the_editors_mcp_servers_are_given_to_the_agent(
    open_editor: StartEditor, project: Path
) -> None:
    editor = await open_editor("--approve", "auto")
    server = {"name": "birds", "command": sys.executable, "args": [str(SERVER)], "env": []}
    told = await editor.call("session/new", cwd=str(project), mcpServers=[server])
    await editor.prompt(
        told["sessionId"],
        {"call": "birds.shout", "input": {"text": "rara avis"}},
        {"say": "{result}"},
    )
    assert "RARA AVIS" in editor.said()
    [call] = editor.updates("tool_call")
    assert call["name"] == "mcp__birds__shout"


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
        ("session/new", {"mcpServers": []}, -32602),
        ("session/new", {"cwd": "/no/such/folder", "mcpServers": []}, -32602),
        ("session/load", {"sessionId": "0000000000", "cwd": "/", "mcpServers": []}, -32002),
        ("session/prompt", {"sessionId": "0000000000", "prompt": []}, -32002),
        ("session/prompt", {"sessionId": "0000000000"}, -32602),
        ("session/set_mode", {"sessionId": "0000000000", "modeId": "plan"}, -32002),
        ("session/delete", {"sessionId": "last"}, -32002),
        ("session/list", {"cursor": "x"}, -32602),
        ("authenticate", {"methodId": "nobody"}, -32602),
        ("session/unheard_of", {}, -32601),
    ],
)
async def test_a_wrong_request_is_answered_with_its_error(
    editor: Editor, method: str, params: dict[str, Any], code: int
) -> None:
    with pytest.raises(RpcRefused) as refused:
        await editor.call(method, **params)
    assert refused.value.error["code"] == code


@pytest.mark.parametrize(
    ("id", "value"),
    [("mode", "architect"), ("approve", "everything"), ("colour", "blue"), ("agent", "nobody")],
)
async def test_a_setting_that_does_not_exist_is_refused(
    editor: Editor, project: Path, id: str, value: str
) -> None:
    session = await editor.new(project)
    with pytest.raises(RpcRefused) as refused:
        await editor.call("session/set_config_option", sessionId=session, configId=id, value=value)
    assert refused.value.error["code"] == -32602
    assert refused.value.error["data"]["hint"]


async def test_a_session_works_with_the_config_of_its_own_folder(
    bench: Bench, open_editor: StartEditor, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    bench.run("config", "set", "approve", "edits", "--project")
    editor = await open_editor()
    here = await editor.call("session/new", cwd=str(bench.project), mcpServers=[])
    there = await editor.call("session/new", cwd=str(other), mcpServers=[])
    presets = [option(one["configOptions"], "approve")["currentValue"] for one in (here, there)]
    assert presets == ["edits", "ask"]
