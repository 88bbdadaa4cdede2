"""A shell call with a working folder is decided like the same line after `cd` to it."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import pytest

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.hooks.dialects import load
from tillerman.hooks.policy_only_answer import decide_hook

HERE = DecisionContext(cwd=PurePath("/ws"), home=PurePath("/home/me"))
TESTS = Rule("tests", "allow", "tests", commands=("npm test", "cat *"))
POLICY = Policy.preset("edits", rules=[TESTS])


def verdict(command: str, policy: Policy = POLICY, **folders: Any) -> str:
    input = {"command": command, **folders}
    asked = PermissionRequested(request_id="1", tool="Bash", title="", input=input)
    return policy.decide(asked, HERE).verdict


KEYS = (
    "cwd", "workdir", "directory", "working_directory", "working_dir", "workingDirectory",
    "dir_path", "target_directory",
)  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_every_input_key_for_a_folder_counts(key: str) -> None:
    assert verdict("cat f > hosts", **{key: "/etc"}) == "deny"
    assert verdict("cat f > hosts", **{key: "sub"}) == "allow"
    assert verdict("npm test", **{key: "/tmp/evil"}) == verdict("cd /tmp/evil && npm test") == "ask"
    assert verdict("npm test", **{key: "/ws/sub"}) == "allow"


def test_no_folder_hides_another() -> None:
    assert verdict("cat f > hosts", cwd=".", workdir="/etc") == "deny"
    assert verdict("npm test", cwd=".", workdir="/tmp/evil") == "ask"
    assert verdict("npm test", cwd="/tmp/evil", workdir=".") == "ask"


def test_a_folder_that_is_not_text_is_unknown() -> None:
    assert verdict("npm test", cwd=["/tmp/evil"]) == "ask"
    assert verdict("cat f > hosts", cwd={"path": "/etc"}) == "ask"


def test_home_is_home_from_any_folder() -> None:
    assert verdict("cd ~ && cat f > .profile", cwd="/ws") == "deny"


def test_a_line_that_was_allowed_once_is_allowed_where_it_was() -> None:
    line = "cat f > hosts"
    policy = Policy.preset("edits", rules=[Rule("always", "allow", "", line=line)])
    assert verdict(line, policy) == "allow"
    assert verdict(line, policy, cwd="/etc") == "deny"


def test_geminis_key_for_a_folder_is_not_taken_for_a_file_of_a_shell() -> None:
    def said(tool: str, **input: Any) -> str:
        fields = {"cwd": "/ws", "tool_name": tool, "tool_input": input}
        gemini = load("gemini")
        event = gemini.read("BeforeTool", json.dumps(fields).encode())
        decision: str = json.loads(decide_hook(gemini, event, POLICY, HERE).stdout)["decision"]
        return decision

    assert said("run_shell_command", command="cat f > hosts", dir_path="/etc") == "deny"
    assert said("run_shell_command", command="npm test", dir_path="/tmp/evil") == "ask"
    assert said("run_shell_command", command="npm test", dir_path="sub") == "allow"
    assert said("list_directory", dir_path="/etc") == "ask"
