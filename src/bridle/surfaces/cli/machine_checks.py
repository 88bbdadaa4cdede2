"""What this machine offers: programs, levels of supervision, ways to confine a program."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from bridle.config import Config
from bridle.surfaces.cli.findings import Finding

_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_VERSION = 1
_PROBE = 5.0  # seconds for a program that only says its version


async def programs() -> list[Finding]:
    from bridle import __version__

    version = ".".join(map(str, sys.version_info[:3]))
    found = [Finding("program", "ok", f"bridle {__version__}, Python {version}, {sys.platform}")]
    if git := shutil.which("git"):
        found.append(Finding("program", "ok", f"git at {git}"))
    else:
        lost = "no git: changed files are found slowly, and there are no worktrees"
        found.append(Finding("program", "note", lost, "install git"))
    if (node := shutil.which("node")) is None:
        text = "no Node, which agents installed with npm need"
        found.append(Finding("program", "note", text, "install Node 22 or newer"))
    elif version := await node_version() or "":
        found.append(Finding("program", "ok", f"Node {version} at {node}"))
    else:
        text = f"{node} does not say its version"
        found.append(Finding("program", "note", text, "install Node 22 or newer"))
    return found


async def node_version() -> str | None:
    node = shutil.which("node")
    said = await _output(node, "--version") if node else None
    return said.removeprefix("v") if said else None


async def supervision(config: Config) -> list[Finding]:
    from bridle.supervision.tree import probe

    levels = await probe()
    usable = [level for level, reason in levels.items() if reason is None]
    wanted = config.supervision
    taken = wanted if wanted != "auto" else next(iter(usable), None)
    found = []
    for level, reason in levels.items():
        used = f" (taken, by supervision = {wanted!r})" if level == taken else ""
        if reason is None:
            found.append(Finding("supervision", "ok", f"{level}{used}"))
        elif level == taken:
            mend = "bridle config set supervision auto"
            found.append(Finding("supervision", "bad", f"{level}{used}: {reason}", mend))
        else:
            found.append(Finding("supervision", "note", f"{level}: {reason}"))
    if taken is None:
        text = "no level works: nothing would end an agent's programs for sure"
        found.append(Finding("supervision", "bad", text, "the reasons are above"))
    return found


async def sandbox() -> list[Finding]:
    """What an agent's commands could be confined with; none of it is needed by bridle itself."""
    found = []
    if (version := landlock()) > 0:
        found.append(Finding("sandbox", "ok", f"Landlock, version {version}"))
    else:
        text = "no Landlock: the kernel lacks it, or it is switched off"
        found.append(Finding("sandbox", "note", text, "Linux 5.13 or newer, with lsm=landlock,…"))
    if Path("/proc/sys/kernel/seccomp/actions_avail").exists():
        found.append(Finding("sandbox", "ok", "seccomp"))
    else:
        found.append(Finding("sandbox", "note", "no seccomp in this kernel"))
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        found.append(Finding("sandbox", "note", "no bubblewrap", "install bubblewrap (bwrap)"))
    elif await _output(bwrap, "--ro-bind", "/", "/", "--unshare-all", "echo", "fine") == "fine":
        found.append(Finding("sandbox", "ok", f"bubblewrap at {bwrap}, and it works"))
    else:
        text = f"bubblewrap at {bwrap} cannot make a sandbox here"
        mend = "allow user namespaces: sysctl user.max_user_namespaces"
        found.append(Finding("sandbox", "note", text, mend))
    return found


def landlock() -> int:
    """The version that the kernel has; 0 or less where it has none."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION))


async def _output(*words: str) -> str | None:
    """What a small program says; None if it fails, or does not end in time."""
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
            said, _ = await child.communicate()
    except TimeoutError:
        return None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, 9)
    return said.decode("utf-8", "replace").strip() if child.returncode == 0 else None
