"""Doctor checks of agents: installed, tested version, signed in, and passed environment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tillerman.config import Config
from tillerman.core.version_check import standing
from tillerman.harness.agent_admin import AgentAdmin, AgentStatus
from tillerman.supervision.environment import child_environment
from tillerman.surfaces.cli.checks.finding import Finding
from tillerman.surfaces.cli.checks.machine import node_version
from tillerman.surfaces.cli.views.progress import ask_all
from tillerman.surfaces.rendering.agent_reports import signed_in, state, tested

_AT_LEAST = re.compile(r"\s*(?:>=|\^|~)?\s*v?(\d+(?:\.\d+)*)")


async def agents(management: AgentAdmin, config: Config, max_wait: float) -> list[Finding]:
    async def report(name: str) -> AgentStatus:
        return await management.report(name, max_wait=max_wait)

    found = await ask_all(management.names(), report)
    reports = [one for one in found.values() if isinstance(one, AgentStatus)]
    node = await node_version() if any(map(_engine, reports)) else None
    chosen = config.agent.split(",") if "agent" in config.sources else []
    stuck = not any(one.ready for one in reports if one.name in chosen)
    findings, absent = [], []
    for one in reports:
        needed = stuck and one.name in chosen
        if one.present or needed:
            findings.append(_finding(one, needed))
        else:
            absent.append(one.name)
        findings += _beside(one, node)
    if absent:
        text = f"not installed: {', '.join(absent)}"
        findings.append(
            Finding("agents", "note", text, "`tillerman agents` shows how to install them")
        )
    return findings


def _finding(one: AgentStatus, needed: bool) -> Finding:
    """Level bad if the agent is configured and none of the configured agents works."""
    parts = [f"{one.name}: {state(one)}"]
    if one.installed and one.installed.path:
        parts.append(f"{one.installed.version or 'unknown version'} at {one.installed.path}")
    if who := signed_in(one):
        parts.append(f"signed in {who}")
    if one.problem:
        parts.append(one.problem)
    if one.ready:
        return Finding("agents", "ok", ", ".join(parts))
    return Finding("agents", "bad" if needed else "note", ", ".join(parts), _fix_for(one))


def _fix_for(one: AgentStatus) -> str:
    if not one.present:
        return one.install
    if one.account and not one.account.signed_in:
        return one.account.hint
    again = f"; to reinstall it: {one.install}" if one.install else ""
    path = one.installed and one.installed.path
    return f"check the output of `{path or one.name} --version`{again}"


def _beside(one: AgentStatus, node: str | None) -> Iterator[Finding]:
    if one.notice:
        step = "it may work; report any problems"
        newer = one.installed and standing(one.tested, one.installed.version) == "newer"
        fix = step if newer else f"update to a tested version ({tested(one)}): {one.install}"
        yield Finding("agents", "note", one.notice, fix)
    needs = _engine(one)
    if needs and node is None:
        text = f"{one.name} requires Node {needs}, but there is no `node` on PATH"
        yield Finding("agents", "note", text, f"install Node {needs} or newer")
    elif needs and node and standing((needs, "9999"), node) == "older":
        text = f"{one.name} requires Node {needs}, but `node` is {node}"
        yield Finding("agents", "note", text, f"install Node {needs} or newer")


def _engine(one: AgentStatus) -> str | None:
    """Minimum Node version from the `package.json` of the agent's program."""
    if not (one.installed and one.installed.path):
        return None
    program = Path(one.installed.path).resolve()
    try:
        with program.open("rb") as file:
            if b"node" not in file.read(64).split(b"\n")[0]:
                return None  # a native executable
        for folder in program.parents:
            package = folder / "package.json"
            if package.is_file():
                wanted = json.loads(package.read_text("utf-8")).get("engines", {}).get("node", "")
                match = _AT_LEAST.match(wanted)
                return match[1] if match else None
    except (OSError, ValueError, AttributeError):
        pass
    return None


async def environment(management: AgentAdmin) -> list[Finding]:
    """Lists variable names only, never values."""
    usual = child_environment(dict.fromkeys(os.environ, ""), (), ()).variables
    findings = [Finding("environment", "ok", f"passed to every agent: {_listed(usual)}")]
    for name in management.names():
        try:
            agent = management.agent(name)
        except Exception:  # reported by the check of agents
            continue
        if own := management.environment(agent).keys() - usual.keys():
            findings.append(Finding("environment", "ok", f"also passed to {name}: {_listed(own)}"))
    return findings


def _listed(names: Iterable[str]) -> str:
    return " ".join(sorted(names)) or "nothing"
