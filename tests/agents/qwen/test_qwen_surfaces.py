"""How Qwen Code is started, and what no recording of it contains."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.acp.acp_far_side import Talk, opened
from tillerman.agents.qwen.agent import agent
from tillerman.agents.qwen.dialect import QwenDialect
from tillerman.agents.qwen.json_wire import QwenStreamWire
from tillerman.agents.qwen.launch import GATE, ROW
from tillerman.core.agent import Exit, File, Prompt, SecretFile
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    Answer,
    Event,
    MessageChunk,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    TurnEnded,
    Unrecognized,
)
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Launch, WireReply
from tillerman.testing.test_host import PlainHost

PROJ = Path("/proj")


def acp(**spec: Any) -> Launch:
    return agent.program(session_spec(cwd=PROJ, **spec))


def test_a_plain_session_asks_before_it_acts_whatever_its_default() -> None:
    launch = acp()
    assert launch.argv == ["qwen", "--acp", "--approval-mode=default"]
    assert launch.env == {
        "QWEN_CODE_NO_RELAUNCH": "true",
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": GATE,
    }


def test_every_option_is_on_the_command_line() -> None:
    assert acp(
        mode="plan",
        model="m",
        system="-v: be brief",
        folders=(Path("/a"),),
        allowed_tools=("read_file",),
        denied_tools=("web_fetch",),
    ).argv[2:] == [
        "--approval-mode=plan",
        "--model=m",
        "--append-system-prompt=-v: be brief",
        "--include-directories=/a",
        "--allowed-tools=read_file",
        "--exclude-tools=web_fetch",
    ]


def test_in_stream_mode_servers_are_in_a_file_only_the_user_can_read() -> None:
    spec = session_spec(cwd=PROJ, resume="s1", servers={"s": {"command": "x"}})
    assert QwenStreamWire(spec).launch(spec, None).argv == [
        "qwen",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--include-partial-messages",
        "--approval-mode=default",
        "--resume=s1",
        SecretFile("--mcp-config=", b'{"mcpServers": {"s": {"command": "x"}}}'),
    ]


def test_the_stream_protocol_supports_no_files() -> None:
    wire = QwenStreamWire(session_spec(cwd=PROJ))
    with pytest.raises(Unsupported, match="attachments"):
        wire.prompt(Prompt("see", (File("a.png", "image/png", b"png"),)))


# -- over ACP ------------------------------------------------------------------------------------


def talk() -> Talk:
    return opened(row=ROW, dialect=QwenDialect)


def test_a_question_is_one_and_its_answer_goes_beside_the_outcome() -> None:
    qwen = talk()
    question = {"question": "Which colour?", "header": "Colour", "options": [{"label": "Blue"}]}
    call = {"toolCallId": "c", "kind": "think", "rawInput": {"questions": [question]}}
    *_, asked = qwen.request_permission(0, call, "allow_once", "reject_once")
    assert isinstance(asked, QuestionAsked)

    answer = Answer("allow", answers={"Which colour?": "Blue", "Which size?": "Big"})
    [sent] = qwen.wire.answer(asked.request_id, answer)

    outcome = {"outcome": "selected", "optionId": "the-allow_once"}
    assert sent["result"] == {"outcome": outcome, "answers": {"0": "Blue"}}


def test_a_question_that_is_not_answered_is_cancelled() -> None:
    qwen = talk()
    call = {"toolCallId": "c", "rawInput": {"questions": [{"question": "Which?"}]}}
    *_, asked = qwen.request_permission(0, call)
    assert isinstance(asked, QuestionAsked)
    [sent] = qwen.wire.answer(asked.request_id, Answer("deny"))
    assert sent["result"] == {"outcome": {"outcome": "cancelled"}}


def test_an_option_that_would_store_a_rule_is_not_chosen_to_allow() -> None:
    qwen = talk()
    call = {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "touch x"}}
    *_, asked = qwen.request_permission(
        0, call, "allow_always", "allow_always", "allow_once", "reject_once"
    )
    assert isinstance(asked, PermissionRequested)
    [sent] = qwen.wire.answer(asked.request_id, Answer("allow"))
    assert sent["result"]["outcome"]["optionId"] == "the-allow_once"


def test_another_model_in_mid_session_is_refused() -> None:
    with pytest.raises(Unsupported, match="changing the model during a session"):
        list(talk().wire.configure("other", None))


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("$runtime|openai|gpt-5(openai)", "gpt-5"),
        ("$runtime|openai|a(b)|c(openai)", "a(b)|c"),
        ("coder-model(qwen-oauth)", "coder-model(qwen-oauth)"),
    ],
)
def test_a_model_chosen_by_variables_has_its_own_name(id: str, name: str) -> None:
    assert QwenDialect(ROW).model(id) == name


# -- over the stream -----------------------------------------------------------------------------


def stream(*lines: dict[str, Any], version: str = "0.15.10") -> tuple[QwenStreamWire, list[Any]]:
    wire = QwenStreamWire(session_spec(cwd=PROJ))
    list(wire.prompt(Prompt("go")))
    init = {"type": "system", "subtype": "init", "session_id": "s", "qwen_code_version": version}
    received: list[Event | WireReply] = []
    for line in (init, *lines):
        received += wire.decode(json.dumps(line).encode())
    return wire, received[1:]


def delta(text: str) -> dict[str, Any]:
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": event}


def result(**more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, **more}


def words(received: list[Any]) -> str:
    return "".join(one.text for one in received if isinstance(one, MessageChunk))


def test_text_that_only_resembles_an_error_is_text() -> None:
    _, received = stream(delta("[API Error: "), delta("is what it says]"), result())
    assert words(received) == "[API Error: is what it says]"
    assert received[-1] == TurnEnded(reason="completed")


def test_an_explicit_failure_flag_of_a_version_is_used() -> None:
    _, received = stream(delta("[API Error: 401 is text.]"), result(), version="0.24.4")
    assert words(received) == "[API Error: 401 is text.]"
    assert received[-1] == TurnEnded(reason="completed")


def can_use(request_id: str = "r1") -> dict[str, Any]:
    request = {
        "subtype": "can_use_tool",
        "tool_name": "run_shell_command",
        "tool_use_id": "c1",
        "input": {"command": "ls"},
    }
    return {"type": "control_request", "request_id": request_id, "request": request}


def test_an_allowed_call_with_changed_input_is_denied_with_the_change() -> None:
    wire, received = stream(can_use())
    [asked] = received
    assert isinstance(asked, PermissionRequested)
    [sent] = wire.answer("r1", Answer("allow", input={"command": "ls -l"}))
    assert sent["response"]["response"] == {
        "behavior": "deny",
        "message": "The user wants this call with different input: {'command': 'ls -l'}",
    }


def test_a_request_that_was_not_answered_in_time_is_withdrawn() -> None:
    block = {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": "timeout"}
    call = {"type": "tool_use", "id": "c1", "name": "run_shell_command", "input": {}}
    wire, received = stream(
        {"type": "assistant", "message": {"content": [call]}},
        can_use(),
        {"type": "user", "message": {"content": [block]}},
    )
    withdrawn = RequestAnswered(request_id="r1", answer=Answer("deny"), by="withdrawn")
    assert withdrawn in received
    assert wire.answer("r1", Answer("allow")) == []


def test_an_unknown_request_is_refused_and_stored() -> None:
    request = {"type": "control_request", "request_id": "r", "request": {"subtype": "dance"}}
    _, (reply, stored) = stream(request)
    assert reply.message["response"]["subtype"] == "error"
    assert isinstance(stored, Unrecognized)


@pytest.mark.parametrize(("code", "kind"), [(53, "turn_limit"), (1, None)])
def test_an_exit_at_a_limit_is_explained(code: int, kind: str | None) -> None:
    wire = QwenStreamWire(session_spec(cwd=PROJ))
    why = wire.explain(Exit(code, None), "Reached max session turns\n")
    assert (why.kind if why else None) == kind


@pytest.mark.parametrize(
    ("version", "word"), [("0.5.0", "--output-format=stream-json"), ("0.24.4", "--acp")]
)
async def test_a_version_without_acp_uses_its_stream_protocol(
    tmp_path: Path, version: str, word: str
) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"version": version}))
    program = tmp_path / "bin" / "qwen"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$HOME/draft" && mv "$HOME/draft" '
                       '"$HOME/words"; cat > /dev/null\n')  # fmt: skip
    program.chmod(0o755)
    spec = session_spec(cwd=tmp_path, options={"binary": str(program)})

    async with PlainHost.open(tmp_path) as host:
        conversation = await agent.open(spec, host)
        await conversation.prompt(Prompt("go"))
        async with asyncio.timeout(10):
            while not (tmp_path / "words").exists():  # noqa: ASYNC110 - a program writes it
                await asyncio.sleep(0.01)
        await conversation.close()

    assert word in (tmp_path / "words").read_text().splitlines()
