"""Starts a session's warden and agent program early, while the rest of tillerman loads.

It only saves time: if the session then spawns the same program with the same arguments, it gets
this one; otherwise this one is ended.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.core.errors import TillermanError
from tillerman.paths import find_paths
from tillerman.sessions.enforcement.temporary_folder import open_scratch, with_scratch
from tillerman.supervision.linux.which import find_program
from tillerman.supervision.protocol.launch_warden import LEVELS, Launched, launch, spawn_early

if TYPE_CHECKING:
    from tillerman.core.agent import Agent, SessionSpec
    from tillerman.sessions.run_settings import RunSettings
    from tillerman.workspace.protection.protected_state import State


class Prestart:
    def __init__(self, records: Path, level: str) -> None:
        self.session = new_session()
        self._records = records
        self._level = level
        self.launched = launch_warden(records, self.session, level)
        self.scans: Mapping[str, State] = {}  # states of protected names before the program started

    def spawn(self, agent: Agent, spec: SessionSpec, run_settings: RunSettings) -> None:
        """Spawns the agent's program, if `early_program` knows it."""
        from tillerman.sessions.enforcement.early_mounts import early_mounts
        from tillerman.supervision.exec_gate.settings import gate_settings
        from tillerman.workspace.protection.early_scan import early_scans

        if run_settings.supervision != self._level:
            self.drop()
            self.launched = launch_warden(self._records, self.session, run_settings.supervision)
        if program := early_program(agent, spec, run_settings):
            argv, own = program
            scratch = open_scratch(run_settings.environment, self.session)
            settings = gate_settings(
                run_settings.enforcement.commands,
                rules=run_settings.rules,
                tightening=run_settings.tightening,
                agent=agent.info.name,
                workspace=spec.cwd,
                path=run_settings.environment.get("PATH"),
            )
            self.scans = early_scans(str(spec.cwd))
            self.launched = spawn_early(
                self.launched,
                argv,
                cwd=spec.cwd,
                env={**with_scratch(run_settings.environment, scratch), **own},
                enforcement={
                    **({"exec": settings} if settings else {}),
                    **early_mounts(spec.cwd, run_settings),
                },
            )

    @property
    def running(self) -> bool:
        """Whether a program was requested and has not ended: somebody can still write its output.

        Only until a session takes it.
        """
        if self.launched.early is None:
            return False
        output = select.poll()
        output.register(self.launched.early.pipes[1], 0)
        return not output.poll(0)

    def drop(self) -> None:
        """Closes the connection; the warden then ends by itself."""
        launched = self.launched
        launched.control.close()
        os.close(launched.lifeline)
        for number in launched.early.pipes if launched.early else ():
            os.close(number)


def head_start() -> Prestart | None:
    """Launches a warden before the config is read, at the level that it will most likely name.

    None if that fails: the regular start will fail as well, and report the error.
    """
    named = os.environ.get("TILLERMAN_SUPERVISION", "")
    try:
        return Prestart(find_paths().spawns, named if named in LEVELS else "auto")
    except (OSError, RuntimeError, TillermanError):
        return None


def early_program(
    agent: Agent, spec: SessionSpec, run_settings: RunSettings
) -> tuple[list[str], dict[str, str]] | None:
    """Arguments and own variables of the agent's program. None if the program is unknown before
    the first prompt, or needs a file: the warden's folder is not safe before the warden holds it.
    """
    from tillerman.agents.stdio.agent import StdioAgent, found

    if not isinstance(agent, StdioAgent) or not (asked := agent.program(spec)):
        return None
    path = run_settings.environment.get("PATH")
    program = found(agent.info, spec, asked, lambda name: find_program(name, path))
    argv = [word for word in program.argv if isinstance(word, str)]
    env = {name: word for name, word in program.env.items() if isinstance(word, str)}
    whole = (len(argv), len(env)) == (len(program.argv), len(program.env))
    return (argv, env) if whole else None


def new_session() -> str:
    return os.urandom(5).hex()


def launch_warden(records: Path, session: str, level: str) -> Launched:
    marker = f"{session}-{os.urandom(3).hex()}"  # a session may have several wardens in sequence
    return launch(level=level, records=records, marker=marker)
