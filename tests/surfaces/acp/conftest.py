"""Editors of one user, each with its own `tillerman acp`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.acp.editor import Editor
from tests.surfaces.conftest import Bench

StartEditor = Callable[..., Awaitable[Editor]]


@pytest.fixture
async def open_editor(bench: Bench) -> AsyncIterator[StartEditor]:
    """Starts an editor, initialized with these capabilities."""
    editors: list[Editor] = []

    async def start(*words: str, agent: str = "mock", **capabilities: Any) -> Editor:
        editor = await Editor.start(bench.project, bench.environment, *words, agent=agent)
        editors.append(editor)
        await editor.initialize(**capabilities)
        return editor

    yield start
    for editor in editors:
        await editor.close()


@pytest.fixture
async def editor(open_editor: StartEditor) -> Editor:
    return await open_editor()


@pytest.fixture
def project(bench: Bench) -> Path:
    return bench.project
