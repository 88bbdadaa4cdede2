"""Queries an ACP agent without a prompt: stored sessions, settings of a new session. No I/O."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.handshake import hello
from tillerman.agents.decoding.fields import Table, tables, text
from tillerman.agents.jsonrpc.peer import RpcPeer
from tillerman.agents.jsonrpc.sequential_requests import call
from tillerman.core.agent_admin import Dialog, NativeSession
from tillerman.core.session_options import session_spec

_PAGES = 20


def sessions(dialect: AcpDialect, cwd: Path) -> Dialog[list[NativeSession]]:
    """Lists the sessions of a folder, newest first."""
    peer = RpcPeer()
    yield from call(peer, "initialize", hello(dialect, session_spec(cwd=cwd)))
    found: list[NativeSession] = []
    params: Table = {"cwd": str(cwd)}
    for _ in range(_PAGES):
        result = yield from call(peer, "session/list", params)
        fields = result if isinstance(result, dict) else {}
        found += [_session(one) for one in tables(fields, "sessions") if text(one, "sessionId")]
        if not (cursor := text(fields, "nextCursor")):
            break
        params = {**params, "cursor": cursor}
    here = [one for one in found if one.cwd in (None, str(cwd))]
    return sorted(here, key=lambda one: one.updated, reverse=True)


def new_session(dialect: AcpDialect, cwd: Path) -> Dialog[Any]:
    """Returns the result of session/new, which includes models and modes."""
    peer = RpcPeer()
    yield from call(peer, "initialize", hello(dialect, session_spec(cwd=cwd)))
    return (yield from call(peer, "session/new", {"cwd": str(cwd), "mcpServers": []}))


def _session(one: Table) -> NativeSession:
    return NativeSession(
        text(one, "sessionId"), text(one, "title"), text(one, "updatedAt"), text(one, "cwd") or None
    )
