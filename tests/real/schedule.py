"""Distributes tests to workers: one worker gets all tests of a CLI, the longest first."""

from __future__ import annotations

import re
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    "claude_turns",
    "test_conformance_real.py",
    "test_second_model.py",
    "test_gemini_and_qwen_turns.py",
    "test_opencode_and_copilot_turns.py",
    "test_ordinary_user.py",
)
FIRST = (  # that take their time, or wait for a minute to pass
    "test_terminal_interface.py",
    "test_gemini_and_qwen_sessions.py",
    "test_broken_gate.py",
    "test_gate_real.py",
    "test_opencode_run.py",
    "test_hooks_real.py",
)
_CLI = re.compile(r"(?:[a-z-]+-)?\d+\.\d+\.\d+")


class Schedule(LoadScopeScheduling):  # type: ignore[misc]
    """Tests of one conversation stay together; the largest groups come first."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if not {*PurePath(file).parts[-2:]}.intersection(TOGETHER):
            return nodeid
        cli = _CLI.search(test)
        return f"{file} {cli.group()}" if cli else file


def longest_first(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST)

    items.sort(key=place)
