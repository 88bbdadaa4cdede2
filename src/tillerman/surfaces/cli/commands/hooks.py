"""`tillerman hooks`: installs and removes policy hooks in agent CLIs that users run directly."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from tillerman.config import find_paths
from tillerman.config.project_trust import repository
from tillerman.core.errors import AgentError, UsageError
from tillerman.core.terminal_sanitizer import clean
from tillerman.hooks.backup_journal import BackupJournal
from tillerman.hooks.dialects import agents_with_hooks, load
from tillerman.hooks.install import Outcome
from tillerman.hooks.install import install as put_in
from tillerman.hooks.install import remove as take_out
from tillerman.hooks.install import repair as fix
from tillerman.hooks.install_plan import HookStatus, Scope, planned, switched_off
from tillerman.hooks.install_plan import status as status_of
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, warn, width
from tillerman.surfaces.rendering.ansi_style import Style

_UNDONE: dict[Outcome, str] = {
    "restored": "was restored",
    "edited": "keeps your changes; only tillerman's hooks were removed",
    "gone": "no longer exists",
}


def install(options: Namespace) -> int:
    if not options.agents:
        raise UsageError(
            "no agent given", hint=f"those with hooks: {', '.join(agents_with_hooks())}"
        )
    journal, project = _journal(), _project()
    for agent in options.agents:
        load(agent)  # raises for an unknown agent before anything is written
    for agent in options.agents:
        hooks = planned(agent, project, _scope(options) or "project", version=_version(agent))
        put_in(hooks, journal)
        emit(f"{agent}: {clean(str(hooks.file))} asks tillerman before each call")
        for file in switched_off(agent, project):
            warn(f"{file} disables all hooks: {agent} will not ask tillerman")
        if trust := load(agent).PLACE.trust:
            emit(f"  {trust}")
    emit("Your policy decides; `tillerman policy explain` shows its decisions.")
    return 0


def remove(options: Namespace) -> int:
    journal = _journal()
    done = 0
    for agent, scope in _chosen(options):
        hooks = planned(agent, _project(), scope)
        file = hooks.file
        if outcome := take_out(file, journal, hooks):
            emit(f"{agent}: {clean(str(file))} {_UNDONE[outcome]}")
            done += 1
    if not done:
        emit("tillerman has no hooks here.")
    return 0


def status(options: Namespace) -> int:
    journal = _journal()
    for file, outcome in fix(journal).items():
        warn(f"{file} still had hooks of a killed tillerman; it {_UNDONE[outcome]}")
    rows = [
        status_of(planned(agent, _project(), scope), scope, journal)
        for agent, scope in _chosen(options)
    ]
    if options.json:
        emit_json(rows)
        return 0
    shown = [row for row in rows if row.state != "absent" or row.others or row.problem]
    if not shown:
        emit("There are no hooks here.")
        return 0
    style = Style(colored(options, sys.stdout))
    cells = [
        (row.agent, row.scope, row.state, ", ".join(row.events) or "-", _notes(row), row.file)
        for row in shown
    ]
    heads = ("AGENT", "FOR", "TILLERMAN", "ASKED AT", "NOTES", "FILE")
    emit(table(cells, heads, style, width()))
    return 0


def _notes(row: HookStatus) -> str:
    others = sum(row.others.values())
    notes = [
        row.problem,
        f"missing: {', '.join(row.missing)}" if row.missing else "",
        f"{others} by others" if others else "",
    ]
    return "; ".join(filter(None, notes)) or "-"


def _chosen(options: Namespace) -> list[tuple[str, Scope]]:
    scope = _scope(options)
    scopes: Sequence[Scope] = (scope,) if scope else ("project", "user")
    return [(agent, one) for agent in options.agents or agents_with_hooks() for one in scopes]


def _scope(options: Namespace) -> Scope | None:
    scope: Scope | None = options.scope
    return scope


def _project() -> Path:
    here = Path.cwd().resolve()
    return repository(here) or here


def _journal() -> BackupJournal:
    return BackupJournal(find_paths().hooks)


def _version(agent: str) -> str | None:
    """Version of the CLI, which may lack some hook events; None if it is not installed."""
    from tillerman.config import load as load_config
    from tillerman.harness.agent_admin import AgentAdmin

    management = AgentAdmin(load_config(Path.cwd()), find_paths())
    try:
        found = asyncio.run(management.installed(agent))
    except AgentError:
        return None
    return found.version if found else None
