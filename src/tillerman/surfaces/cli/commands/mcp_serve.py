"""`tillerman mcp serve`: serves the workspace tools to any MCP client, on stdio or HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.surfaces.cli import open_harness, preconditions
from tillerman.surfaces.cli.parsing import run_options

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness
    from tillerman.sessions.session import Session


def serve(options: Namespace) -> int:
    folder = run_options.working_folder(options)
    if options.http is None:
        preconditions.need_client(
            "start `tillerman mcp serve` from an MCP client, or use --http PORT"
        )
    return asyncio.run(_serve(options, folder))


async def _serve(options: Namespace, folder: Path) -> int:
    async with open_harness.harness(options, folder) as harness:
        session = await harness.serve(
            cwd=folder,
            resume=options.resume,
            approve=options.approve,
            isolation=options.isolation,
            request_timeout=options.request_timeout,
            env=tuple(options.env),
        )
        waits = asyncio.ensure_future(_report_waits(session))
        work = asyncio.ensure_future(_work(options, harness, session))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work
        waits.cancel()
    return 0


async def _report_waits(session: Session) -> None:
    """Says on standard error which calls wait for a user, and how to answer them."""
    from tillerman.surfaces.cli.views.follow import WaitNotice

    notice = WaitNotice(_StandardError(), session.id, session.request_limit)
    async for page in session.pages(session.last_seq):
        notice.note(page)


class _StandardError:
    async def report(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a client may read no errors
            _print(text)


async def _work(options: Namespace, harness: Harness, session: Session) -> None:
    from tillerman.mcp.direct_calls import DirectCalls
    from tillerman.mcp.line_transport import serve_lines
    from tillerman.mcp.server import workspace_server
    from tillerman.sessions.remote.line_stream import standard_streams
    from tillerman.sessions.remote.private_socket import LONGEST_LINE

    assert session.bench is not None
    if options.http is None:
        server = workspace_server(session.bench, asks=True)
        if sys.stdin.isatty():
            _print(
                f"session {session.id}: waiting for an MCP client on standard input; Ctrl-C to exit"
            )
        direct = DirectCalls(session.bench, asks=True)
        await serve_lines(server, *await standard_streams(LONGEST_LINE), direct)
        return
    from tillerman.http_server.token_file import token
    from tillerman.mcp.clients import Clients
    from tillerman.mcp.http_transport import PATH, listen, serve_http

    listener = listen(options.http)
    folder = harness.paths.state
    files = {"": folder / "mcp-token"}
    files |= {name: folder / "mcp-tokens" / name for name in options.client}
    tokens = {name: token(file) for name, file in files.items()}
    port = listener.getsockname()[1]
    _print(f"session {session.id}: http://127.0.0.1:{port}{PATH}, token in {files.pop('')}")
    for name, file in files.items():
        _print(f"the token of {name} is in {file}")
    clients = Clients()
    server = workspace_server(session.bench, asks=True, clients=clients)
    await serve_http(server, listener, tokens, clients)


def _print(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
