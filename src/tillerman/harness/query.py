"""One prompt in one call: starts a session, runs its turn, and closes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Unpack

from tillerman.core.agent import File
from tillerman.core.events import Entry
from tillerman.core.session_options import StartOptions, as_prompt
from tillerman.core.transcript.turn_result import Result
from tillerman.harness.harness import open_harness
from tillerman.sessions.session import Session

PATIENCE = 2.0  # seconds between looks at the open requests

_logger = logging.getLogger(__name__)


async def query(
    prompt: str,
    *,
    agent: str | None = None,
    files: Sequence[File] = (),
    title: str | None = None,
    **options: Unpack[StartOptions],
) -> AsyncGenerator[Entry, None]:
    """Yields every entry of the turn. The session stays in the store, and can be resumed."""
    as_prompt(prompt, files)  # refused before a session exists
    async with (
        open_harness(cwd=options.get("cwd") or ".") as harness,
        await harness.start(agent, title=title, **options) as session,
        aclosing(session.run(prompt, files=files)) as entries,
    ):
        async for entry in entries:
            yield entry


async def ask(
    prompt: str,
    *,
    agent: str | None = None,
    files: Sequence[File] = (),
    title: str | None = None,
    **options: Unpack[StartOptions],
) -> Result:
    """Returns the result of the turn. The session stays in the store, and can be resumed."""
    as_prompt(prompt, files)
    async with (
        open_harness(cwd=options.get("cwd") or ".") as harness,
        await harness.start(agent, title=title, **options) as session,
        _reporting_requests(session, by_callback=bool(options.get("on_permission"))),
    ):
        return await session.ask(prompt, files=files)


@asynccontextmanager
async def _reporting_requests(session: Session, *, by_callback: bool) -> AsyncIterator[None]:
    """Logs the requests that stay open: the caller of `ask` sees no entry, and could only wait."""
    if by_callback:  # it may take longer
        yield
        return
    reporting = asyncio.create_task(_report_requests(session))
    try:
        yield
    finally:
        reporting.cancel()


async def _report_requests(session: Session) -> None:
    reported: set[str] = set()
    while True:
        await asyncio.sleep(PATIENCE)
        for request in set(session.open_requests) - reported:
            reported.add(request)
            name = f"{session.id}/{request}"
            _logger.warning(
                "the agent waits for an answer: `tillerman requests answer %s allow` gives one; "
                "`approve` and `on_permission` decide in code",
                name,
            )
