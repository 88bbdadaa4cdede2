"""Queries many agents concurrently."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tillerman.core.errors import TillermanError

AT_ONCE = max(2, min(8, 2 * (os.cpu_count() or 1)))  # most agents start slowly and CPU-bound

T = TypeVar("T")


async def ask_all(
    names: Sequence[str],
    ask: Callable[[str], Awaitable[T]],
    received: Callable[[str], None] = lambda name: None,
) -> dict[str, T | TillermanError]:
    """Results in the order of `names`; a failed query yields its error instead."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> T | TillermanError:
        async with room:
            try:
                return await ask(name)
            except TillermanError as error:
                return error
            finally:
                received(name)

    answers = await asyncio.gather(*map(one, names))
    return dict(zip(names, answers, strict=True))
