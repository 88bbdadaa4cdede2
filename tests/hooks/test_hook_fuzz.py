"""Damaged requests to the server and damaged answers to the shim, cut and split anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hooks.hook_desk import Open, Ran, impostor, run
from tillerman.hooks.protocol import (
    PAYLOAD_CAP,
    HookReply,
    ShimQuestion,
    read_question,
    write_answer,
)
from tillerman.hooks.server import HookAsked, HookLimits, HookServer
from tillerman.hooks.shim_builder import Shim, python_shim
from tillerman.hooks.socket_folder import Tokens

NONCE = "0123456789abcdef" * 2


def question(token: str, payload: bytes = b"payload") -> bytes:
    head = f"tillerman1 {token} {NONCE} cursor preToolUse 20000 {len(payload)}\n"
    return head.encode() + payload


def test_a_request_decodes_as_it_was_written() -> None:
    token = "ab" * 32
    assert read_question(question(token).split(b"\n")[0]) == ShimQuestion(
        token=token.encode(),
        nonce=NONCE.encode(),
        agent="cursor",
        event="preToolUse",
        observing=False,
        deadline=20.0,
        length=7,
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "tillerman1",
        "tillerman2 {token} {nonce} cursor stop 1000 0",
        "tillerman1 {nonce} {nonce} cursor stop 1000 0",
        "tillerman1 {token} {token} cursor stop 1000 0",
        "tillerman1 {TOKEN} {nonce} cursor stop 1000 0",
        "tillerman1  {token} {nonce} cursor stop 1000 0",
        "tillerman1 {token} {nonce} cursor --stop 1000 0",
        "tillerman1 {token} {nonce} -cursor stop 1000 0",
        "tillerman1 {token} {nonce} cursor stop 1000 -1",
        "tillerman1 {token} {nonce} cursor stop -1000 0",
        "tillerman1 {token} {nonce} cursor stop 1e3 0",
        "tillerman1 {token} {nonce} cursor stop 1000 0 ",
        "tillerman1 {token} {nonce} cursor stop 1000 0\r",
        "tillerman1 {token} {nonce} cursor stop 1000 0\0",
        "tillerman1 {token} {nonce} cursor stop 1000 ٣",
        "tillerman1 {token} {nonce} cursor stop 1000 {more}",
        "tillerman1 {token} {nonce} cursor stop 1000 9999999999999999999999",
        "tillerman1 {token} {nonce} cursor {long} 1000 0",
    ],
)
def test_a_request_that_is_not_exact_is_rejected(line: str) -> None:
    filled = line.format(
        token="ab" * 32, TOKEN="AB" * 32, nonce=NONCE, more=PAYLOAD_CAP + 1, long="x" * 65
    )
    assert read_question(filled.encode()) is None


class Talk:
    """A connection to the server that can send anything."""

    def __init__(self, server: HookServer) -> None:
        self._path = server.folder / "socket"

    async def say(self, *pieces: bytes, eof: bool = False) -> bytes:
        """All that the server sent until it closed the connection."""
        reader, writer = await asyncio.open_unix_connection(self._path)
        received = b""
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            if eof:
                writer.write_eof()
            async with asyncio.timeout(20):
                received = await reader.read()
        writer.close()
        return received


@pytest.fixture
async def quick(opened: Open, cache: Path) -> tuple[HookServer, Talk, str, list[HookAsked]]:
    asked: list[HookAsked] = []

    def receive(each: HookAsked) -> None:
        asked.append(each)
        each.reply(HookReply(each.payload))

    limits = HookLimits(arrival=0.5, leaving=5, grace=0.1)
    server = await opened(receive, shim=python_shim(cache), limits=limits)
    token = (server.folder / "key").read_text().split()[0]
    return server, Talk(server), token, asked


Quick = tuple[HookServer, Talk, str, list[HookAsked]]


@pytest.mark.parametrize("shim", ["python"], indirect=True)
class TestTheServer:
    async def test_a_request_cut_into_any_chunks_is_decoded(self, quick: Quick) -> None:
        server, talk, token, asked = quick
        whole = question(token)
        answer = (server.folder / "key").read_text().split()[1].encode()
        expected = write_answer(answer, NONCE.encode(), HookReply(b"payload"))
        for at in range(1, len(whole)):
            assert await talk.say(whole[:at], whole[at:]) == expected
        bytewise = [whole[at : at + 1] for at in range(len(whole))]
        assert await talk.say(*bytewise) == expected
        assert len(asked) == len(whole)

    async def test_half_a_request_is_never_delivered(self, quick: Quick) -> None:
        _, talk, token, asked = quick
        whole = question(token)
        cuts = [talk.say(whole[:at], eof=True) for at in range(len(whole))]
        assert set(await asyncio.gather(*cuts)) == {b""}
        assert asked == []

    async def test_a_slow_or_silent_client_delays_no_other(self, quick: Quick) -> None:
        _, talk, token, asked = quick
        whole = question(token)
        begin = asyncio.get_running_loop().time()
        messages = [talk.say(whole[:at]) for at in (0, 1, 50, len(whole) - 8, len(whole) - 1)]
        assert set(await asyncio.gather(*messages)) == {b""}
        assert asyncio.get_running_loop().time() - begin < 10
        assert asked == []

    async def test_a_damaged_request_is_never_delivered(self, quick: Quick) -> None:
        _, talk, token, asked = quick
        chance = random.Random(4)
        for _ in range(150):
            damaged = bytearray(question(token))
            match chance.randrange(4):
                case 0:
                    at = chance.randrange(damaged.index(b"cursor"))
                    damaged[at] ^= 1 << chance.randrange(8)
                case 1:
                    damaged.insert(chance.randrange(90), chance.randrange(256))
                case 2:
                    del damaged[chance.randrange(damaged.index(b"cursor"))]
                case 3:
                    damaged = bytearray(chance.randbytes(chance.randrange(1, 2000)))
            if bytes(damaged).startswith(b"tillerman1 " + token.encode() + b" "):
                nonce = damaged[76:].split(b" ")[0]
                if re.fullmatch(rb"[0-9a-f]{32}", nonce):
                    continue  # another nonce is another question, and a good one
            assert await talk.say(bytes(damaged), eof=True) == b""
        assert asked == []

    async def test_a_client_that_sends_more_than_announced_is_disconnected(
        self, quick: Quick
    ) -> None:
        _, talk, token, asked = quick
        assert await talk.say(question(token) + b"!") == b""
        assert asked == []

    async def test_an_endless_line_is_not_buffered(self, quick: Quick) -> None:
        _, talk, _, asked = quick
        tracemalloc.start()
        assert await talk.say(*[b"x" * 65536] * 400) == b""
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4_000_000
        assert asked == []

    async def test_it_still_answers_after_all_that(self, quick: Quick) -> None:
        server, talk, token, asked = quick
        noise = random.Random(7)
        await asyncio.gather(*(talk.say(noise.randbytes(300), eof=True) for _ in range(100)))
        assert (await talk.say(question(token))).endswith(b"\npayload")
        command = server.command("cursor", "preToolUse", timeout=20)
        assert await run(command, b"x") == Ran(0, b"x", b"")
        assert len(asked) == 2


@pytest.mark.parametrize("shim", ["python"], indirect=True)
@pytest.mark.parametrize(
    "head",
    [
        "GET /hook HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n",
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n",
        "POST /hook HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: {length}\r\n",
        "POST /hook HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {length}\r\n",
        "POST /hook HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Length: {length}\r\n",
        "POST /hook HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n"
        "Origin: http://evil.example\r\n",
        "OPTIONS /hook HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n",
        "x" * 2000,
    ],
)
async def test_over_loopback_only_our_own_header_is_accepted(
    opened: Open, cache: Path, head: str
) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append, shim=python_shim(cache), unix=False)
    token = (server.folder / "key").read_text().split()[0]
    port = int((server.folder / "port").read_text())
    body = question(token)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    filled = head.format(port=port, length=len(body))
    with contextlib.suppress(ConnectionError):
        writer.write(f"{filled}\r\n".encode() + body)
        async with asyncio.timeout(20):
            assert await reader.read() == b""
    writer.close()
    assert asked == []


class TestTheShim:
    async def test_a_response_cut_into_any_chunks_is_decoded(
        self, shim: Shim, tmp_path: Path
    ) -> None:
        cuts = range(0, 120, 1 if shim.kind == "compiled" else 8)
        step = iter(cuts)

        def cut(tokens: Tokens, nonce: bytes) -> list[bytes]:
            whole = write_answer(tokens.answer, nonce, HookReply(b"allow", b"so"))
            at = next(step)
            return [whole[:at], whole[at:]] if at else [bytes([byte]) for byte in whole]

        async with impostor(tmp_path / "hooks", cut) as folder:
            command = shim.command(folder, "cursor", "stop", 20, observing=False)
            for _ in cuts:
                assert await run(command) == Ran(0, b"allow", b"so")

    async def test_it_blocks_on_a_response_that_ends_anywhere(
        self, shim: Shim, tmp_path: Path
    ) -> None:
        token, nonce = b"0" * 64, b"0" * 32
        size = len(write_answer(token, nonce, HookReply(b"allow", b"so")))
        ends = range(0, size, 1 if shim.kind == "compiled" else 5)
        await _all_blocked(
            shim,
            tmp_path,
            (
                lambda tokens, nonce, end=end: write_answer(  # type: ignore[misc]
                    tokens.answer, nonce, HookReply(b"allow", b"so")
                )[:end]
                for end in ends
            ),
            len(ends),
        )

    async def test_it_blocks_on_a_response_with_one_wrong_byte(
        self, shim: Shim, tmp_path: Path
    ) -> None:
        chance = random.Random(1)
        places = range(0, 8 + 65 + 33, 1 if shim.kind == "compiled" else 6)

        def wrong(place: int) -> object:
            def said(tokens: Tokens, nonce: bytes) -> bytes:
                whole = bytearray(write_answer(tokens.answer, nonce, HookReply(b"allow")))
                whole[place] ^= 1 << chance.randrange(8)
                return bytes(whole)

            return said

        await _all_blocked(shim, tmp_path, (wrong(place) for place in places), len(places))

    async def test_it_blocks_on_noise(self, shim: Shim, tmp_path: Path) -> None:
        chance = random.Random(2)
        count = 60 if shim.kind == "compiled" else 20

        def noise(tokens: Tokens, nonce: bytes) -> bytes:
            right = b"tillerman1 %b %b " % (tokens.answer, nonce)
            kind = chance.randrange(3)
            tail = bytes(chance.choices(b"0123456789 -\n", k=chance.randrange(1, 40)))
            return [chance.randbytes(chance.randrange(1, 300)), right + tail, tail][kind] + b"!"

        await _all_blocked(shim, tmp_path, (noise for _ in range(count)), count)


async def _all_blocked(shim: Shim, tmp_path: Path, messages: Iterator[object], count: int) -> None:
    def pieces(tokens: Tokens, nonce: bytes) -> list[bytes]:
        whole: bytes = next(messages)(tokens, nonce)  # type: ignore[operator]
        return [whole]

    async with impostor(tmp_path / "hooks", pieces) as folder:
        command = shim.command(folder, "cursor", "stop", 20, observing=False)
        for _ in range(count):
            ran = await run(command)
            assert (ran.exit, ran.stdout) == (2, b"")
            assert ran.stderr.startswith(b"tillerman: ")
    assert next(messages, None) is None
