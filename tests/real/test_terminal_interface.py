"""The terminal interface in a real terminal: one agent over its own protocol, and one over ACP."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.real.stages import KEY, Actor
from tests.stand_ins import approval_tour, commands_tour, screen_sitting, screen_story
from tests.stand_ins import screen_tour as tour
from tillerman.testing.model_double.script import ModelToolCall, Say, reply
from tillerman.testing.model_double.server import ModelDouble

FACTS: dict[str, dict[str, Any]] = {
    "claude": {
        "model": "haiku",
        "own_command": "/compact",
        "runs_login": "claude auth login",
        "logout": "is still signed in",
    },
    "gemini": {
        "model": "gemini-2.5-pro",
        "plans": False,
        "steers": False,
        "changes": False,
        "tools": "does not support",
        "switches": True,
        "login": "GEMINI_API_KEY",
        "logout": "unset the variable",
    },
}

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("claude", "gemini"),
    pytest.mark.newest,
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module", autouse=True)
def terminal() -> None:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")


async def test_a_task_from_its_prompt_to_its_resumption(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    actor.prepare(double.base_url)
    file = actor.project / screen_story.FILE
    double.scenarios["write"] = [
        reply(Say("Here it comes."), actor.stage.read(file)),
        reply(actor.stage.write(file, screen_story.NEW)),
        reply(Say("All is written.")),
    ]
    double.scenarios["busy"] = [
        reply(actor.stage.shell("touch begun; while :; do sleep 0.2; done"))
    ]
    double.scenarios["back"] = [reply(Say("You are back."))]
    environment = _environment(actor, double, tmp_path)
    prompts = ("@@write@@ go", "@@busy@@ go", "@@back@@ go")
    await asyncio.to_thread(
        screen_story.report, tmp_path, actor.project, actor.agent, environment, prompts
    )


@pytest.mark.parametrize(
    "sitting",
    [tour.speak, tour.permit, approval_tour.approve, commands_tour.command, commands_tour.choose],
)
async def test_the_whole_screen(
    sitting: Callable[[screen_sitting.Cast, Path], None],
    actor: Actor,
    double: ModelDouble,
    tmp_path: Path,
) -> None:
    actor.prepare(double.base_url)
    await asyncio.to_thread(sitting, _cast(actor, double, tmp_path), tmp_path)


def _environment(actor: Actor, double: ModelDouble, folder: Path) -> dict[str, str]:
    home = folder / "tillerman"
    home.mkdir()
    (home / "config.toml").write_text(f'[agents.{actor.agent}]\nbinary = "{actor.program}"\n')
    environment = actor.environment(double.base_url, **{actor.key: KEY})
    environment |= {"TILLERMAN_HOME": str(home), "LANG": "C.UTF-8", "HOME": str(actor.home)}
    environment.setdefault("PATH", os.defpath)
    return environment


def _add_server(agent: str, environment: Mapping[str, str]) -> None:
    server = Path(__file__).with_name("mcp_server.py")
    words = ["mcp", "add", "-a", agent, "tiny", "--", sys.executable, str(server)]
    run = [sys.executable, "-m", "tillerman", *words]
    subprocess.run(run, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=60)


def _cast(actor: Actor, double: ModelDouble, folder: Path) -> screen_sitting.Cast:
    stage, new = actor.stage, actor.project / "new.txt"
    poem = actor.project / "poem.txt"
    story = "\n\n".join(f"Part {number} of it." for number in range(1, 61))
    done = reply(Say("That was it."))
    double.scenarios |= {
        "hello": [reply(Say("Hello there.\n\n```sh\necho ready\n```\n"))],
        "story": [reply(Say(f"{story}\n\nThe end."))],
        "run": [reply(stage.shell("echo done >> ran.txt")), done],
        "write": [reply(stage.write(new, "moon\n")), done],
        "wait": [reply(stage.shell(screen_sitting.WAIT)), reply(Say("The wait is over."))],
        "words": [reply(Say(approval_tour.WORDS))],
        "edit": [
            reply(stage.read(poem)), reply(stage.edit(poem, "line 40\n", "changed\n")), done,
        ],
        "plan": [
            reply(ModelToolCall("ExitPlanMode", {"plan": approval_tour.PLAN})),
            reply(stage.write(new, "moon\n")), done,
        ],
    }  # fmt: skip
    if asks := not actor.lacks("ask"):
        double.scenarios["ask"] = [
            reply(stage.ask("Which colour?", "red", "blue")),
            reply(Say("Well chosen.")),
        ]
    environment = _environment(actor, double, folder)
    _add_server(actor.agent, environment)
    return screen_sitting.Cast(
        agent=actor.agent,
        project=actor.project,
        environment=environment,
        scene=lambda name: f"@@{name}@@ go",
        cue="@@hello@@",
        asks=asks,
        server="tiny",
        **FACTS[actor.agent],
    )
