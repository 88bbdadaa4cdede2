"""The terminal interface in a real terminal: an agent by control protocol, and one by ACP."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import screen_story
from stages import KEY, Actor

from bridle.testing.model_double import ModelDouble
from bridle.testing.model_script import Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("claude", "gemini"),
    pytest.mark.newest,
    pytest.mark.timeout(180),
]


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
    double.scenarios["busy"] = [reply(actor.stage.shell("while :; do sleep 0.2; done"))]
    double.scenarios["back"] = [reply(Say("You are back."))]
    home = tmp_path / "bridle"
    home.mkdir()
    (home / "config.toml").write_text(f'[agents.{actor.agent}]\nbinary = "{actor.program}"\n')
    environment = actor.environment(double.base_url, **{actor.key: KEY})
    environment |= {"BRIDLE_HOME": str(home), "LANG": "C.UTF-8", "HOME": str(actor.home)}
    environment.setdefault("PATH", os.defpath)
    prompts = ("@@write@@ go", "@@busy@@ go", "@@back@@ go")
    await asyncio.to_thread(
        screen_story.tell, tmp_path, actor.project, actor.agent, environment, prompts
    )
