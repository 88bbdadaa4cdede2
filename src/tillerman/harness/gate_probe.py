"""Probes which tool classes an installed agent's gate enforces, against a scripted model.

Runs in temporary folders with a fake key: reads and changes no user data, calls no paid model, and
connects to loopback only.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tillerman.core.agent import Agent
from tillerman.core.errors import TillermanError
from tillerman.core.session_options import session_spec
from tillerman.core.tools import ToolClass
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings, TurnLimits
from tillerman.sessions.service import Sessions
from tillerman.store.database import Database

if TYPE_CHECKING:
    from tillerman.testing.cli_setups import CliSetup
    from tillerman.testing.gate_probe.probes import Hold, ProbeResult

PROBE_TIMEOUT = 240.0  # seconds for all probes of an agent
_LIMITS = TurnLimits(turn=60, request=20)


class GateReport(Struct, frozen=True):
    agent: str
    version: str = ""
    holds: dict[ToolClass, Hold] = {}  # for the classes that it has tools of
    found: dict[str, str] = {}  # problem by probed call
    problem: str = ""  # why the probes could not run


async def probe_gate(agent: Agent, program: str, version: str) -> GateReport:
    from tillerman.testing.cli_setups import setups  # imported lazily, it loads a web server

    name = agent.info.name
    stage = setups().get(name)
    if stage is None:
        return GateReport(name, version, problem="it cannot be run with a scripted model")
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            results = await _run_probes(agent, stage, program, version)
    except TimeoutError:
        return GateReport(name, version, problem=f"its probes exceeded {PROBE_TIMEOUT:g} s")
    except TillermanError as error:
        return GateReport(name, version, problem=error.message)
    from tillerman.testing.gate_probe.probes import holds

    found = {
        f"{result.kind}: {result.name}": result.problem for result in results if result.problem
    }
    return GateReport(name, version, holds(results), found)


async def _run_probes(
    agent: Agent, stage: CliSetup, program: str, version: str
) -> list[ProbeResult]:
    from tillerman.testing.gate_probe.probes import NOBODY, GateProbes
    from tillerman.testing.model_double.server import ModelDouble

    with tempfile.TemporaryDirectory(
        prefix="tillerman-gate-", ignore_cleanup_errors=True
    ) as folder:
        place = Path(folder).resolve()
        home, project, scratch = (place / name for name in ("home", "project", "scratch"))
        for made in (home, project, scratch):
            made.mkdir()
        async with ModelDouble() as double:
            stage.prepare(home, double.base_url)
            gate_probes = GateProbes(stage, version, double, project=project, marks=place / "marks")
            environment = stage.clean_environment(
                double.base_url,
                version,
                home=home,
                path=os.environ.get("PATH", os.defpath),
                scratch=scratch,
            )
            spec = session_spec(
                cwd=project,
                model=stage.model,
                servers=gate_probes.servers,
                options={**stage.options, "binary": program},
            )
            run_settings = RunSettings(tools=NOBODY, environment=environment, limits=_LIMITS)
            paths = find_paths({"TILLERMAN_HOME": str(place / "tillerman")})
            database = Database.open(paths.store)
            sessions = Sessions(paths, database)
            try:
                return await gate_probes.run(await sessions.start(agent, spec, run_settings))
            finally:
                await sessions.close()
                database.close()
