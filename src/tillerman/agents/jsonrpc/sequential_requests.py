"""Sends JSON-RPC requests one after the other, for queries outside a session. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tillerman.agents.decoding.fields import Table
from tillerman.agents.jsonrpc.peer import RpcError, RpcPeer, RpcRequest, RpcResponse, Said
from tillerman.core.agent_admin import Dialog
from tillerman.core.errors import TillermanError

_encode = msgspec.json.Encoder().encode


class RpcRefused(TillermanError):
    def __init__(self, method: str, error: RpcError) -> None:
        super().__init__(f"the agent rejected {method!r}: {error.message}")
        self.error = error


def call(peer: RpcPeer, method: str, params: Table, *, after: Sequence[Table] = ()) -> Dialog[Any]:
    """Used within a dialog: `result = yield from call(peer, "session/list", {"cwd": "/proj"})`.

    `after`: messages sent before the request, such as `peer.notify("initialized")`. Requests from
    the agent are declined meanwhile, and notifications are ignored.
    """
    messages = [*after, peer.request(method, params, _nothing)]
    line = yield b"".join(map(_line, messages))
    while True:
        match peer.receive(line):
            case RpcResponse(result=result, error=None):
                return result
            case RpcResponse(error=RpcError() as error):
                raise RpcRefused(method, error)
            case RpcRequest() as asked:
                line = yield _line(peer.unknown(asked))
            case _:
                line = yield b""


def _line(message: Table) -> bytes:
    return _encode(message) + b"\n"


def _nothing(result: Any, error: RpcError | None) -> Said:
    return iter(())
