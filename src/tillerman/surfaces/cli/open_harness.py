"""Opens the harness or the agent administration for one CLI command."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import SessionNotFound, UsageError

if TYPE_CHECKING:
    from tillerman.config import Config
    from tillerman.harness.agent_admin import AgentAdmin
    from tillerman.harness.harness import Harness
    from tillerman.store.session_row import SessionRow

Work = Callable[["Harness", Namespace], Coroutine[Any, Any, int]]


@asynccontextmanager
async def harness(options: Namespace, cwd: Path | str = ".") -> AsyncIterator[Harness]:
    import tillerman
    from tillerman.sessions.enforcement.temporary_folder import remove_open_scratches

    try:
        async with tillerman.open(cwd=cwd) as opened:
            options.color = options.color or opened.config.color
            if opened.salvaged:
                sys.stderr.write(f"{opened.salvaged}\n")
            _print_withheld(opened.config)
            opened.sessions.watch_storage(_storage_changed)
            yield opened
    finally:
        remove_open_scratches()


def _storage_changed(storage: str) -> None:
    from tillerman.surfaces.cli.views.output import warn

    if storage == "full":
        warn("the disk of the store is full: waiting for space", "Ctrl-C twice to exit at once")


def command(work: Work) -> Callable[[Namespace], int]:
    """Wraps a function of harness and options as a CLI command."""

    async def run(options: Namespace) -> int:
        async with harness(options) as found:
            return await work(found, options)

    def started(options: Namespace) -> int:
        import asyncio  # lazy: not needed to report an invalid option

        return asyncio.run(run(options))

    return started


def management(options: Namespace) -> tuple[AgentAdmin, Config]:
    """Opens only the agent administration, without opening or repairing the store."""
    from tillerman.config import find_paths, load
    from tillerman.harness.agent_admin import AgentAdmin

    paths = find_paths()
    config = load(Path.cwd(), paths=paths)
    options.color = options.color or config.color
    _print_withheld(config)
    return AgentAdmin(config, paths), config


def row(harness: Harness, session: str, folder: Path | None = None) -> SessionRow:
    """Finds a session by its id, a prefix of it, or `last`: the newest of the folder."""
    try:
        return harness.sessions.catalog.get(session, cwd=str(folder or Path.cwd()))
    except SessionNotFound:
        if session != "last":
            raise
        raise UsageError(
            "there is no earlier session in this folder", hint="`tillerman sessions list`"
        ) from None


def preset(harness: Harness, session: str) -> str:
    """The approval preset of a session."""
    return str(harness.find(session).settings.get("approve") or harness.config.approve)


def resumable(harness: Harness, agent: str) -> bool:
    """False for replay agents and unknown agents.

    Agents that cannot resume natively receive a summary of the history instead.
    """
    name = agent if agent.startswith("acp:") else agent.partition(":")[0]
    try:
        harness.agent(name)
    except Exception:  # a third-party module may be missing or raise anything
        return False
    return name != "replay"


def _print_withheld(config: Config) -> None:
    if not config.withheld:
        return
    from tillerman.surfaces.cli.views.output import warn

    keys = ", ".join(held.key for held in config.withheld)
    warn(
        f"settings of this project are ignored: {keys[:200]}",
        hint="`tillerman config show` shows why, `tillerman trust` enables them",
    )
