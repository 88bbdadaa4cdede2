"""The methods that an editor calls, each with its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, get_args

from tillerman._version import __version__
from tillerman.agents.acp.handshake import PROTOCOL
from tillerman.core.agent import Mode
from tillerman.core.capabilities import CAPABILITIES
from tillerman.core.errors import SessionNotFound, UsageError
from tillerman.core.json_fields import Table
from tillerman.core.session_options import Preset
from tillerman.core.transcript.session_titles import displayed_title
from tillerman.store.session_row import SessionRow
from tillerman.surfaces.acp import client, sign_in
from tillerman.surfaces.acp.context import EditorContext
from tillerman.surfaces.acp.errors import InvalidParams
from tillerman.surfaces.acp.params import folder, offset, opening_options, required
from tillerman.surfaces.acp.session import EditorSession, is_empty
from tillerman.surfaces.acp.session_handle import SessionHandle

MOST_SESSIONS = 64  # open at once: each has processes of its own
LISTED = 50  # sessions per page
_AT_START = ("model", "mode", "approve")  # stored with the session, which then has its own


class Reply(NamedTuple):
    """`after` is called when the result is sent."""

    result: Any
    after: Callable[[], None] = lambda: None


class EditorMethods:
    def __init__(self, context: EditorContext) -> None:
        self._context = context
        self._harness = context.harness
        self.sessions: dict[str, EditorSession] = {}
        self._starting = 0
        self._opening = asyncio.Lock()  # one session after the other: an id is opened once
        self._table: dict[str, Callable[[Table], Awaitable[Reply]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_model": self._set_model,
            "session/set_config_option": self._set_option,
        }

    def named(self, method: str) -> Callable[[Table], Awaitable[Reply]] | None:
        return self._table.get(method)

    async def cancel(self, params: Table) -> None:
        """Handles the notification `session/cancel`."""
        if session := self.sessions.get(str(params.get("sessionId"))):
            await session.cancel()

    async def settings_known(self) -> None:
        """Tells what can be chosen, when the lists have come after the responses."""
        for session in [one for one in self.sessions.values() if one.is_followed]:
            await session.tell_settings()

    async def close(self) -> None:
        for session in list(self.sessions.values()):
            await session.close()

    # -- the connection --------------------------------------------------------------------------

    async def _initialize(self, params: Table) -> Reply:
        context = self._context
        context.client = client.capabilities(params)
        names = self._agents(self._harness.cwd)
        return Reply(
            {
                "protocolVersion": PROTOCOL,
                "agentInfo": {"name": "tillerman", "title": "tillerman", "version": __version__},
                "agentCapabilities": _capabilities(self._common(names)),
                "authMethods": sign_in.methods(self._harness, names, context.client),
            }
        )

    async def _authenticate(self, params: Table) -> Reply:
        name = required(params, "methodId")
        await sign_in.authenticate(self._harness, name, self._agents(self._harness.cwd))
        return Reply({})

    def _agents(self, cwd: Path) -> tuple[str, ...]:
        context = self._context
        model = context.requested.get("model")
        return tuple(sign_in.agents_of(self._harness, context.agent, model, cwd))

    # -- opening and ending sessions -------------------------------------------------------------

    async def _new(self, params: Table) -> Reply:
        context, cwd = self._context, folder(params)
        given = self._without_servers(opening_options(params), self._agents(cwd))
        options = {**context.requested, **given}
        self._refuse_more()
        self._starting += 1
        try:
            session = await self._harness.start(context.agent, cwd=cwd, **options)
        finally:
            self._starting -= 1
        options = {name: value for name, value in options.items() if name not in _AT_START}
        row = self._harness.find(session.id)
        handle = SessionHandle(self._harness, row.id, options, session)
        opened = EditorSession(context, row, handle)
        self.sessions[opened.id] = opened
        return Reply({"sessionId": opened.id, **await opened.opening()}, opened.follow)

    async def _load(self, params: Table) -> Reply:
        session = await self._attached(params)
        try:
            await session.send_history()
        except BaseException:
            self.sessions.pop(session.id, None)
            raise
        return Reply(await session.opening(), session.follow)

    async def _resume(self, params: Table) -> Reply:
        session = await self._attached(params)
        return Reply(await session.opening(), session.follow)

    async def _fork(self, params: Table) -> Reply:
        row = await self._harness.sessions.fork(self._found(params))
        session = self._opened(row, params)
        return Reply({"sessionId": session.id, **await session.opening()}, session.follow)

    async def _attached(self, params: Table) -> EditorSession:
        """A stored session, whoever runs it. One that is open here begins anew for the editor."""
        row = self._found(params)
        if (cwd := folder(params)).resolve() != Path(row.cwd).resolve():
            raise InvalidParams(
                f"session {row.id} works in {row.cwd}, not in {cwd}", hint="open it in its folder"
            )
        if row.settings.get("served"):
            raise UsageError(
                f"session {row.id} belongs to an MCP client and has no agent",
                hint="load another session",
            )
        async with self._opening:
            if earlier := self.sessions.pop(row.id, None):
                return await self._again(earlier, row, params)
            return self._opened(row, params)

    async def _again(self, earlier: EditorSession, row: SessionRow, params: Table) -> EditorSession:
        session = earlier.successor(row, self._options(row, params))
        await earlier.stop_following()
        self.sessions[row.id] = session
        return session

    def _refuse_more(self) -> None:
        if len(self.sessions) + self._starting >= MOST_SESSIONS:
            raise UsageError(
                f"{MOST_SESSIONS} sessions are open in this editor", hint="close some of them"
            )

    def _opened(self, row: SessionRow, params: Table) -> EditorSession:
        self._refuse_more()
        last = self._harness.sessions.log.last_seq(row.id)
        handle = SessionHandle(self._harness, row.id, self._options(row, params))
        session = EditorSession(self._context, row, handle, since=last)
        self.sessions[row.id] = session
        return session

    def _options(self, row: SessionRow, params: Table) -> dict[str, Any]:
        given = self._without_servers(opening_options(params), (row.agent,))
        requested = self._context.requested
        kept = {name: value for name, value in requested.items() if name not in _AT_START}
        return {**kept, **given}

    def _without_servers(self, given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        """Editors pass their MCP servers to every agent; some agents accept none."""
        if "servers" in given and "mcp" not in self._common(names):
            del given["servers"]
        return given

    def _common(self, names: tuple[str, ...]) -> frozenset[str]:
        """What all of these agents can do; starting one reports why it cannot be loaded."""
        can = frozenset(CAPABILITIES)
        for name in names:
            with suppress(Exception):  # a third-party module may raise anything
                can &= self._harness.agent(name).info.can
        return can

    async def _list(self, params: Table) -> Reply:
        start = offset(params)
        cwd = str(folder(params)) if params.get("cwd") is not None else None
        rows = self._harness.sessions.catalog.list(cwd=cwd, limit=LISTED, offset=start)
        told = [_info(row) for row in rows if not is_empty(row) and not row.settings.get("served")]
        more = {"nextCursor": str(start + LISTED)} if len(rows) == LISTED else {}
        return Reply({"sessions": told, **more})

    async def _close(self, params: Table) -> Reply:
        id = required(params, "sessionId")
        session = self.sessions.pop(id, None)
        if session is None:
            raise SessionNotFound(id)
        await session.cancel()
        await session.close()
        return Reply({})

    async def _delete(self, params: Table) -> Reply:
        row = self._found(params)
        if session := self.sessions.pop(row.id, None):
            await session.cancel()
            await session.close()
        with suppress(SessionNotFound):  # an empty one is deleted when it is closed
            await self._harness.sessions.delete(self._harness.find(row.id))
        return Reply({})

    # -- a session -------------------------------------------------------------------------------

    async def _prompt(self, params: Table) -> Reply:
        blocks = params.get("prompt")
        if not isinstance(blocks, list):
            raise InvalidParams("'prompt' is missing or is not a list of blocks")
        return Reply(await self._session(params).prompt(blocks))

    async def _set_mode(self, params: Table) -> Reply:
        await self._configure(self._session(params), "mode", required(params, "modeId"))
        return Reply({})

    async def _set_model(self, params: Table) -> Reply:
        """From before config options; some editors still send it."""
        await self._configure(self._session(params), "model", required(params, "modelId"))
        return Reply({})

    async def _set_option(self, params: Table) -> Reply:
        session = self._session(params)
        await self._configure(session, required(params, "configId"), required(params, "value"))
        return Reply({"configOptions": session.config_options()})

    async def _configure(self, session: EditorSession, id: str, value: str) -> None:
        match id:
            case "agent":
                await session.hand_over(value)
            case "model":
                await session.configure(model=value)
            case "mode":
                await session.configure(mode=_one_of(value, get_args(Mode), "mode"))
            case "approve":
                await session.configure(approve=_one_of(value, get_args(Preset), "preset"))
            case "effort":
                await session.set_effort(value)
            case _:
                known = [option["id"] for option in session.config_options()]
                raise InvalidParams(
                    f"there is no config option {id!r}", hint=f"known: {', '.join(known)}"
                )

    def _session(self, params: Table) -> EditorSession:
        id = required(params, "sessionId")
        if session := self.sessions.get(id):
            return session
        if self._harness.find(id).id == id:
            raise InvalidParams(f"session {id} is not open here", hint="send session/load first")
        raise SessionNotFound(id)

    def _found(self, params: Table) -> SessionRow:
        id = required(params, "sessionId")
        row = self._harness.find(id)
        if row.id != id:  # a prefix, or `last`
            raise SessionNotFound(id)
        return row


def _one_of(value: str, known: tuple[str, ...], what: str) -> str:
    if value not in known:
        raise InvalidParams(f"there is no {what} {value!r}", hint=f"known: {', '.join(known)}")
    return value


def _info(row: SessionRow) -> Table:
    title = displayed_title(row.title, None, row.prompt)
    told = {"sessionId": row.id, "cwd": row.cwd, "updatedAt": row.updated_at}
    return told | ({"title": title} if title else {})


def _capabilities(can: frozenset[str]) -> Table:
    """What the protocol has a word for, if the agents can do it, or tillerman itself."""
    sessions = ["list", "resume", "fork", "close", "delete"]
    sessions += ["additionalDirectories"] if "folders" in can else []
    sessions += ["systemPrompt"] if "system" in can else []
    servers = "mcp" in can
    return {
        "loadSession": True,
        "promptCapabilities": {
            "image": "images" in can,
            "audio": False,
            "embeddedContext": True,
        },
        "mcpCapabilities": {"http": servers, "sse": servers},
        "sessionCapabilities": {name: {} for name in sessions},
    }
