"""Pages that were written since a fork are found, and copied before somebody waits for it."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from collections.abc import Callable

import pytest

from tillerman.supervision.linux.shared_pages import copy_pages, written_pages

PAGES = 200
SIZE = mmap.PAGESIZE


def in_a_fork(work: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


def covered(address: int) -> set[int]:
    """The pages of the block that are among those written."""
    return {
        (at - address) // SIZE
        for start, length in written_pages()
        for at in range(start, start + length, SIZE)
        if 0 <= at - address < PAGES * SIZE
    }


@pytest.fixture
def block() -> mmap.mmap:
    try:
        written_pages()
    except OSError as error:
        pytest.skip(f"this kernel does not tell: {error}")
    block = mmap.mmap(-1, PAGES * SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(PAGES):
        block[page * SIZE] = 1
    return block


def test_pages_written_since_the_fork_are_found_and_few_others(block: mmap.mmap) -> None:
    address = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for seed in range(5):
        wanted = set(random.Random(seed).sample(range(PAGES), 20))

        def work(wanted: set[int] = wanted) -> bool:
            for page in wanted:
                block[page * SIZE] = 2
            found = covered(address)
            return wanted <= found and len(found) <= 3 * len(wanted)  # small gaps are joined

        assert in_a_fork(work)


def test_copied_pages_are_no_longer_shared_and_have_the_same_content(block: mmap.mmap) -> None:
    address = ctypes.addressof(ctypes.c_char.from_buffer(block))

    def work() -> bool:
        copy_pages([(address + 50 * SIZE, 10 * SIZE), (1 << 12, SIZE)])
        same = all(block[page * SIZE] == 1 for page in range(PAGES))
        return same and set(range(50, 60)) <= covered(address)

    assert in_a_fork(work)
