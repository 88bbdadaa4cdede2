"""Which hooks in a file are tillerman's, by their command alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.hooks.command_pattern import is_our_code, is_ours
from tillerman.hooks.dialects import agents_with_hooks, load
from tillerman.hooks.install_plan import planned

OURS = "/usr/bin/python3 -I -m tillerman hook claude PreToolUse --project '/a b' || exit 2"


@pytest.mark.parametrize("agent", agents_with_hooks())
@pytest.mark.parametrize("scope", ["project", "user"])
def test_planned_entries_are_recognized_as_ours(agent: str, scope: str, tmp_path: Path) -> None:
    hooks = planned(agent, tmp_path, scope)  # type: ignore[arg-type]
    if load(agent).PLACE.code:
        assert is_our_code(hooks.whole or b"", agent)
        assert not is_our_code(b"// mine\n" + (hooks.whole or b""), agent)
    else:
        assert hooks.entries
        assert all(is_ours(entry, agent, event) for event, entry in hooks.entries.items())


@pytest.mark.parametrize(
    "command",
    [
        "make lint",
        f"make lint; {OURS}",
        OURS.replace("|| exit 2", "|| true"),
        OURS.replace("claude", "codex"),
        OURS.replace("PreToolUse", "Stop"),
        OURS.replace("--project", "--other"),
        "'",
    ],
)
def test_similar_entries_belong_to_others(command: str) -> None:
    ours = {"type": "command", "command": OURS}
    assert is_ours({"hooks": [ours]}, "claude", "PreToolUse")
    assert not is_ours({"hooks": [{"command": command}]}, "claude", "PreToolUse")
    assert not is_ours({"hooks": [ours, {"command": command}]}, "claude", "PreToolUse")


def test_unparsable_code_belongs_to_others() -> None:
    code = rb"""// Written by tillerman.
spawn("/bin/sh", ["-c", "\x"])"""
    assert not is_our_code(code, "opencode")
