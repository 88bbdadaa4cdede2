"""`tillerman doctor --gate`: probes before which tool calls the installed agents ask."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from typing import get_args

from tillerman.core.errors import AgentNotInstalled, TillermanError, UsageError
from tillerman.core.tools import ToolClass
from tillerman.harness.agent_admin import AgentAdmin, AgentStatus
from tillerman.harness.gate_probe import GateReport, probe_gate
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, width
from tillerman.surfaces.cli.views.progress import ask_all
from tillerman.surfaces.rendering.ansi_style import Style

CLASSES = get_args(ToolClass)
HEAD = ("AGENT", "VERSION", *(kind.upper() for kind in CLASSES))
COLORS = {"enforced": "green", "advisory": "yellow", "none": "red"}


def gate(options: Namespace) -> int:
    """Exit code 1 if an agent asks for fewer tool classes than declared in its info."""
    management, _ = open_harness.management(options)
    proofs = asyncio.run(_proofs(management, options.gate))
    short = {proof.agent: _short(management, proof) for proof in proofs}
    if options.json:
        emit_json(proofs)
    elif not proofs:
        emit("no installed agent has a gate; `tillerman agents` shows how to install one")
    else:
        style = Style(colored(options, sys.stdout))
        emit(table([_cells(proof, style) for proof in proofs], HEAD, style, width()))
        emit(*(style("dim", line) for line in _notes(proofs)))
        for name, classes in short.items():
            if classes:
                text = f"{name} does not ask before all calls it declares: {', '.join(classes)}"
                emit(style("red", f"{text}; use a tested version (`tillerman agents {name}`)"))
    return 1 if any(short.values()) else 0


async def _proofs(management: AgentAdmin, wanted: str) -> list[GateReport]:
    if wanted:
        management.agent(wanted)  # raises if it is unknown
    names = [wanted] if wanted else _with_programs(management)
    reported = await ask_all(names, management.report)
    found = [one for one in reported.values() if isinstance(one, AgentStatus) and one.present]
    failed = {name: why for name, one in reported.items() if (why := _problem(one))}
    if wanted and not found and not failed:
        agent = management.agent(wanted)
        raise AgentNotInstalled(wanted, binary=agent.info.binary or wanted, hint=agent.info.install)
    here = {one.name: one for one in found if one.installed and one.installed.path}
    if wanted and not here and not failed:
        raise UsageError(
            f"{wanted} has no separate program to probe",
            hint="`tillerman agents` lists agents that have one",
        )

    async def prove_one(name: str) -> GateReport:
        installed = here[name].installed
        assert installed
        assert installed.path
        return await probe_gate(management.agent(name), installed.path, installed.version or "")

    tried = await ask_all(list(here), prove_one)
    failed |= {name: one.message for name, one in tried.items() if isinstance(one, TillermanError)}
    proofs = {name: one for name, one in tried.items() if isinstance(one, GateReport)}
    proofs = {name: GateReport(name, problem=why) for name, why in failed.items()} | proofs
    return [proofs[name] for name in names if name in proofs]


def _problem(reported: AgentStatus | TillermanError) -> str:
    """Why it is unknown whether the agent is installed; empty if it is known."""
    if isinstance(reported, TillermanError):
        return reported.message
    return "" if reported.installed else reported.problem or ""


def _with_programs(management: AgentAdmin) -> list[str]:
    return [name for name in management.names() if management.agent(name).info.binary]


def _short(management: AgentAdmin, proof: GateReport) -> list[ToolClass]:
    """Declared tool classes that the probe found not enforced."""
    claims = management.agent(proof.agent).info.asks
    return [kind for kind, hold in proof.holds.items() if kind in claims and hold != "enforced"]


def _cells(proof: GateReport, style: Style) -> tuple[str, ...]:
    if proof.problem:
        return (proof.agent, proof.version, *["?"] * len(CLASSES))
    holds = [proof.holds.get(kind, "–") for kind in CLASSES]
    cells = (style(COLORS[hold], hold) if hold in COLORS else hold for hold in holds)
    return (proof.agent, proof.version, *cells)


def _notes(proofs: Iterable[GateReport]) -> Iterator[str]:
    yield "enforced: every call waits for approval, and a denied call never runs. advisory: not"
    yield "true of every call. none: calls run without approval. –: the agent has no such tool."
    for proof in proofs:
        if proof.problem:
            yield f"{proof.agent}: not probed: {proof.problem}"
        for call, why in proof.found.items():
            yield f"{proof.agent}, {call}: {' '.join(why.split())[:160]}"
