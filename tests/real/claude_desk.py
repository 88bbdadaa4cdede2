"""A desk for the real Claude Code, like every agent's."""

from __future__ import annotations

from pathlib import Path

from tests.real.desk import (
    KEY,
    MAX_WAIT,
    Desk,
    agent_text,
    check_log,
    ends,
    finished,
    no_process_left,
    of,
    processes_with,
    run,
    shown,
    started,
    turns_of,
    until,
    until_true,
    usages,
)
from tests.real.real_claude import RealClaude
from tillerman.testing.model_double.server import ModelDouble

__all__ = [
    "KEY",
    "MAX_WAIT",
    "ClaudeDesk",
    "agent_text",
    "check_log",
    "ends",
    "finished",
    "no_process_left",
    "of",
    "processes_with",
    "run",
    "shown",
    "started",
    "turns_of",
    "until",
    "until_true",
    "usages",
]


class ClaudeDesk(Desk):
    def __init__(self, claude: RealClaude, double: ModelDouble, folder: Path) -> None:
        super().__init__(claude, double, folder)
        self.claude = claude
