"""Generates the Cursor plugin whose hooks send requests, and checks that the CLI supports it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tillerman.agents.cursor import hook_dialect as cursor
from tillerman.agents.stdio.line_process import LineProcess
from tillerman.core.agent import Host
from tillerman.core.version_check import numbers
from tillerman.hooks.server import HookServer, timeout_for

SINCE = "2026.08.11"  # in print mode
_OBSERVED = ("postToolUse", "postToolUseFailure", "afterFileEdit", "afterAgentThought",
             "subagentStop", "preCompact")  # fmt: skip
_VERSION = re.compile(r"\d{4}\.\d\d\.\d\d(-\w+)?")
_ASKED_WITHIN = 10.0  # seconds for the CLI to report its version
_BRIEF = 10.0  # seconds for a hook that the CLI does not wait for


def files(hooks: HookServer, version: str, max_wait: float | None) -> dict[str, bytes]:
    """The files of the plugin folder."""
    timeout = timeout_for(max_wait)
    gates = {each: hooks.command("cursor", each, timeout=timeout) for each in cursor.CALLS}
    begin = {"sessionStart": hooks.command("cursor", "sessionStart", timeout=_BRIEF)}
    observed = {
        each: hooks.command("cursor", each, timeout=_BRIEF, observing=True) for each in _OBSERVED
    }
    return cursor.config({**begin, **gates, **observed}, version, timeout=timeout)


async def version_of(program: str | None, host: Host) -> str | None:
    """The version, from the folder of the installed program or by running it; None if unknown."""
    if program is None or not Path(program).is_file():
        return None
    name = Path(program).resolve().parent.name
    if _VERSION.fullmatch(name):
        return name
    process = await LineProcess.start(host, [program, "--version"], cwd=Path("/"), env={})
    process.close_stdin()
    output = b""
    try:
        async with asyncio.timeout(_ASKED_WITHIN):
            async for batch in process.lines():
                output += b" ".join(line for line in batch if isinstance(line, bytes))
    except TimeoutError:
        return None
    finally:
        await process.kill()
    found = _VERSION.search(output.decode("utf-8", "replace"))
    return found[0] if found else None


def runs(version: str | None) -> bool:
    return version is not None and numbers(version) >= numbers(SINCE)
