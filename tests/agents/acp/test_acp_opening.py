"""From initialize to the first prompt, with all errors on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.acp.acp_far_side import HELLO, OPTIONS, ROW, SESSION, SPEC, Talk, opened
from tillerman.core.agent import File, Mode, Prompt
from tillerman.core.errors import AgentError, Unsupported
from tillerman.core.events import (
    AgentReady,
    MessageChunk,
    Notice,
    SettingsChanged,
    TurnEnded,
    encode,
)
from tillerman.core.failure import Failure
from tillerman.core.session_options import with_options


def _can(**more: Any) -> dict[str, Any]:
    return {**HELLO, "agentCapabilities": {**HELLO["agentCapabilities"], **more}}  # type: ignore[dict-item]


def test_the_handshake_declines_files_and_terminals() -> None:
    [hello] = Talk().sent
    assert hello["method"] == "initialize"
    assert hello["params"]["protocolVersion"] == 1
    assert hello["params"]["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }


def test_a_prompt_waits_for_the_session() -> None:
    talk = Talk()
    talk.prompt("hello")
    talk.answers(HELLO)
    assert talk.sent_methods == ["initialize", "session/new"]
    assert talk.answers(SESSION) == [AgentReady(native_id="s1", model="small", version="1.2.3")]
    prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "hello"}]}
    assert talk.sent[-1]["params"] == prompt
    assert talk.answers({"stopReason": "end_turn"}) == [TurnEnded(reason="completed")]


def test_an_open_session_accepts_a_prompt_at_once() -> None:
    talk = Talk()
    talk.answers(HELLO)
    talk.answers(SESSION)
    talk.prompt()
    assert talk.sent_methods == ["initialize", "session/new", "session/prompt"]


def test_model_effort_and_mode_are_set_by_the_category_of_their_option() -> None:
    talk = Talk(replace(SPEC, model="Big One", effort="high", mode="plan"))
    talk.prompt()
    talk.answers(HELLO)
    for _ in range(4):
        talk.answers(SESSION)
    params = [one["params"] for one in talk.sent[2:5]]
    assert params == [
        {"sessionId": "s1", "configId": "which", "value": "big"},
        {"sessionId": "s1", "configId": "hard", "value": "high"},
        {"sessionId": "s1", "configId": "m", "value": "plan"},
    ]
    assert talk.sent_methods[-1] == "session/prompt"


def test_an_older_agent_gets_the_older_methods() -> None:
    talk = Talk(replace(SPEC, model="big", mode="plan"))
    talk.prompt()
    talk.answers(HELLO)
    modes = {"currentModeId": "x#code", "availableModes": [{"id": "x#code"}, {"id": "x#plan"}]}
    models = {"currentModelId": "small", "availableModels": [{"modelId": "big", "name": "Big"}]}
    talk.answers({"sessionId": "s1", "modes": modes, "models": models})
    talk.answers({})
    talk.answers({})
    assert [(one["method"], one["params"]) for one in talk.sent[2:4]] == [
        ("session/set_model", {"sessionId": "s1", "modelId": "big"}),
        ("session/set_mode", {"sessionId": "s1", "modeId": "x#plan"}),
    ]
    assert talk.received == [AgentReady(native_id="s1", model="big", version="1.2.3")]


@pytest.mark.parametrize(
    ("asked", "what"),
    [({"model": "big"}, "model"), ({"mode": "plan"}, "mode"), ({"effort": "high"}, "effort")],
)
def test_an_option_the_session_does_not_offer_fails_the_turn(
    asked: dict[str, Any], what: str
) -> None:
    talk = Talk(with_options(SPEC, **asked))
    talk.prompt()
    talk.answers(HELLO)
    assert talk.answers({"sessionId": "s1"}) == [
        _failed(f"Acme does not support choosing a {what}")
    ]


def test_a_refused_model_fails_the_turn_and_is_retried_with_the_next() -> None:
    talk = Talk(replace(SPEC, model="nope"))
    talk.prompt()
    talk.answers(HELLO)
    talk.answers(SESSION)
    error = {"code": -32603, "message": "Internal error", "data": {"details": "no such thing"}}
    [end] = talk.answers(error=error)
    failure = Failure(
        kind="model_not_found",
        message="model 'nope' was refused: no such thing",
        hint="choose another model with -m",
    )
    assert end == TurnEnded(reason="failed", failure=failure)
    talk.prompt()
    assert talk.sent_methods[2:] == ["session/set_config_option"] * 2


def test_missing_sign_in_fails_the_turn_and_the_next_prompt_retries() -> None:
    talk = Talk(row=replace(ROW, login="run `acme login`"))
    talk.prompt()
    talk.answers(HELLO)
    [end] = talk.answers(error={"code": -32000, "message": "Authentication required"})
    failure = Failure(
        kind="not_signed_in", message="Authentication required", hint="run `acme login`"
    )
    assert end == TurnEnded(reason="failed", failure=failure)
    talk.prompt()
    assert talk.sent_methods == ["initialize", "session/new", "session/new"]
    talk.answers(SESSION)
    assert talk.sent_methods[-1] == "session/prompt"


def test_a_failure_before_any_prompt_is_reported_by_the_first_turn() -> None:
    talk = Talk()
    assert talk.answers(error={"code": -32603, "message": "out of order"}) == []
    talk.prompt()
    [end] = talk.answers(error={"code": -32603, "message": "out of order"})
    assert end == TurnEnded(
        reason="failed", failure=Failure(kind="agent_failed", message="out of order")
    )


@pytest.mark.parametrize("result", [None, [], "s1", {}, {"sessionId": 7}, {"sessionId": ""}])
def test_a_session_without_an_id_fails_the_turn(result: Any) -> None:
    talk = Talk()
    talk.prompt()
    talk.answers(HELLO)
    why = "the agent opened a session without an id"
    assert talk.answers(result) == [
        TurnEnded(reason="failed", failure=Failure(kind="agent_failed", message=why))
    ]


def test_another_version_of_the_protocol_fails_the_turn() -> None:
    talk = Talk()
    talk.prompt()
    [end] = talk.answers({**HELLO, "protocolVersion": 2})
    assert isinstance(end, TurnEnded)
    assert end.failure
    assert end.failure.message == ("the agent uses ACP version 2, but tillerman supports 1")


@pytest.mark.parametrize(
    ("sessions", "load", "fork", "method"),
    [
        ({"resume": {}, "fork": {}}, True, False, "session/resume"),
        ({"resume": {}, "fork": {}}, True, True, "session/fork"),
        ({}, True, False, "session/load"),
        ({"resume": None}, True, False, "session/load"),
    ],
)
def test_the_best_resume_method_of_the_agent_is_used(
    sessions: dict[str, Any], load: bool, fork: bool, method: str
) -> None:
    talk = Talk(replace(SPEC, resume="old", fork=fork))
    talk.answers(_can(loadSession=load, sessionCapabilities=sessions))
    assert talk.sent_methods[-1] == method
    params = {"sessionId": "old", "cwd": "/proj", "mcpServers": []}
    assert talk.sent[-1]["params"] == params


@pytest.mark.parametrize("fork", [True, False])
def test_no_resume_method_fails_the_turn(fork: bool) -> None:
    talk = Talk(replace(SPEC, resume="old", fork=fork))
    talk.prompt()
    what = "forking a conversation" if fork else "resuming a conversation"
    [end] = talk.answers(_can(loadSession=False, sessionCapabilities={}))
    assert end == _failed(f"Acme does not support {what}")


def test_a_prompt_that_needs_a_missing_capability_is_refused_by_the_call() -> None:
    talk = Talk(replace(SPEC, folders=(Path("/more"),)))
    assert talk.answers(_can(sessionCapabilities={})) == []
    for _ in range(2):
        with pytest.raises(AgentError, match="Acme does not support additional folders"):
            talk.prompt()
    assert list(talk.wire.cancel()) == []
    talk = Talk(replace(SPEC, model="big"))
    talk.answers(HELLO)
    talk.answers({"sessionId": "s1"})
    with pytest.raises(AgentError, match="Acme does not support choosing a model"):
        talk.prompt()


def test_text_before_the_prompt_was_sent_is_not_part_of_its_turn() -> None:
    talk = Talk(row=replace(ROW, turn_over="acme/over"))
    talk.prompt()
    talk.answers(HELLO)
    assert talk.send_text("welcome") == [Notice(level="info", kind="stray", text="welcome")]
    talk.answers(SESSION)
    assert talk.send_text("hello") == [MessageChunk(message_id="m1", text="hello")]


def test_a_setting_without_a_choice_is_reported_with_the_next_line() -> None:
    talk = Talk()
    talk.answers(HELLO)
    talk.answers({"sessionId": "s1"})
    assert list(talk.wire.configure("big", None)) == []
    notice = Notice(level="error", kind="settings", text="Acme does not support choosing a model")
    assert talk.send_update("session_info_update") == [notice]


def test_a_resumed_session_keeps_its_id_and_a_copy_has_its_own() -> None:
    talk = Talk(replace(SPEC, resume="old"))
    talk.answers(HELLO)
    assert talk.answers({"configOptions": OPTIONS}) == [
        AgentReady(native_id="old", model="small", version="1.2.3")
    ]
    talk = Talk(replace(SPEC, resume="old", fork=True))
    talk.answers(HELLO)
    [ready] = talk.answers({"sessionId": "new"})
    assert isinstance(ready, AgentReady)
    assert ready.native_id == "new"


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32002, "message": "Resource not found"},
        {"code": -32603, "message": "Internal error", "data": {"details": "Session not found: x"}},
        {"code": -32602, "message": 'Session "x" not found'},
        {"code": -32603, "message": "service failure"},
    ],
)
def test_a_lost_conversation_is_reported(error: dict[str, Any]) -> None:
    talk = Talk(replace(SPEC, resume="old"))
    talk.prompt()
    talk.answers(HELLO)
    [end] = talk.answers(error=error)
    assert isinstance(end, TurnEnded)
    assert end.failure
    assert end.failure.hint == ("the agent no longer has this conversation: start a new session")


def _load(replays: str) -> Talk:
    row = replace(ROW, replays=replays)
    talk = Talk(replace(SPEC, resume="s1"), row)
    talk.answers(_can(sessionCapabilities={}))
    return talk


def _history(talk: Talk) -> None:
    talk.send_update("user_message_chunk", content={"type": "text", "text": "earlier"})
    talk.send_text("long ago")
    talk.send_update("tool_call", toolCallId="c1", title="ls", kind="execute", status="completed")
    talk.send_update("plan", entries=[{"content": "done", "status": "completed"}])


def test_history_before_the_response_is_skipped() -> None:
    talk = _load("before")
    talk.prompt()
    _history(talk)
    talk.answers(SESSION)
    assert talk.received == [AgentReady(native_id="s1", model="small", version="1.2.3")]
    assert talk.sent_methods[-1] == "session/prompt"


def test_history_after_the_response_is_skipped_up_to_the_commands() -> None:
    talk = _load("after")
    talk.prompt()
    talk.answers(SESSION)
    _history(talk)
    assert talk.received == []
    assert talk.sent_methods[-1] == "session/load"
    talk.send_update("available_commands_update", availableCommands=[{"name": "init"}])
    assert talk.received == [
        SettingsChanged(commands=("init",)),
        AgentReady(native_id="s1", model="small", version="1.2.3"),
    ]
    assert talk.sent_methods[-1] == "session/prompt"


def test_a_cancel_while_it_opens_ends_the_turn_without_a_prompt() -> None:
    talk = Talk()
    talk.prompt()
    assert list(talk.wire.cancel()) == []
    talk.answers(HELLO)
    assert talk.answers(SESSION)[-1] == TurnEnded(reason="cancelled")
    assert talk.sent_methods == ["initialize", "session/new"]
    talk.prompt()
    assert talk.sent_methods[-1] == "session/prompt"


def test_mcp_servers_go_with_the_session() -> None:
    servers = {
        "files": {"command": "serve", "args": ["-x"], "env": {"KEY": "v"}},
        "web": {"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}},
    }
    talk = Talk(with_options(SPEC, servers=servers))
    talk.answers(HELLO)
    assert talk.sent[-1]["params"]["mcpServers"] == [
        {"name": "files", "command": "serve", "args": ["-x"],
         "env": [{"name": "KEY", "value": "v"}]},
        {"type": "http", "name": "web", "url": "https://h/mcp",
         "headers": [{"name": "A", "value": "b"}]},
    ]  # fmt: skip


def test_a_server_transport_the_agent_does_not_support_fails_the_turn() -> None:
    talk = Talk(with_options(SPEC, servers={"old": {"type": "sse", "url": "https://h"}}))
    talk.prompt()
    assert talk.answers(HELLO) == [_failed("Acme does not support MCP servers over sse")]


def test_extra_folders_go_with_the_session_or_fail_the_turn() -> None:
    spec = replace(SPEC, folders=(Path("/more"),))
    talk = Talk(spec)
    talk.prompt()
    talk.answers(HELLO)
    assert talk.sent[-1]["params"]["additionalDirectories"] == ["/more"]
    talk = Talk(spec)
    talk.prompt()
    assert talk.answers(_can(sessionCapabilities={})) == [
        _failed("Acme does not support additional folders")
    ]


def test_a_system_prompt_is_added_to_the_first_prompt_only() -> None:
    talk = opened(system="Be brief.")
    first = talk.sent[-1]["params"]["prompt"]
    assert [block["text"] for block in first] == [
        "<instructions>\nBe brief.\n</instructions>",
        "go",
    ]
    talk.answers({"stopReason": "end_turn"})
    talk.prompt("more")
    assert talk.sent[-1]["params"]["prompt"] == [{"type": "text", "text": "more"}]


def test_a_system_prompt_goes_into_the_field_named_by_the_row() -> None:
    talk = opened(row=replace(ROW, system=("systemPrompt", "append")), system="Be brief.")
    assert talk.sent[1]["params"]["_meta"] == {"systemPrompt": {"append": "Be brief."}}
    assert talk.sent[-1]["params"]["prompt"] == [{"type": "text", "text": "go"}]


def test_row_metadata_is_sent_beside_the_system_prompt() -> None:
    row = replace(ROW, meta={"acme": {"asks": "always"}}, system=("systemPrompt",))
    assert opened(row=row).sent[1]["params"]["_meta"] == {"acme": {"asks": "always"}}
    reported = opened(row=row, system="Be brief.").sent[1]["params"]["_meta"]
    assert reported == {"acme": {"asks": "always"}, "systemPrompt": "Be brief."}


def test_a_system_prompt_is_sent_with_the_session_if_the_agent_has_a_field_for_it() -> None:
    talk = Talk(replace(SPEC, system="Be brief."))
    talk.prompt()
    talk.answers(_can(sessionCapabilities={"systemPrompt": {}}))
    content = [{"type": "text", "text": "Be brief."}]
    assert talk.sent[-1]["params"]["systemPrompt"] == {"mode": "append", "content": content}
    talk.answers(SESSION)
    assert talk.sent[-1]["params"]["prompt"] == [{"type": "text", "text": "go"}]


@pytest.mark.parametrize(
    ("modes", "sent"),
    [
        ({"agent": "plan"}, ["plan"]),
        ({"agent": ("yonder", "plan", "code")}, ["plan"]),
        ({"agent": "code"}, []),  # it is there already
        ({"agent": "yonder"}, []),  # of another version
        ({}, []),
    ],
)
def test_the_mode_that_a_row_wants_is_set_where_it_is_offered(
    modes: dict[Mode, Any], sent: list[str]
) -> None:
    talk = opened(row=replace(ROW, modes=modes))
    set_to = [
        one["params"]["value"] for one in talk.sent if one["method"].startswith("session/set")
    ]
    assert set_to == sent
    assert talk.sent_methods[-1] == "session/prompt"


def test_a_setting_that_already_holds_is_not_sent() -> None:
    talk = opened(model="small", effort="low")
    assert talk.sent_methods == ["initialize", "session/new", "session/prompt"]


PNG = File("p.png", "image/png", b"png")
NOTES = File("my notes.txt", "text/plain", b"words")


def test_files_are_images_and_resources() -> None:
    talk = opened()
    talk.answers({"stopReason": "end_turn"})
    talk.prompt(Prompt("look", (NOTES,)))
    resource = {"uri": "attachment:my%20notes.txt", "mimeType": "text/plain", "text": "words"}
    assert talk.sent[-1]["params"]["prompt"] == [
        {"type": "resource", "resource": resource},
        {"type": "text", "text": "look"},
    ]


def test_beside_an_image_a_file_is_plain_text() -> None:
    talk = opened()
    talk.answers({"stopReason": "end_turn"})
    talk.prompt(Prompt("look", (PNG, NOTES)))
    assert talk.sent[-1]["params"]["prompt"] == [
        {"type": "image", "mimeType": "image/png", "data": "cG5n"},
        {"type": "text", "text": '<file name="my notes.txt">\nwords\n</file>'},
        {"type": "text", "text": "look"},
    ]


def test_an_image_for_an_agent_without_image_support_fails_the_turn() -> None:
    talk = Talk()
    talk.prompt(Prompt("look", (PNG,)))
    talk.answers(_can(promptCapabilities={}))
    assert talk.answers(SESSION)[-1] == _failed("Acme does not support images in a prompt")


def test_any_other_file_is_refused_by_the_call() -> None:
    with pytest.raises(Unsupported, match=r"attachments of type application/pdf \(a.pdf\)"):
        Talk().prompt(Prompt("look", (File("a.pdf", "application/pdf", b"\xff\x00"),)))


def test_settings_that_change_in_a_session_are_reported_when_confirmed() -> None:
    talk = opened()
    sent = list(talk.wire.configure("big", "plan"))
    talk.sent += sent
    assert [one["params"]["value"] for one in sent] == ["big"]
    assert talk.answers({}) == [SettingsChanged(model="big")]
    assert talk.sent[-1]["params"]["value"] == "plan"
    assert talk.answers({}) == [SettingsChanged(mode="plan")]


@pytest.mark.parametrize(("mode", "back"), [("plan", "code"), ("ask", "code")])
def test_leaving_a_mode_restores_the_initial_mode(mode: Mode, back: str) -> None:
    talk = opened(mode=mode)
    [sent] = talk.wire.configure(None, "agent")
    assert sent["params"] == {"sessionId": "s1", "configId": "m", "value": back}


def test_a_resumed_conversation_left_in_plan_mode_acts_again() -> None:
    talk = Talk(replace(SPEC, resume="s1"))
    talk.answers(HELLO)
    mode, *others = OPTIONS
    talk.answers({"configOptions": [{**mode, "currentValue": "plan"}, *others]})
    assert talk.sent[-1]["params"] == {"sessionId": "s1", "configId": "m", "value": "code"}


def test_a_setting_that_is_refused_in_a_session_is_a_notice() -> None:
    talk = opened()
    talk.sent += talk.wire.configure("big", None)
    assert talk.answers(error={"code": -32602, "message": "no"}) == [
        Notice(level="error", kind="settings", text="model 'big' was refused: no")
    ]


def test_changes_made_by_the_agent_itself_are_reported() -> None:
    talk = opened()
    mode, model, _ = OPTIONS
    changed = [{**mode, "currentValue": "plan"}, {**model, "currentValue": "big"}]
    assert talk.send_update("config_option_update", configOptions=changed) == [
        SettingsChanged(model="big"),
        SettingsChanged(mode="plan"),
    ]
    assert talk.send_update("current_mode_update", currentModeId="code") == [
        SettingsChanged(mode="agent")
    ]
    assert talk.send_update("session_info_update", title="A walk") == [
        SettingsChanged(title="A walk")
    ]


def _failed(message: str) -> TurnEnded:
    hint = "start a session without it, or use another agent"
    return TurnEnded(
        reason="failed", failure=Failure(kind="agent_failed", message=message, hint=hint)
    )


def test_an_effort_that_the_session_does_not_offer_is_refused_with_what_it_offers() -> None:
    talk = Talk(replace(SPEC, effort="hihg"))
    talk.prompt()
    talk.answers(HELLO)
    why = Failure(
        kind="agent_failed",
        message=f"{ROW.title or ROW.name} does not support effort 'hihg'",
        hint="it offers low, high",
    )
    assert talk.answers(SESSION)[-1] == TurnEnded(reason="failed", failure=why)


def test_a_change_of_account_is_visible_to_every_agent() -> None:
    talk = opened()
    fields = {"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"authenticated": True}}
    assert list(talk.wire.decode(encode(fields))) == []


def test_an_agent_that_may_drop_an_image_is_reported() -> None:
    talk = Talk(row=replace(ROW, title="Acme", drops_images=True))
    talk.prompt(Prompt("look", (File("dot.png", "image/png", b"x"), File("a", "text/plain", b"a"))))
    assert talk.answers(HELLO) == [
        Notice(
            level="warning",
            kind="session",
            text="Acme passes images on only to a model that it knows to take them: any other does "
            "not see dot.png",
        )
    ]
    assert [
        one for one in opened(row=replace(ROW, drops_images=True)).received if "Notice" in repr(one)
    ] == []
