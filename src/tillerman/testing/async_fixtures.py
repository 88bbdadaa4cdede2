"""The fixtures of `pytest_plugin` that need an event loop."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

import pytest

if TYPE_CHECKING:
    import tillerman
    from tillerman.core.session_options import ResumeOptions
    from tillerman.testing.pytest_plugin import MockOptions

F = TypeVar("F")


def _decorator() -> Callable[[F], F]:
    """In its strict mode pytest-asyncio runs only the fixtures that are marked as its own."""
    made: Any = pytest.fixture
    if "pytest_asyncio" in sys.modules:
        import pytest_asyncio

        made = pytest_asyncio.fixture
    return cast(Callable[[F], F], made)


@_decorator()
async def tillerman_harness(
    tillerman_home: Path, tillerman_project: Path
) -> AsyncIterator[tillerman.Harness]:
    """An open `tillerman.Harness`."""
    import tillerman

    async with tillerman.open(cwd=tillerman_project) as harness:
        yield harness


@pytest.fixture
def tillerman_mock(
    tillerman_harness: tillerman.Harness, tillerman_script: Callable[..., MockOptions]
) -> Callable[..., Awaitable[tillerman.Session]]:
    """Starts a session whose agent plays the steps of each turn, whatever the prompt."""

    async def start(
        *turns: list[dict[str, Any]], **options: Unpack[ResumeOptions]
    ) -> tillerman.Session:
        script = tillerman_script(*turns)
        options["options"] = script["options"]
        return await tillerman_harness.start(script["agent"], **options)

    return start


@pytest.fixture
def tillerman_replay(
    tillerman_harness: tillerman.Harness,
) -> Callable[..., Awaitable[tillerman.Session]]:
    """Starts a session that plays a recorded one again: its entries, one JSON object a line."""

    async def start(path: Path | str, **options: Unpack[ResumeOptions]) -> tillerman.Session:
        return await tillerman_harness.start(f"replay:{path}", **options)

    return start
