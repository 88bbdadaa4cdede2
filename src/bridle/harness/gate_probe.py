"""What the gate holds on an agent that is installed, found by canaries before a scripted model.

All of it happens in folders of its own with a made-up key: nothing of the user's is read or
changed, no model is paid, and nothing goes further than loopback.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from bridle.core.agent import Agent, SessionSpec
from bridle.core.errors import BridleError
from bridle.core.tools import ToolClass
from bridle.paths import find_paths
from bridle.sessions.run_settings import Limits, Terms
from bridle.sessions.service import Sessions
from bridle.store.database import Database

if TYPE_CHECKING:
    from bridle.testing.cli_setups import Stage
    from bridle.testing.gate_probe.probes import Hold, Song

PATIENCE = 240.0  # seconds for all canaries of an agent
_LIMITS = Limits(turn=60, request=20)


class Proof(Struct, frozen=True):
    agent: str
    version: str = ""
    holds: dict[ToolClass, Hold] = {}  # of the classes that it has tools of
    found: dict[str, str] = {}  # by call: what was wrong with it
    problem: str = ""  # why nothing could be found out


async def prove(agent: Agent, program: str, version: str) -> Proof:
    from bridle.testing.cli_setups import STAGES  # few come here, and it loads a web server

    name = agent.info.name
    stage = STAGES.get(name)
    if stage is None:
        return Proof(name, version, problem="it cannot be put before a scripted model")
    try:
        async with asyncio.timeout(PATIENCE):
            songs = await _sung(agent, stage, program, version)
    except TimeoutError:
        return Proof(name, version, problem=f"its canaries took longer than {PATIENCE:g} s")
    except BridleError as error:
        return Proof(name, version, problem=error.message)
    from bridle.testing.gate_probe.probes import holds

    found = {f"{song.kind}: {song.name}": song.trouble for song in songs if song.trouble}
    return Proof(name, version, holds(songs), found)


async def _sung(agent: Agent, stage: Stage, program: str, version: str) -> list[Song]:
    from bridle.testing.gate_probe.probes import NOBODY, Aviary
    from bridle.testing.model_double.server import ModelDouble

    with tempfile.TemporaryDirectory(prefix="bridle-gate-", ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve()
        home, project, scratch = (place / name for name in ("home", "project", "scratch"))
        for made in (home, project, scratch):
            made.mkdir()
        async with ModelDouble() as double:
            stage.prepare(home, double.base_url)
            aviary = Aviary(stage, version, double, project=project, marks=place / "marks")
            environment = stage.clean_environment(
                double.base_url,
                version,
                home=home,
                path=os.environ.get("PATH", os.defpath),
                scratch=scratch,
            )
            spec = SessionSpec(
                cwd=project,
                model=stage.model,
                servers=aviary.servers,
                options={**stage.options, "binary": program},
            )
            terms = Terms(tools=NOBODY, environment=environment, limits=_LIMITS)
            paths = find_paths({"BRIDLE_HOME": str(place / "bridle")})
            database = Database.open(paths.store)
            sessions = Sessions(paths, database)
            try:
                return await aviary.sing(await sessions.start(agent, spec, terms))
            finally:
                await sessions.close()
                database.close()
