"""Hook server of a session: the socket that shims connect to, idle until one does."""

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
from tillerman.hooks.shim_builder import LONGEST, SHORTEST, Shim, ready_shim
from tillerman.paths import find_paths

__all__ = ["HookAsked", "HookLimits", "HookReply", "HookServer", "ProvidesHookServer"]

BACKLOG = 1024  # a shim that finds the queue full waits until its deadline
SHARE = 0.8  # fraction of a CLI's hook timeout used as the shim's own deadline
LATER = 15.0  # seconds after our own timeout at which a shim gives up by itself


def timeout_for(max_wait: float | None) -> int:
    """The CLI's hook timeout in seconds, if an answer may take as long as `max_wait`.

    Our timeout denies first, then the shim's. The CLI's timeout may allow the call, and comes last.
    """
    deadline = LONGEST if max_wait is None else min(max_wait + LATER, LONGEST)
    return math.floor(deadline / SHARE)


@runtime_checkable
class ProvidesHookServer(Protocol):
    """A host of conversations whose programs send requests by hooks."""

    async def hooks(
        self, asked: Callable[[HookAsked], None], overdue: Callable[[int | None], None]
    ) -> HookServer:
        """Opens a hook server; the caller closes it.

        `overdue` is called for a hook that sent a request and neither waits nor exits in time.
        """
        ...


class HookServer:
    def __init__(
        self, folder: Path, shim: Shim, listener: HookListener, server: asyncio.Server
    ) -> None:
        self.folder = folder
        self.shim = shim
        self._listener = listener
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
        """Opens the server; `overdue` is called with the pid, if known, of a stopped shim."""
        if shim is None:
            shim = await asyncio.to_thread(ready_shim, find_paths().cache, compiled=unix)
        folder = places.make_folder(folder)
        listener = HookListener(places.new_tokens(folder), limits or HookLimits(), asked, overdue)
        loop = asyncio.get_running_loop()
        if unix:
            server = await loop.create_unix_server(
                lambda: HookConnection(listener), sock=places.listen_here(folder), backlog=BACKLOG
            )
        else:
            server = await loop.create_server(
                lambda: LoopbackHookConnection(listener),
                sock=places.listen_on_loopback(folder),
                backlog=BACKLOG,
            )
        return cls(folder, shim, listener, server)

    def command(self, agent: str, event: str, *, timeout: float, observing: bool = False) -> str:
        """The command for a CLI's hook config; `timeout` is the CLI's timeout for it, in seconds.

        If the shim fails in any way, the command blocks the call; an observing one never blocks.
        """
        if not (is_name(agent) and is_name(event)):
            raise UsageError(
                f"{agent!r} and {event!r} cannot be named in a hook's command",
                hint="use names of letters, digits, dots, dashes and underscores",
            )
        deadline = min(max(timeout * SHARE, SHORTEST), LONGEST)
        self._listener.arrival = min(self._listener.arrival, deadline)
        return self.shim.command(self.folder, agent, event, deadline, observing=observing)

    async def close(self) -> None:
        """Disconnects waiting shims without an answer, which denies."""
        self._server.close()
        places.remove_files(self.folder)
        with contextlib.suppress(OSError):
            self.folder.rmdir()  # unless it contains other files
        self._listener.dismiss()
        await self._server.wait_closed()
