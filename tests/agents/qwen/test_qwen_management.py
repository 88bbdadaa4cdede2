"""Version, models and sessions of Qwen Code, from its files and recorded output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tillerman.agents.qwen.account import account
from tillerman.agents.qwen.agent import agent
from tillerman.agents.qwen.launch import home as home_of
from tillerman.agents.qwen.models import listed
from tillerman.agents.qwen.stored_sessions import history, sessions, switched
from tillerman.core.agent_admin import Account, Model, NativeSession
from tillerman.core.capabilities import capabilities
from tillerman.core.events import (
    Diff,
    MessageChunk,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UserMessage,
)

HINT = "set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL, or run `qwen` and use /auth"
ID = "ff0a75ca-72a4-4eff-9498-4902449756d1"


def record(kind: str, at: str, parts: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    message = {"message": {"parts": parts}} if parts else {}
    return {"uuid": f"{kind}-{at}", "type": kind, "timestamp": at, **message, **more}


WRITE = {"id": "c1", "name": "write_file", "args": {"file_path": "/proj/a.txt", "content": "hi\n"}}
SHELL = {"id": "c2", "name": "run_shell_command", "args": {"command": "exit 3"}}
CHAT = [  # as 0.24.4 wrote it, shortened
    record("user", "1", [{"text": "please write"}]),
    record("system", "2", subtype="ui_telemetry"),
    record("assistant", "3", [{"text": "Hm.", "thought": True}, {"text": "Writing."},
                              {"functionCall": WRITE}]),
    record("tool_result", "4", [{"functionResponse": {"response": {"output": "Created."}}}],
           toolCallResult={"callId": "c1", "status": "success", "resultDisplay": {
               "fileDiff": "@@ -0,0 +1,1 @@\n+hi\n", "filePath": "/proj/a.txt"}}),
    record("assistant", "5", [{"functionCall": SHELL}]),
    record("tool_result", "6", [{"functionResponse": {"response": {"output": "Exit Code: 3"}}}],
           toolCallResult={"callId": "c2", "status": "error"}),
    record("assistant", "7", [{"text": "Done."}]),
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    chats = tmp_path / ".qwen" / "projects" / "-proj" / "chats"
    chats.mkdir(parents=True)
    (chats / f"{ID}.jsonl").write_text("\n".join(json.dumps(line) for line in CHAT))
    (chats / "empty.jsonl").write_text("")
    return tmp_path / ".qwen"


def variables(**given: str) -> Callable[[str], str | None]:
    return given.get


def test_it_reports_all_its_capabilities() -> None:
    reported = {
        "install", "auth", "models", "sessions", "history", "servers", "server-add",
        "server-switch",
    }  # fmt: skip
    assert capabilities(agent) == agent.info.can | reported
    assert agent.info.sign_in == HINT


def test_its_folder_may_be_elsewhere() -> None:
    assert home_of(variables(HOME="/home/u")) == Path("/home/u/.qwen")
    assert home_of(variables(HOME="/home/u", QWEN_HOME="/q")) == Path("/q")


def test_sessions_with_messages_are_listed(home: Path) -> None:
    assert sessions(home, Path("/proj")) == [NativeSession(ID, "please write", "7", "/proj")]
    assert sessions(home, Path("/elsewhere")) == []


def test_a_sessions_history_is_read_in_order(home: Path) -> None:
    [session] = sessions(home, Path("/proj"))
    assert history(home, session) == [
        UserMessage(text="please write", how="imported"),
        ThoughtChunk(message_id="assistant-3:thoughts", text="Hm."),
        MessageChunk(message_id="assistant-3", text="Writing."),
        ToolStarted(
            call_id="c1",
            tool="Write",
            name="write_file",
            title="Write `a.txt`",
            input={"file_path": "/proj/a.txt", "content": "hi\n"},
            paths=("/proj/a.txt",),
        ),
        ToolFinished(
            call_id="c1",
            outcome="completed",
            content=(Diff("/proj/a.txt", patch="@@ -0,0 +1,1 @@\n+hi\n"),),
        ),
        ToolStarted(
            call_id="c2",
            tool="Bash",
            name="run_shell_command",
            title="Bash `exit 3`",
            input={"command": "exit 3"},
        ),
        ToolFinished(call_id="c2", outcome="failed", content=(Text("Exit Code: 3"),)),
        MessageChunk(message_id="assistant-7", text="Done."),
    ]


@pytest.mark.parametrize(
    ("settings", "given", "told"),
    [
        ({}, {}, Account(signed_in=False, hint=HINT)),
        (
            {},
            {"OPENAI_API_KEY": "k"},
            Account(signed_in=True, method="variable", who="OPENAI_API_KEY"),
        ),
        (
            {"env": {"DASHSCOPE_API_KEY": "k"}},
            {},
            Account(signed_in=True, method="api key"),
        ),
        (
            {"security": {"auth": {"selectedType": "anthropic"}}},
            {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"},
            Account(signed_in=True, method="variable", who="ANTHROPIC_API_KEY"),
        ),
        (
            {"security": {"auth": {"selectedType": "qwen-oauth"}}},
            {"OPENAI_API_KEY": "k"},
            Account(signed_in=False, hint=HINT),
        ),
    ],
)
def test_who_is_signed_in(
    tmp_path: Path, settings: dict[str, Any], given: dict[str, str], told: Account
) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert account(tmp_path, variables(**given)) == told


def test_a_browser_sign_in_has_its_file(tmp_path: Path) -> None:
    settings = {"security": {"auth": {"selectedType": "qwen-oauth"}}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    (tmp_path / "oauth_creds.json").write_text("{}")
    assert account(tmp_path, variables()) == Account(signed_in=True, method="browser")


def test_the_models_have_the_names_that_its_flag_accepts() -> None:
    models = [
        {"modelId": "coder-model(qwen-oauth)", "name": "coder-model",
         "description": "Qwen 3.6 Plus", "_meta": {"contextLimit": 1000000}},
        {"modelId": "$runtime|openai|gpt-5(openai)", "name": "gpt-5", "description": None},
    ]  # fmt: skip
    current = "$runtime|openai|gpt-5(openai)"
    assert listed({"models": {"currentModelId": current, "availableModels": models}}) == [
        Model("coder-model", "Qwen 3.6 Plus", context=1000000),
        Model("gpt-5", "gpt-5", default=True),
    ]
    assert listed(None) == []


def test_a_server_is_switched_off_and_on() -> None:
    off = switched({"mcp": {"allowed": ["a"], "excluded": ["b"]}}, "a", on=False)
    assert off == {"mcp": {"allowed": ["a"], "excluded": ["b", "a"]}}
    assert switched(off, "b", on=True) == {"mcp": {"allowed": ["a"], "excluded": ["a"]}}
