"""`tillerman acp`: an agent for editors that speak the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from tillerman.surfaces.cli import open_harness, preconditions
from tillerman.surfaces.cli.commands import login
from tillerman.surfaces.cli.parsing import run_options


def serve(options: Namespace) -> int:
    if options.login:
        options.agent = options.login
        return login.login(options)
    preconditions.need_client("set `tillerman acp` as the command of an agent in your editor")
    if sys.stdin.isatty():
        sys.stderr.write("waiting for an editor on standard input; Ctrl-C to exit\n")
    return asyncio.run(_serve(options, _requested(options)))


def _requested(options: Namespace) -> dict[str, Any]:
    said = {
        **run_options.limits(options),
        "effort": options.effort,
        "env": tuple(options.env),
        "workspace_tools": options.workspace_tools or None,
    }
    return {name: value for name, value in said.items() if value not in (None, ())}


async def _serve(options: Namespace, requested: dict[str, Any]) -> int:
    from tillerman.sessions.remote.line_stream import standard_streams
    from tillerman.surfaces.acp.server import LONGEST_LINE, AcpServer

    reader, writer = await standard_streams(LONGEST_LINE)
    os.dup2(2, 1)  # nothing but the protocol is written to the editor
    async with open_harness.harness(options, Path.cwd()) as harness:
        server = AcpServer(harness, writer, options.agent, requested)
        work = asyncio.ensure_future(server.serve(reader))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work
    writer.close()
    return 0
