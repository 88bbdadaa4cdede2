"""Where the shims of a session's hooks ask: a socket that wakes up only when one does."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from tillerman.core.errors import UsageError
from tillerman.hooks import socket_folder as places
from tillerman.hooks.connection import HookAsked, HookConnection, HookLimits, HookListener
from tillerman.hooks.loopback_transport import LoopbackHookConnection
from tillerman.hooks.protocol import HookReply, is_name
from tillerman.hooks.shim import LONGEST, SHORTEST, Shim, ready_shim
from tillerman.paths import find_paths

__all__ = ["HookAsked", "HookLimits", "HookReply", "HookServer", "LendsHooks"]

BACKLOG = 1024  # a shim that finds the queue full waits, until its deadline
SHARE = 0.8  # of a CLI's patience with its hook is the shim's own deadline
LATER = 15.0  # seconds after which a shim gives up by itself, when our own clock has denied


def timeout_for(patience: float | None) -> int:
    """A CLI's own limit for its hook, in seconds, where an answer may take as long as `patience`.

    Our clock denies first, then the shim by itself. The CLI's may allow, and is last.
    """
    deadline = LONGEST if patience is None else min(patience + LATER, LONGEST)
    return math.floor(deadline / SHARE)


@runtime_checkable
class LendsHooks(Protocol):
    """A host of conversations whose programs ask by hooks."""

    async def hooks(
        self, asked: Callable[[HookAsked], None], overdue: Callable[[int | None], None]
    ) -> HookServer:
        """Whoever opens it closes it.

        `overdue` is told of a hook that was asked, and neither waits nor ends in time.
        """
        ...


class HookServer:
    def __init__(
        self, folder: Path, shim: Shim, reception: HookListener, server: asyncio.Server
    ) -> None:
        self.folder = folder
        self.shim = shim
        self._reception = reception
        self._server = server

    @classmethod
    async def open(
        cls,
        folder: Path,
        asked: Callable[[HookAsked], None],
        *,
        overdue: Callable[[int | None], None] = lambda pid: None,
        shim: Shim | None = None,
        limits: HookLimits | None = None,
        unix: bool = hasattr(socket, "AF_UNIX"),
    ) -> HookServer:
        """`overdue` is told of a shim that was stopped: its pid, where the system knows it."""
        if shim is None:
            shim = await asyncio.to_thread(ready_shim, find_paths().cache, compiled=unix)
        folder = places.make_folder(folder)
        reception = HookListener(places.new_tokens(folder), limits or HookLimits(), asked, overdue)
        loop = asyncio.get_running_loop()
        if unix:
            server = await loop.create_unix_server(
                lambda: HookConnection(reception), sock=places.listen_here(folder), backlog=BACKLOG
            )
        else:
            server = await loop.create_server(
                lambda: LoopbackHookConnection(reception),
                sock=places.listen_on_loopback(folder),
                backlog=BACKLOG,
            )
        return cls(folder, shim, reception, server)

    def command(self, agent: str, event: str, *, timeout: float, observing: bool = False) -> str:
        """The line for a CLI's hook config; `timeout` is the CLI's own for it, in seconds.

        Whatever happens to the shim, the line blocks; an observing one holds nobody up.
        """
        if not (is_name(agent) and is_name(event)):
            raise UsageError(f"{agent!r} and {event!r} cannot be named in a hook's command")
        deadline = min(max(timeout * SHARE, SHORTEST), LONGEST)
        self._reception.arrival = min(self._reception.arrival, deadline)
        return self.shim.command(self.folder, agent, event, deadline, observing=observing)

    async def close(self) -> None:
        """Shims that still wait are let go without an answer, which denies."""
        self._server.close()
        places.remove_files(self.folder)
        with contextlib.suppress(OSError):
            self.folder.rmdir()  # unless somebody keeps something there
        self._reception.dismiss()
        await self._server.wait_closed()
