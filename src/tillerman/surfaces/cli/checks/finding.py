"""Findings of doctor checks, and the runner that executes checks concurrently with timeouts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct

from tillerman.core.errors import TillermanError


class Finding(Struct, frozen=True):
    about: str
    level: Literal["ok", "note", "bad"]
    text: str
    fix: str = ""


Check = Callable[[], Coroutine[Any, Any, Iterable[Finding]]]


async def all_of(checks: dict[str, tuple[Check, float | None]]) -> list[Finding]:
    """Findings in the order of the checks. Each check has a timeout in seconds, or None."""
    ran = (_bounded(about, check, limit) for about, (check, limit) in checks.items())
    return [finding for found in await asyncio.gather(*ran) for finding in found]


async def _bounded(about: str, check: Check, limit: float | None) -> list[Finding]:
    try:
        async with asyncio.timeout(limit):
            return list(await check())
    except TimeoutError:
        return [Finding(about, "bad", f"could not be checked within {limit:g} s")]
    except TillermanError as error:
        return [Finding(about, "bad", error.message, error.hint)]
    except Exception as error:  # one failing check must not hide the others
        return [Finding(about, "bad", f"could not be checked: {type(error).__name__}: {error}")]


async def in_thread(work: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Runs `work` in a daemon thread, so that a hanging disk cannot block the exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[list[Finding]] = loop.create_future()

    def settle(result: list[Finding] | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error:
            done.set_exception(error)
        else:
            done.set_result(result or [])

    def run() -> None:
        try:
            result, error = list(work()), None
        except BaseException as caught:
            result, error = None, caught
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, daemon=True).start()
    return await done
