"""The asynchronous ends of pipes: bounded, in order, and never blocked by each other."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import time
from collections.abc import Iterator

import pytest

from tillerman.agents.stdio.pipes import HIGH_WATER, KEEPING, REST, PipeReader, PipeWriter


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ours = os.pipe()
    for fd in ours:
        os.set_blocking(fd, False)
    yield ours
    for fd in ours:
        try:
            os.close(fd)
        except OSError:
            continue  # its reader or writer closed it


def unread(fd: int) -> int:
    left: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
    return left


async def test_a_read_limit_is_exact_even_for_single_bytes(pipe: tuple[int, int]) -> None:
    """A byte costs more memory than itself, and the limit counts that."""
    theirs, ours = pipe
    reader = PipeReader(theirs, rest=0)
    room = HIGH_WATER // (1 + KEEPING)
    for _ in range(room):
        os.write(ours, b"x")
        async with asyncio.timeout(5):
            while unread(theirs):  # noqa: ASYNC110 - each byte is a separate chunk
                await asyncio.sleep(0)
    for _ in range(1000):
        os.write(ours, b"x")
        await asyncio.sleep(0)
    assert 900 < unread(theirs) < 1100
    got = 0
    while got < room + 1000:
        got += len(await asyncio.wait_for(reader.read(), 5))
    assert got == room + 1000
    reader.close()


async def test_of_many_busy_pipes_each_is_read_less_often() -> None:
    pipes = [os.pipe() for _ in range(20)]
    readers = [PipeReader(theirs) for theirs, _ in pipes]
    chunks: list[list[bytes]] = [[] for _ in pipes]

    async def read(reader: PipeReader, into: list[bytes]) -> None:
        while chunk := await reader.read():
            into.append(chunk)

    reading = [asyncio.create_task(read(*each)) for each in zip(readers, chunks, strict=True)]
    begin = time.monotonic()
    for number in range(200):
        for _, ours in pipes:
            os.write(ours, b"%03d" % number)
        await asyncio.sleep(0.001)
    for _, ours in pipes:
        os.close(ours)
    async with asyncio.timeout(10):
        await asyncio.gather(*reading)
    took = time.monotonic() - begin
    message = b"".join(b"%03d" % number for number in range(200))
    assert [b"".join(each) for each in chunks] == [message] * len(pipes)
    most = took / (REST * len(pipes)) + 2  # the first rests are shorter
    assert sum(map(len, chunks)) / len(pipes) <= most


async def test_many_busy_pipes_are_read_together() -> None:
    pipes = [os.pipe() for _ in range(60)]
    readers = [PipeReader(theirs) for theirs, _ in pipes]
    rounds: list[set[int]] = [set()]

    async def read(number: int) -> None:
        while await readers[number].read():
            rounds[-1].add(number)

    reading = [asyncio.create_task(read(number)) for number in range(len(pipes))]
    for _ in range(400):
        for _, ours in pipes:
            os.write(ours, b"word ")
        await asyncio.sleep(0.001)
        if rounds[-1]:
            rounds.append(set())
    for _, ours in pipes:
        os.close(ours)
    async with asyncio.timeout(10):
        await asyncio.gather(*reading)
    resolved = [len(each) for each in rounds[len(rounds) // 2 : -2]]
    assert sum(resolved) / len(resolved) > 8  # of the thirty that a round holds


async def test_a_single_busy_pipe_is_read_at_once(pipe: tuple[int, int]) -> None:
    theirs, ours = pipe
    reader = PipeReader(theirs)
    for number in range(20):
        os.write(ours, b"%d" % number)
        assert await asyncio.wait_for(reader.read(), 1) == b"%d" % number
    reader.close()


async def test_all_bytes_come_in_order_through_stops_and_starts(pipe: tuple[int, int]) -> None:
    theirs, ours = pipe
    reader, writer = PipeReader(theirs), PipeWriter(ours)
    data = b"".join(b"%08d" % n for n in range(1_000_000))
    writing = asyncio.create_task(writer.write(data))
    await asyncio.sleep(0.05)
    assert not writing.done()
    got = []
    while sum(map(len, got)) < len(data):
        got.append(await asyncio.wait_for(reader.read(), 5))
    assert b"".join(got) == data
    await writing
    writer.close()
    assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_finishing_reads_what_is_buffered_and_waits_for_no_other_writer(
    pipe: tuple[int, int],
) -> None:
    theirs, ours = pipe
    reader = PipeReader(theirs)
    os.write(ours, b"last words")
    reader.finish()
    assert await asyncio.wait_for(reader.read(), 5) == b"last words"
    assert await asyncio.wait_for(reader.read(), 5) == b""
    with pytest.raises(BrokenPipeError):
        os.write(ours, b"too late")


async def test_messages_of_two_writers_do_not_mix(pipe: tuple[int, int]) -> None:
    theirs, ours = pipe
    reader, writer = PipeReader(theirs), PipeWriter(ours)
    messages = [bytes([letter]) * 3_000_000 for letter in b"ab"]
    writing = [asyncio.create_task(writer.write(message)) for message in messages]
    got = b""
    while len(got) < 6_000_000:
        got += await asyncio.wait_for(reader.read(), 5)
    assert got == b"".join(messages)
    await asyncio.gather(*writing)
    reader.close()
    writer.close()


async def test_writing_without_a_reader_returns_silently_at_once(pipe: tuple[int, int]) -> None:
    theirs, ours = pipe
    writer = PipeWriter(ours)
    blocked = asyncio.create_task(writer.write(b"x" * 1_000_000))
    await asyncio.sleep(0.01)
    os.close(theirs)
    await asyncio.wait_for(blocked, 5)
    await asyncio.wait_for(writer.write(b"more"), 5)


async def test_closing_a_writer_releases_its_waiters(pipe: tuple[int, int]) -> None:
    writer = PipeWriter(pipe[1])
    blocked = asyncio.create_task(writer.write(b"x" * 1_000_000))
    await asyncio.sleep(0.01)
    writer.close()
    await asyncio.wait_for(blocked, 5)
