"""What answers is no service, or answers nonsense: every failure is an error of ours."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import tillerman
from tillerman.core.errors import TillermanError, UsageError
from tillerman.remote.http_client import HttpClient
from tillerman.remote.remote_harness import RemoteHarness

pytestmark = pytest.mark.timeout(90)

WHOLE = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"id":"abcd"}'
)
CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{"id":"abcd"}\r\n0\r\n\r\n'
ANSWERS = [
    b"",
    b"\r\n\r\n",
    b"HTTP/1.1\r\n\r\n",
    b"HTTP/1.1 abc\r\n\r\n",
    b"SSH-2.0-x\r\n\r\n",
    b"x" * 100_000,
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"[" * 9000,
    b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
    b"HTTP/1.1 404 X\r\nContent-Length: 9000\r\n\r\n" + b"[" * 9000,
    b'HTTP/1.1 404 X\r\nContent-Length: 14\r\n\r\n{"error":null}',
    b"HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\n[]",
    b"\xff\xfe\r\n\r\n",
]


@asynccontextmanager
async def answering(data: bytes) -> AsyncIterator[RemoteHarness]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield RemoteHarness(HttpClient(f"http://127.0.0.1:{port}", "x"))


@pytest.mark.parametrize("data", ANSWERS)
async def test_an_answer_that_is_none_is_an_error(data: bytes) -> None:
    async with answering(data) as harness, asyncio.timeout(20):
        for call in (harness.find("a"), harness.list(), harness.agents()):
            with pytest.raises(TillermanError) as failure:
                await call
            assert failure.value.hint


async def test_generated_answers_are_errors() -> None:
    chosen = random.Random(18)
    for _ in range(300):
        data = bytearray(chosen.choice((WHOLE, CHUNKED)))
        for _ in range(chosen.randrange(1, 6)):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        cut = chosen.randrange(len(data)) if chosen.random() < 0.3 else len(data)
        async with answering(bytes(data[:cut])) as harness, asyncio.timeout(20):
            with pytest.raises(TillermanError):
                await harness.find("a")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:99999", "http://[::1", "http://a:x", "ftp://a", "http://", "", "a:1", "//a"],
)
async def test_an_address_that_is_none_is_an_error(url: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        async with tillerman.connect(url, token="x"):
            pass
