"""JSON lines of a client: reads them with a bound, and finds the ids of invalid requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator

_ENDS = 256  # bytes stored from both ends of an overlong line, one of which has its id
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+|"[^"\\]*")\s*,')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*\}\s*$')


class TooLong(ValueError):
    """A line above the size limit, with its two ends."""

    def __init__(self, first: bytes, last: bytes, limit: int) -> None:
        super().__init__(f"the line is longer than {limit} bytes: send less at once")
        self.first = first
        self.last = last

    @property
    def request_id(self) -> int | str | None:
        return id_at_end(self.first, self.last)


async def lines(reader: asyncio.StreamReader, limit: int) -> AsyncIterator[bytes | TooLong]:
    """Yields lines until the client disconnects; a line longer than the reader's limit becomes
    `TooLong`."""
    first, last = b"", b""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            part = await reader.readexactly(error.consumed)
            first, last = first or part[:_ENDS], (last + part[-_ENDS:])[-_ENDS:]
            continue
        except asyncio.IncompleteReadError as error:
            line = error.partial
            if not line and not first:
                return
        except ConnectionError:
            return
        if first:
            yield TooLong(first, (last + line[-_ENDS:])[-_ENDS:], limit)
            first, last = b"", b""
        elif line.strip():
            yield line


async def standard_streams(limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    ours = [os.fdopen(os.dup(number), mode) for number, mode in ((0, "rb"), (1, "wb"))]
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), ours[0])
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, ours[1])
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def id_at_end(first: bytes, last: bytes | None = None) -> int | str | None:
    """Finds the id of an unreadable request: most clients put it at one of its two ends."""
    last = first if last is None else last
    found = _ID_FIRST.match(first[:_ENDS]) or _ID_LAST.search(last[-_ENDS:])
    return id_of(b'{"id":%s}' % found[1]) if found else None


def id_of(line: bytes) -> int | str | None:
    with contextlib.suppress(ValueError):
        match json.loads(line):
            case {"id": int(found)} if not isinstance(found, bool):
                return found
            case {"id": str(found)} if is_encodable(found):
                return found
    return None


def is_encodable(text: str) -> bool:
    """Whether the text has no unpaired surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
