"""The terminal interface in a real terminal, with the embedded agent."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.stand_ins import approval_tour, commands_tour, screen_sitting, screen_story, screen_tour
from tests.surfaces.conftest import Bench

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


def test_a_task_from_its_prompt_to_its_resumption(bench: Bench) -> None:
    script = bench.home / "script.json"
    turns = [
        [
            {"say": "Here it comes."},
            {"write": screen_story.FILE, "text": screen_story.NEW},
            {"say": "All is written."},
        ],
        [{"run": "touch begun; sleep 60"}],
        [{"say": "You are back."}],
    ]
    script.write_text(json.dumps(turns))
    prompts = (f"script:{script}", "go on", "and now")
    screen_story.report(bench.home, bench.project, "mock", _environment(bench), prompts)


def _environment(bench: Bench) -> dict[str, str]:
    """Without a size, because the terminal has one."""
    sizes = ("COLUMNS", "LINES")
    return {name: value for name, value in bench.environment.items() if name not in sizes}


def _cast(bench: Bench) -> screen_sitting.Cast:
    """The embedded agent: a scene is a file, and the next prompt plays the last one again."""
    acts = bench.project.parent / "acts"
    acts.mkdir()
    story = "\n\n".join(f"Part {number} of it." for number in range(1, 61))
    choices = [{"label": "red"}, {"label": "blue"}]
    done = {"say": "That was it."}
    scenes: dict[str, list[dict[str, Any]]] = {
        "hello": [{"say": "Hello there.\n\n```sh\necho ready\n```\n"}],
        "story": [{"say": f"{story}\n\nThe end."}],
        "run": [{"run": "echo done >> ran.txt"}, done],
        "write": [{"write": "new.txt", "text": "moon\n"}, done],
        "wait": [{"run": screen_sitting.WAIT}, {"listen": 5}, {"say": "The wait is over."}],
        "words": [{"say": approval_tour.WORDS}],
        "edit": [{"edit": "poem.txt", "old": "line 40\n", "new": "changed\n"}, done],
        "plan": [{"present": approval_tour.PLAN}, {"write": "new.txt", "text": "moon\n"}, done],
        "ask": [{"question": [{"text": "Which colour?", "choices": choices}]},
                {"say": "Well chosen."}],
    }  # fmt: skip
    for name, steps in scenes.items():
        (acts / f"{name}.json").write_text(json.dumps([steps]))
    return screen_sitting.Cast(
        agent="mock",
        project=bench.project,
        environment=_environment(bench),
        scene=lambda name: f"../acts/{name}.json",
        cue="",
        model="mock-deep",
        login="mock does not support signing in by command",
        logout="mock does not support signing out by command",
        max_wait=8,
    )


def test_the_prompt_box_a_shell_and_a_turn_that_is_steered(bench: Bench) -> None:
    screen_tour.speak(_cast(bench), bench.home)


def test_permissions_a_question_and_a_plan(bench: Bench) -> None:
    screen_tour.permit(_cast(bench), bench.home)


def test_every_approved_text_was_visible(bench: Bench) -> None:
    approval_tour.approve(_cast(bench), bench.home)


def test_every_slash_command(bench: Bench) -> None:
    commands_tour.command(_cast(bench), bench.home)


def test_every_picker_and_panel(bench: Bench) -> None:
    commands_tour.choose(_cast(bench), bench.home)
