"""One prompt in one call: starts a session, runs its turn, and closes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Unpack

from tillerman.core.agent import File
from tillerman.core.events import Entry
from tillerman.core.session_options import StartOptions
from tillerman.core.transcript.turn_result import Result
from tillerman.harness.harness import open_harness


async def query(
    prompt: str,
    *,
    agent: str | None = None,
    files: Sequence[File] = (),
    title: str | None = None,
    **options: Unpack[StartOptions],
) -> AsyncGenerator[Entry, None]:
    """Yields every entry of the turn. The session stays in the store, and can be resumed."""
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
    async with (
        open_harness(cwd=options.get("cwd") or ".") as harness,
        await harness.start(agent, title=title, **options) as session,
    ):
        return await session.ask(prompt, files=files)
