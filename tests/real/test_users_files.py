"""A session leaves the user's files of an agent as the agent alone leaves them."""

from __future__ import annotations

import pytest

from tests.real.bare import run_bare
from tests.real.desk import Desk, agent_text, ends, run
from tests.real.home_tree import home_tree
from tests.real.stages import Actor
from tillerman.core.events import TurnEnded
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.newest, pytest.mark.timeout(120)]

# The adapter trusts a project by itself in the mode in which it may write there.
_OF_ITS_OWN = {"codex-acp": {".codex/config.toml"}}


def _tree(actor: Actor) -> dict[str, str]:
    known = _OF_ITS_OWN.get(actor.agent, set())
    tree = home_tree(actor.home, actor.stage.volatile_files)
    return {path: content for path, content in tree.items() if path not in known}


async def test_a_session_changes_nothing_that_a_bare_run_has_left(
    actor: Actor, double: ModelDouble, any_desk: Desk
) -> None:
    double.scenarios["hello"] = [reply(Say("Hello."))]
    await run_bare(actor, double, "@@hello@@ say it")
    left = _tree(actor)

    session = await any_desk.start()
    entries = await run(session, "@@hello@@ say it")
    await session.close()

    assert (agent_text(entries), ends(entries)) == ("Hello.", [TurnEnded(reason="completed")])
    assert _tree(actor) == left


async def test_a_session_in_a_new_home_leaves_the_files_that_a_bare_run_leaves(
    actor: Actor, double: ModelDouble, any_desk: Desk
) -> None:
    double.scenarios["hello"] = [reply(Say("Hello."))]

    session = await any_desk.start()
    await run(session, "@@hello@@ say it")
    await session.close()
    left = _tree(actor)
    await run_bare(actor, double, "@@hello@@ say it")

    assert _tree(actor) == left
