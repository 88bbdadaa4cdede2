"""The terminal interface in a real terminal, with the embedded agent."""

from __future__ import annotations

import json
import shutil

import pytest
import screen_story

from ..conftest import Bench

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


def test_a_task_from_its_prompt_to_its_resumption(bench: Bench) -> None:
    script = bench.home / "script.json"
    turns = [
        [
            {"say": "Here it comes."},
            {"write": screen_story.FILE, "text": screen_story.NEW},
            {"say": "All is written."},
        ],
        [{"run": "sleep 60"}],
        [{"say": "You are back."}],
    ]
    script.write_text(json.dumps(turns))
    environment = {
        name: value for name, value in bench.environment.items() if name not in ("COLUMNS", "LINES")
    }
    prompts = (f"script:{script}", "go on", "and now")
    screen_story.tell(bench.home, bench.project, "mock", environment, prompts)
