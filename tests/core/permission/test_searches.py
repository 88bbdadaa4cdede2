"""Where a search reads: nothing outside is read without approval, however it is written."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import pytest

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy
from tillerman.hooks.dialects import load
from tillerman.hooks.policy_only_answer import decide_hook

HERE = DecisionContext(cwd=PurePath("/ws"))


def verdict(tool: str, **input: Any) -> str:
    asked = PermissionRequested(request_id="1", tool=tool, title="", input=input)
    return Policy.preset("ask").decide(asked, HERE).verdict


@pytest.mark.parametrize(
    "pattern",
    ["{/etc,a}/*", "{/etc}/*", "{a,../..}/*", "a/{b,{c,../../../etc}}/*", "**/../x",
     "{a,b}/**/../../x", "\\/etc/*",
     "{" * 80 + "a,b" + "}" * 80],
)  # fmt: skip
def test_a_pattern_that_may_leave_the_workspace_is_asked_about(pattern: str) -> None:
    assert verdict("Glob", pattern=pattern) == "ask"
    assert verdict("Glob", glob_pattern=pattern) == "ask"
    assert verdict("Grep", pattern="x", glob=pattern) == "ask"


@pytest.mark.parametrize("pattern", ["**/*.py", "src/{a,b}/**/*.{ts,tsx}", "*.md", "[ab]/?"])
def test_a_pattern_that_stays_is_not(pattern: str) -> None:
    assert verdict("Glob", pattern=pattern, path="src") == "allow"
    assert verdict("Grep", pattern="x", include=pattern) == "allow"


@pytest.mark.parametrize("tool", ["Glob", "LS", "Grep", "SemSearch"])
@pytest.mark.parametrize(
    "key", ["target_directory", "targetDirectory", "dir_path", "directory", "root", "somewhere"]
)
def test_a_folder_outside_is_asked_about_under_any_input_key(tool: str, key: str) -> None:
    assert verdict(tool, **{key: "/etc"}) == "ask"
    assert verdict(tool, **{key: ["/etc"]}) == "ask"
    assert verdict(tool, **{key: "/etc"}, path=".") == "ask"
    assert verdict(tool, **{key: {"uri": "/etc"}}) == "ask"


def test_the_pattern_of_a_search_may_be_anything() -> None:
    options = {"-i": True, "-A": 3, "output_mode": "content", "type": "py", "head_limit": 5}
    assert verdict("Grep", pattern="{/etc", path="src", **options) == "allow"
    assert verdict("Grep", pattern="x", caseInsensitive=True, multiline=False, offset=0) == "allow"
    assert verdict("LS", path=".", ignore=["/etc"], file_filtering_options={}) == "allow"
    assert verdict("SemSearch", query="../..", target_directories=["src"]) == "allow"


def test_cursors_key_for_a_folder_counts() -> None:
    def said(tool: str, **input: Any) -> str:
        fields = {"tool_name": tool, "tool_input": input, "workspace_roots": ["/ws"]}
        cursor = load("cursor")
        event = cursor.read("preToolUse", json.dumps(fields).encode())
        reply = decide_hook(cursor, event, Policy.preset("ask"), HERE)
        permission: str = json.loads(reply.stdout)["permission"]
        return permission

    for tool in ("Glob", "LS"):
        assert said(tool, target_directory="/etc", glob_pattern="*") == "deny"  # it cannot ask
        assert said(tool, target_directory="/ws/src", glob_pattern="*") == "allow"
