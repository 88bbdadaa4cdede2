"""How Codex is started, opened and prompted, over both transports."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.agents.codex.codex_says import Talk
from tillerman.agents.codex.exec.exec_launch import exec_launch
from tillerman.agents.codex.launch import launch, opening, sandbox_policy, user_input
from tillerman.core.agent import File, Mode, Prompt, SecretFile, SessionSpec
from tillerman.core.errors import ConfigError, Unsupported
from tillerman.core.session_options import session_spec

CWD = Path("/proj")


def spec(**more: Any) -> SessionSpec:
    return session_spec(cwd=CWD, **more)


def settings(**more: Any) -> dict[str, Any]:
    """The settings that `codex exec` gets by -c."""
    argv = list(exec_launch(spec(**more), Prompt("go")).argv)
    given = [argv[i + 1] for i, word in enumerate(argv) if word == "-c"]
    return tomllib.loads("\n".join(map(str, given)))


def test_retries_are_bounded() -> None:
    assert launch(spec()).argv == [
        "codex",
        "app-server",
        "-c",
        "features.unbounded_connection_retries=false",
    ]


def test_every_session_option_reaches_its_thread() -> None:
    server = {"command": "npx", "args": ["x"], "env": {"K": "v"}, "type": "stdio"}
    web = {"type": "http", "url": "https://x", "headers": {"A": "b"}}
    method, params = opening(
        spec(model="m", system="s", effort="high", servers={"one": server, "web": web})
    )
    assert method == "thread/start"
    assert params == {
        "cwd": "/proj",
        "sandbox": "read-only",
        "approvalPolicy": "untrusted",
        "approvalsReviewer": "user",
        "model": "m",
        "developerInstructions": "s",
        "config": {
            "model_reasoning_effort": "high",
            "mcp_servers": {
                "one": {
                    "command": "npx",
                    "args": ["x"],
                    "env": {"K": "v"},
                    "default_tools_approval_mode": "prompt",
                },
                "web": {
                    "url": "https://x",
                    "http_headers": {"A": "b"},
                    "default_tools_approval_mode": "prompt",
                },
            },
        },
    }


@pytest.mark.parametrize(("fork", "method"), [(False, "thread/resume"), (True, "thread/fork")])
def test_a_conversation_is_resumed_or_forked(fork: bool, method: str) -> None:
    found, params = opening(spec(resume="t1", fork=fork))
    assert (found, params["threadId"], params["excludeTurns"]) == (method, "t1", True)


@pytest.mark.parametrize(
    ("more", "mode", "kind"),
    [
        ({}, "agent", "workspaceWrite"),
        ({}, "plan", "readOnly"),
        ({}, "ask", "readOnly"),
        ({"approve": "readonly"}, "agent", "readOnly"),
        ({"approve": "none"}, "agent", "readOnly"),
        ({"options": {"sandbox": "read-only"}}, "agent", "readOnly"),
        ({"options": {"sandbox": "danger-full-access"}}, "agent", "dangerFullAccess"),
        ({"options": {"sandbox": "danger-full-access"}}, "plan", "readOnly"),
    ],
)
def test_the_sandbox_follows_mode_preset_and_option(
    more: dict[str, Any], mode: Mode, kind: str
) -> None:
    assert sandbox_policy(spec(**more), mode)["type"] == kind


def test_extra_folders_may_be_written_and_the_network_is_an_option() -> None:
    folders = (Path("/a"), Path("/b"))
    policy = sandbox_policy(spec(folders=folders, options={"network": True}), "agent")
    assert (policy["writableRoots"], policy["networkAccess"]) == (["/a", "/b"], True)
    assert sandbox_policy(spec(), "agent")["networkAccess"] is False


def test_an_unavailable_sandbox_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="unknown codex sandbox 'tent'"):
        Talk(options={"sandbox": "tent"})


def test_each_turn_names_its_sandbox_and_approval_policy() -> None:
    talk = Talk(mode="plan", effort="low", output_schema={"type": "object"})
    talk.begin()
    params = talk.last("turn/start")["params"]
    assert params == {
        "threadId": "thread-1",
        "input": [{"type": "text", "text": "go", "text_elements": []}],
        "approvalPolicy": "untrusted",
        "approvalsReviewer": "user",
        "sandboxPolicy": {"type": "readOnly", "networkAccess": False},
        "effort": "low",
        "collaborationMode": {
            "mode": "plan",
            "settings": {
                "model": "gpt-5.5",
                "reasoning_effort": "low",
                "developer_instructions": None,
            },
        },
        "outputSchema": {"type": "object"},
    }


def test_a_new_mode_is_sent_at_once_and_a_resumed_thread_is_sent_its_mode() -> None:
    talk = Talk()
    talk.send(talk.wire.configure(None, "plan"))
    assert "thread/settings/update" not in talk.methods()
    talk.open()
    talk.send(talk.wire.configure("other", "agent"))
    params = talk.last("thread/settings/update")["params"]
    assert (params["model"], params["collaborationMode"]["mode"]) == ("other", "default")
    resumed = Talk(resume="t1")
    resumed.open()
    resumed.prompt()
    assert resumed.last("turn/start")["params"]["collaborationMode"]["mode"] == "default"


def test_files_become_blocks_and_unsupported_ones_are_refused() -> None:
    files = (File("a.png", "image/png", b"x"), File("a.txt", "text/plain", b"words"))
    assert user_input(Prompt("look", files)) == [
        {"type": "image", "url": "data:image/png;base64,eA=="},
        {"type": "text", "text": '<file name="a.txt">\nwords\n</file>', "text_elements": []},
        {"type": "text", "text": "look", "text_elements": []},
    ]
    with pytest.raises(Unsupported, match=r"application/pdf \(a.pdf\)"):
        user_input(Prompt("", (File("a.pdf", "application/pdf", b"\xff"),)))


# -- exec ------------------------------------------------------------------------------------------


def test_exec_gets_its_prompt_on_stdin_and_is_read_only_unless_all_is_allowed() -> None:
    found = exec_launch(spec(), Prompt("go", (File("a.txt", "text/plain", b"words"),)))
    assert found.argv[:4] == ["codex", "exec", "--json", "--skip-git-repo-check"]
    assert found.argv[-1] == "-"
    assert found.stdin == b'<file name="a.txt">\nwords\n</file>\n\ngo'
    assert settings()["sandbox_mode"] == "read-only"
    assert settings(approve="edits")["sandbox_mode"] == "read-only"
    assert settings(approve="auto")["sandbox_mode"] == "workspace-write"
    everything = {"approve": "auto", "options": {"sandbox": "danger-full-access"}}
    assert settings(**everything)["sandbox_mode"] == "danger-full-access"


def test_exec_gets_the_other_options_as_settings_that_do_not_change_the_users() -> None:
    odd = 'say "hi"\\\n\x7f – 😀'
    fields = settings(
        model="m", effort="high", system=odd, folders=(Path("/a b"),), options={"network": True}
    )
    assert fields == {
        "features": {"unbounded_connection_retries": False},
        "sandbox_mode": "read-only",
        "projects": {"/proj": {"trust_level": "untrusted"}},
        "sandbox_workspace_write": {"writable_roots": ["/a b"], "network_access": True},
        "model": "m",
        "model_reasoning_effort": "high",
        "developer_instructions": odd,
    }


@pytest.mark.parametrize(("fork", "word"), [(False, "resume"), (True, "fork")])
def test_exec_resumes_a_conversation_or_forks_it(fork: bool, word: str) -> None:
    argv = exec_launch(spec(resume="t1", fork=fork), Prompt("go")).argv
    assert (argv[2], argv[-2:]) == (word, ["t1", "-"])


def test_exec_gets_a_schema_in_a_file() -> None:
    argv = exec_launch(spec(output_schema={"type": "object"}), Prompt("go")).argv
    assert SecretFile("--output-schema=", b'{"type": "object"}') in argv
