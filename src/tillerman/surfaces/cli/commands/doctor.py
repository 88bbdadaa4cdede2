"""`tillerman doctor`: checks everything a session depends on, and suggests fixes."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

from tillerman.config import Config, find_paths, load
from tillerman.core.errors import TillermanError
from tillerman.core.terminal_sanitizer import clean
from tillerman.harness.agent_admin import AgentAdmin
from tillerman.surfaces.cli.checks import agents, files, machine
from tillerman.surfaces.cli.checks.finding import Finding, all_of, in_thread
from tillerman.surfaces.cli.views.output import colored, emit, emit_json
from tillerman.surfaces.rendering.ansi_style import Style

QUICK = 10.0  # seconds
ROUNDS = 4  # maximum batches of slow agents


def doctor(options: Namespace) -> int:
    if options.gate is not None:
        from tillerman.surfaces.cli.commands.doctor_gate import gate  # lazy: loads a web server

        return gate(options)
    findings = asyncio.run(_findings(options))
    if options.json:
        emit_json(findings)
    else:
        _print(findings, Style(colored(options, sys.stdout)))
    return 1 if any(finding.level == "bad" for finding in findings) else 0


async def _findings(options: Namespace) -> list[Finding]:
    paths = find_paths()
    try:
        config = load(Path.cwd(), paths=paths)
    except TillermanError:  # reported by the config check; use the defaults
        config = Config(paths=paths)
    management = AgentAdmin(config, paths)
    rest = ROUNDS * max(options.wait, QUICK)
    store = partial(files.store, paths, options.full)
    return await all_of(
        {
            "program": (machine.programs, QUICK),
            "agents": (partial(agents.agents, management, config, options.wait), rest),
            "environment": (partial(agents.environment, management), QUICK),
            "supervision": (partial(machine.supervision, config), QUICK),
            "enforcement": (partial(machine.enforcement, config), QUICK),
            "isolation": (machine.isolation, 3 * QUICK),
            "store": (partial(in_thread, store), None if options.full else 6 * QUICK),
            "files": (partial(in_thread, partial(files.leftovers, paths)), 3 * QUICK),
            "config": (partial(in_thread, partial(files.config, paths)), QUICK),
        }
    )


def _print(findings: list[Finding], style: Style) -> None:
    marks = {"ok": style("green", "✓"), "note": style("yellow", "!"), "bad": style("red", "✗")}
    last = ""
    for finding in findings:
        if finding.about != last:
            emit(*([""] if last else []), style("bold", finding.about.capitalize()))
            last = finding.about
        emit(f"  {marks[finding.level]} {_flat(finding.text)}")
        if finding.fix:
            emit(f"    {style('dim', 'fix:')} {_flat(finding.fix)}")


def _flat(text: str) -> str:
    return " ".join(clean(text).split())
