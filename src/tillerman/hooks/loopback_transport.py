"""Hook connection over loopback HTTP, for systems without Unix sockets.

The same request and answer, as HTTP bodies. The kernel does not identify the peer: the tokens do.
"""

from __future__ import annotations

import re

from tillerman.hooks.connection import HookConnection, HookListener

_HEAD_CAP = 1024
_HEAD = re.compile(
    rb"POST /hook HTTP/1\.1\r\nHost: 127\.0\.0\.1:([0-9]{1,5})\r\nContent-Length: [0-9]{1,9}"
)


class LoopbackHookConnection(HookConnection):
    """Accepts only the exact header that our shim writes: a browser always sends more."""

    def __init__(self, listener: HookListener) -> None:
        super().__init__(listener)
        self._head: bytearray | None = bytearray()

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            super().data_received(data)
            return
        self._head += data
        head, end, body = self._head.partition(b"\r\n\r\n")
        if end and self._is_ours(head):
            self._head = None
            if body:
                super().data_received(bytes(body))
        elif end or len(self._head) > _HEAD_CAP:
            self.drop()

    def _is_ours(self, head: bytearray) -> bool:
        assert self._transport
        found = _HEAD.fullmatch(head)
        return found is not None and int(found[1]) == self._transport.get_extra_info("sockname")[1]

    def _is_authorized(self) -> bool:
        return True

    def _wrapped(self, answer: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (
            len(answer),
            answer,
        )
