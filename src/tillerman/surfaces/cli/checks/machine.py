"""Doctor checks of the machine: programs, supervision, kernel enforcement and isolation levels."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import suppress

from tillerman.config import Config
from tillerman.surfaces.cli.checks.finding import Finding

_HOLDS = {
    "basic": "clean environment; all processes end with the command",
    "medium": "no file, process or network outside the workspace (Landlock, seccomp)",
    "high": "a read-only container except for the workspace (bubblewrap)",
}
_PROBE = 5.0  # seconds; timeout of `--version` commands


async def programs() -> list[Finding]:
    from tillerman._version import __version__

    version = ".".join(map(str, sys.version_info[:3]))
    found = [Finding("program", "ok", f"tillerman {__version__}, Python {version}, {sys.platform}")]
    if git := shutil.which("git"):
        found.append(Finding("program", "ok", f"git at {git}"))
    else:
        lost = "no git: detecting changed files is slow, and worktrees are not available"
        found.append(Finding("program", "note", lost, "install git"))
    if (node := shutil.which("node")) is None:
        text = "no Node, which agents installed with npm require"
        found.append(Finding("program", "note", text, "install Node 22 or newer"))
    elif version := await node_version() or "":
        found.append(Finding("program", "ok", f"Node {version} at {node}"))
    else:
        text = f"{node} does not report its version"
        found.append(Finding("program", "note", text, "install Node 22 or newer"))
    return found


async def node_version() -> str | None:
    node = shutil.which("node")
    reported = await _output(node, "--version") if node else None
    return reported.removeprefix("v") if reported else None


async def supervision(config: Config) -> list[Finding]:
    from tillerman.supervision.client.supervision_levels import probe

    levels = await probe()
    usable = [level for level, reason in levels.items() if reason is None]
    wanted = config.supervision
    taken = wanted if wanted != "auto" else next(iter(usable), None)
    found = []
    for level, reason in levels.items():
        used = f" (used, supervision = {wanted!r})" if level == taken else ""
        if reason is None:
            found.append(Finding("supervision", "ok", f"{level}{used}"))
        elif level == taken:
            fix = "tillerman config set supervision auto"
            found.append(Finding("supervision", "bad", f"{level}{used}: {reason}", fix))
        else:
            found.append(Finding("supervision", "note", f"{level}: {reason}"))
    if taken is None:
        text = "no level works: an agent's processes could not be terminated reliably"
        found.append(Finding("supervision", "bad", text, "see the reasons above"))
    return found


async def enforcement(config: Config) -> list[Finding]:
    """Which policy rules the kernel enforces on this machine."""
    from tillerman.surfaces import rule_enforcement

    found = []
    checks = {
        "protected": rule_enforcement.protected_names,
        "paths": rule_enforcement.denied_paths,
        "commands": rule_enforcement.denied_commands,
    }
    for key, check in checks.items():
        state = await asyncio.to_thread(check, config)
        required = "mounts" if key == "protected" else "on"
        text = f"{state.what}: {state.state} ({state.why})"
        if state.state == "enforced":
            found.append(Finding("enforcement", "ok", text))
        elif getattr(config.enforcement, key) == required:
            fix = f"tillerman config set enforcement.{key} auto"
            found.append(Finding("enforcement", "bad", text, fix))
        else:
            found.append(Finding("enforcement", "note", text))
    return found


async def isolation() -> list[Finding]:
    """Available isolation levels; each level is actually tried."""
    from tillerman.supervision.isolation import LEVELS, refusal

    found = []
    for level in LEVELS:
        if (refused := await asyncio.to_thread(refusal, level)) is None:
            found.append(Finding("isolation", "ok", f"{level}: {_HOLDS[level]}"))
        else:
            found.append(Finding("isolation", "note", f"{level}: {refused.reason}", refused.hint))
    return found


async def _output(*words: str) -> str | None:
    """Output of a small program; None if it fails or times out."""
    child = await asyncio.create_subprocess_exec(
        *words,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_PROBE):
            reported, _ = await child.communicate()
    except TimeoutError:
        return None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, 9)
    return reported.decode("utf-8", "replace").strip() if child.returncode == 0 else None
