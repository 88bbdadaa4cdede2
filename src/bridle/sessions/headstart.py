"""A session's warden and its agent's program, started while the rest of bridle still loads.

It changes nothing but the time: the session asks for the same program in the same words and gets
this one, or asks in others, and this one is ended.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from bridle.agents.stdio import StdioAgent, found
from bridle.core.agent import Agent, SessionSpec
from bridle.sessions.terms import Terms
from bridle.supervision.launch import Launched, launch, spawn_early


class HeadStart(NamedTuple):
    session: str
    launched: Launched


def begin(records: Path, agent: Agent, spec: SessionSpec, terms: Terms) -> HeadStart | None:
    """None where the program is not known before there is a prompt."""
    if not isinstance(agent, StdioAgent):
        return None
    wire = agent.wire(spec)
    if wire.lifetime != "session":
        return None
    path = terms.environment.get("PATH")
    program = found(
        agent.info, spec, wire.launch(spec, None), lambda name: shutil.which(name, path=path)
    )
    session = new_session()
    launched = launch_warden(records, session, terms)
    whole = {**terms.environment, **program.env}
    return HeadStart(session, spawn_early(launched, program.argv, cwd=spec.cwd, env=whole))


def new_session() -> str:
    return os.urandom(5).hex()


def launch_warden(records: Path, session: str, terms: Terms) -> Launched:
    marker = f"{session}-{os.urandom(3).hex()}"  # a session may have several, one after the other
    return launch(level=terms.supervision, records=records, marker=marker)
