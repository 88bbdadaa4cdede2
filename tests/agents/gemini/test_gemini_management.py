"""Version, models and sessions of Gemini CLI, from its files and recorded output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tillerman.agents.gemini.account import account
from tillerman.agents.gemini.agent import agent
from tillerman.agents.gemini.folder_trust import trusted
from tillerman.agents.gemini.models import listed
from tillerman.agents.gemini.stored_sessions import (
    cached,
    history,
    out_of_its_minute,
    sessions,
    switched,
)
from tillerman.core.agent_admin import Account, Model, NativeSession
from tillerman.core.capabilities import capabilities
from tillerman.core.events import (
    Diff,
    MessageChunk,
    Notice,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UserMessage,
)

HINT = "set GEMINI_API_KEY, or run `gemini` and sign in with /auth"
ID = "a385111b-6329-46c8-b00e-d5b0edd43d73"

# As 0.61.0 wrote it, shortened; the message with calls is written again after each.
WRITE = {
    "id": "write_file__1",
    "name": "write_file",
    "args": {"file_path": "/proj/a.txt", "content": "hi\n"},
    "result": [{"functionResponse": {"response": {"output": "Successfully created."}}}],
    "status": "success",
    "resultDisplay": {"fileDiff": "@@ -0,0 +1,1 @@\n+hi\n", "fileName": "a.txt"},
}
SHELL = {
    "id": "run_shell_command__2",
    "name": "run_shell_command",
    "args": {"command": "echo out"},
    "result": [{"functionResponse": {"response": {"output": "Output: out"}}}],
    "status": "error",
    "resultDisplay": "out",
}
CONTEXT = {"id": "c", "type": "user", "content": [{"text": "<session_context>\nThis is …"}]}
CHAT: list[dict[str, Any]] = [
    {"sessionId": ID, "startTime": "2026-11-15T12:13:31.976Z", "lastUpdated": "2026-11-15T12:13Z"},
    {"$set": {"messages": [CONTEXT]}},
    {"id": "u1", "type": "user", "content": [{"text": "please\nwrite it"}]},
    {"id": "g1", "type": "gemini", "content": "Writing.", "thoughts": [{"description": "Hm."}]},
    {"$set": {"lastUpdated": "2026-11-15T12:14:00.000Z"}},
    {"id": "g2", "type": "gemini", "content": "", "toolCalls": [WRITE]},
    {"id": "u2", "type": "user", "content": [{"functionResponse": {"id": "write_file__1"}}]},
    {"id": "g2", "type": "gemini", "content": "", "toolCalls": [WRITE, SHELL]},
    {"id": "g3", "type": "gemini", "content": "Done."},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / ".gemini"
    chats = folder / "tmp" / "proj" / "chats"
    chats.mkdir(parents=True)
    (folder / "projects.json").write_text(json.dumps({"projects": {"/proj": "proj"}}))
    lines = "\n".join(json.dumps(line) for line in CHAT)
    (chats / f"session-2026-11-15T12-13-{ID[:8]}.jsonl").write_text(f"{lines}\nnot json\n")
    (chats / "session-2026-11-15T12-13-c9438c41.jsonl").write_text(
        json.dumps({"sessionId": "c9438c41-x", "lastUpdated": "2026"}) + "\n"
    )
    return folder


def variables(**given: str) -> Callable[[str], str | None]:
    return given.get


def test_it_reports_all_its_capabilities() -> None:
    reported = {
        "install", "auth", "models", "sessions", "history", "servers", "server-add",
        "server-switch",
    }  # fmt: skip
    assert capabilities(agent) == agent.info.can | reported
    assert agent.info.sign_in == HINT


def test_sessions_with_messages_are_listed(home: Path) -> None:
    found = sessions(home, Path("/proj"))
    assert found == [
        NativeSession(ID, "please write it", "2026-11-15T12:14:00.000Z", "/proj"),
    ]
    assert sessions(home, Path("/elsewhere")) == []


def test_a_sessions_history_is_read_in_order_and_each_call_once(home: Path) -> None:
    [session] = sessions(home, Path("/proj"))
    assert history(home, session) == [
        UserMessage(text="please\nwrite it", how="imported"),
        ThoughtChunk(message_id="g1:thoughts", text="Hm."),
        MessageChunk(message_id="g1", text="Writing."),
        ToolStarted(
            call_id="write_file__1",
            tool="Write",
            name="write_file",
            title="Write `a.txt`",
            input={"file_path": "/proj/a.txt", "content": "hi\n"},
            paths=("/proj/a.txt",),
        ),
        ToolFinished(
            call_id="write_file__1",
            outcome="completed",
            content=(Diff("/proj/a.txt", patch="@@ -0,0 +1,1 @@\n+hi\n"),),
        ),
        ToolStarted(
            call_id="run_shell_command__2",
            tool="Bash",
            name="run_shell_command",
            title="Bash `echo out`",
            input={"command": "echo out"},
        ),
        ToolFinished(call_id="run_shell_command__2", outcome="failed", content=(Text("out"),)),
        MessageChunk(message_id="g3", text="Done."),
    ]


async def test_a_session_of_the_current_minute_is_waited_for(home: Path) -> None:
    now = [1794744815.0]  # 2026-11-15T12:13:35Z
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    reported: list[Notice] = []

    def report(notice: Notice) -> None:
        assert not slept, "it is reported before it waits"
        reported.append(notice)

    await out_of_its_minute(home, ID, report, clock=lambda: now[0], sleep=sleep)
    assert [round(seconds, 1) for seconds in slept] == [25.1]
    [notice] = reported
    assert notice.text.startswith("waiting 26 s to resume: Gemini CLI loses a conversation")

    await out_of_its_minute(home, ID, report, clock=lambda: now[0], sleep=sleep)
    await out_of_its_minute(home, "00000000-other", report, lambda: 1794744815.0, sleep)
    assert len(slept) == 1


@pytest.mark.parametrize(
    ("chosen", "files", "given", "told"),
    [
        (None, {}, {}, Account(signed_in=False, hint=HINT)),
        (
            None,
            {},
            {"GEMINI_API_KEY": "k"},
            Account(signed_in=True, method="variable", who="GEMINI_API_KEY"),
        ),
        ("gemini-api-key", {}, {}, Account(signed_in=False, hint=HINT)),
        (
            "gemini-api-key",
            {".env": "export GEMINI_API_KEY=k\n"},
            {},
            Account(signed_in=True, method="api key"),
        ),
        (
            "oauth-personal",
            {"oauth_creds.json": "{}", "google_accounts.json": '{"active": "a@example.org"}'},
            {"GEMINI_API_KEY": "k"},
            Account(signed_in=True, method="browser", who="a@example.org"),
        ),
        ("oauth-personal", {}, {"GEMINI_API_KEY": "k"}, Account(signed_in=False, hint=HINT)),
        (
            "vertex-ai",
            {},
            {"GOOGLE_CLOUD_PROJECT": "p"},
            Account(signed_in=True, method="variable", who="GOOGLE_CLOUD_PROJECT"),
        ),
    ],
)
def test_who_is_signed_in(
    tmp_path: Path,
    chosen: str | None,
    files: dict[str, str],
    given: dict[str, str],
    told: Account,
) -> None:
    if chosen:
        settings = {"security": {"auth": {"selectedType": chosen}}}
        (tmp_path / "settings.json").write_text(json.dumps(settings))
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert account(tmp_path, variables(**given)) == told


def test_the_models_are_those_of_a_new_session() -> None:
    models = [{"modelId": "auto", "name": "Auto"}, {"modelId": "gemini-2.5-pro"}]
    fields = {"models": {"currentModelId": "auto", "availableModels": models}}
    assert listed(fields) == [
        Model("auto", "Auto", provider="google", default=True),
        Model("gemini-2.5-pro", "gemini-2.5-pro", provider="google"),
    ]
    assert listed(None) == []


def test_a_server_is_switched_off_and_on() -> None:
    off = switched({"other": {"enabled": False}}, "Probe", on=False)
    assert off == {"other": {"enabled": False}, "probe": {"enabled": False}}
    assert switched(off, "Probe", on=True) == {"other": {"enabled": False}}


@pytest.mark.parametrize(
    ("rules", "given", "is_trusted"),
    [
        ({}, {}, False),
        ({}, {"GEMINI_CLI_TRUST_WORKSPACE": "true"}, True),
        ({"/home/me": "TRUST_FOLDER"}, {}, True),
        ({"/home/me": "TRUST_FOLDER", "/home/me/deep": "DO_NOT_TRUST"}, {}, False),
        ({"/home/me/deep/other": "TRUST_PARENT"}, {}, True),
        ({"/else": "TRUST_FOLDER"}, {}, False),
    ],
)
def test_the_nearest_rule_decides_whether_a_folder_is_trusted(
    tmp_path: Path, rules: dict[str, str], given: dict[str, str], is_trusted: bool
) -> None:
    (tmp_path / "trustedFolders.json").write_text(json.dumps(rules))
    assert trusted(tmp_path, Path("/home/me/deep/proj"), variables(**given)) is is_trusted


def test_disabled_folder_trust_trusts_every_folder(tmp_path: Path) -> None:
    settings = {"security": {"folderTrust": {"enabled": False}}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert trusted(tmp_path, Path("/home/me"), variables()) is True


def test_cached_tokens_are_in_the_record(tmp_path: Path) -> None:
    chats = tmp_path / "tmp" / "proj" / "chats"
    chats.mkdir(parents=True)
    lines = [
        {"sessionId": ID},
        {"id": "u1", "type": "user", "content": [{"text": "go"}]},
        {"id": "g1", "type": "gemini", "content": ""},
        {"id": "g1", "type": "gemini", "content": "", "tokens": {"input": 9, "cached": 4}},
        {"id": "g2", "type": "gemini", "content": "Done.", "tokens": {"cached": "many"}},
        {"id": "g3", "type": "gemini", "content": "Done.", "tokens": {"cached": 7}},
    ]
    file = chats / f"session-2026-11-15T12-13-{ID[:8]}.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cached(tmp_path, ID) == {"u1": 0, "g1": 4, "g2": 0, "g3": 7}
    assert cached(tmp_path, "00000000-other") == {}
