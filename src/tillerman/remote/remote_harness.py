"""A service as the same API that `tillerman.open` gives: starts, finds and follows sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Unpack
from urllib.parse import quote, urlencode

import msgspec

from tillerman.core.async_context import opened_with
from tillerman.core.errors import UsageError
from tillerman.core.program.callbacks import NAMES
from tillerman.core.session_options import ResumeOptions, StartOptions, check_options
from tillerman.paths import find_paths
from tillerman.remote.http_client import HttpClient
from tillerman.remote.remote_session import RemoteSession
from tillerman.store.session_row import SessionRow


@opened_with("connect(URL)")
async def connect(url: str, *, token: str | None = None) -> AsyncIterator[RemoteHarness]:
    """Connects to a service; without `token`, with that of the service on this machine."""
    http = HttpClient(url, token or _own_token())
    await http.call("GET", "/health")
    yield RemoteHarness(http)


class _Named(msgspec.Struct):
    name: str


_Rows, _Agents = list[SessionRow], list[_Named]  # `list` is a method below


class RemoteHarness:
    """Like `Harness`: its sessions run in the service, on its machine and in its folders."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def start(
        self, agent: str | None = None, *, title: str | None = None, **options: Unpack[StartOptions]
    ) -> RemoteSession:
        """Starts a session. `cwd` is an absolute path on the machine of the service."""
        if "cwd" not in options:
            raise UsageError(
                "`cwd` is required", hint="give a folder on the machine of the service"
            )
        body = {"agent": agent, "title": title, **_plain(options)}
        row = await self._http.read(SessionRow, "/sessions", method="POST", body=body)
        return RemoteSession(self._http, row.id, {}, new=True)

    async def resume(self, session: str, **options: Unpack[ResumeOptions]) -> RemoteSession:
        """A stored session; its next prompt resumes it with these options if no process runs it."""
        row = await self.find(session)
        return RemoteSession(self._http, row.id, _plain(options))

    async def attach(self, session: str) -> RemoteSession:
        """A session of any process, to follow, answer, prompt or cancel it."""
        return RemoteSession(self._http, (await self.find(session)).id, {})

    async def find(self, session: str) -> SessionRow:
        """Finds a session by its id, or by the beginning of its id."""
        return await self._http.read(SessionRow, f"/sessions/{quote(session, safe='')}")

    async def list(self, limit: int = 50, *, cwd: Path | str | None = None) -> Sequence[SessionRow]:
        """The newest sessions."""
        query = {"limit": limit} | ({} if cwd is None else {"cwd": str(cwd)})
        return await self._http.read(_Rows, f"/sessions?{urlencode(query)}")

    async def agents(self) -> Sequence[str]:
        """The names of all agents that the service knows."""
        return [one.name for one in await self._http.read(_Agents, "/agents")]


def _plain(options: Any) -> dict[str, Any]:
    """The options as a service takes them. Functions and types of this program cannot be sent."""
    check_options(options)
    for name in (*NAMES, "output", "flags", "options", "unattended"):
        if options.get(name) is not None:
            raise UsageError(
                f"{name} cannot be given to a service",
                hint="use `tillerman.open()` in a program on that machine",
            )
    given = {name: value for name, value in options.items() if value is not None}
    if "cwd" in given:
        given["cwd"] = str(given["cwd"])
    if "folders" in given:
        given["folders"] = [str(folder) for folder in given["folders"]]
    return given


def _own_token() -> str:
    file = find_paths().state / "server" / "token"
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        raise UsageError(
            "there is no token of a service on this machine",
            hint="give `token=`; `tillerman serve token` creates one there",
        ) from None
