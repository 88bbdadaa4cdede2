"""Copies pages that are shared with another process since a fork before somebody waits for it.

The first write to such a page copies it. A prestarted keeper and its warden write to a quarter of
their pages, nearly the same for each command: one keeper finds them, and the next ones copy them
while they are idle.
"""

# pathlib and contextlib would cost every start some milliseconds

from __future__ import annotations

import ctypes
import os

from tillerman.supervision.linux import process_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Range = tuple[int, int]  # address and length

_POPULATE_WRITE = 23
_ENTRY = 8  # bytes of a page's entry in pagemap
_HELD_ALONE = 1 << 63 | 1 << 56  # present, and mapped by no other process
_PAGE = os.sysconf("SC_PAGESIZE")
_GAP = 2 * _PAGE  # copying that much costs less than another system call

_libc = ctypes.CDLL(None)


def written_pages() -> list[Range]:
    """Returns the writable memory that this process or its parent wrote to since the fork.

    Raises OSError if the kernel does not tell.
    """
    found: list[Range] = []
    pages = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for line in process_table.read("/proc/self/maps").splitlines():
            where, mode, *_ = line.split(maxsplit=2)
            if mode == b"rw-p":
                start, end = (int(one, 16) for one in where.split(b"-"))
                _add_written(pages, start, end, found)
    finally:
        os.close(pages)
    return found


def _add_written(pages: int, start: int, end: int, found: list[Range]) -> None:
    entries = os.pread(pages, (end - start) // _PAGE * _ENTRY, start // _PAGE * _ENTRY)
    for number, entry in enumerate(memoryview(entries).cast("Q")):
        if entry & _HELD_ALONE != _HELD_ALONE:
            continue
        at = start + number * _PAGE
        if found and start <= found[-1][0] and at <= sum(found[-1]) + _GAP:
            found[-1] = (found[-1][0], at + _PAGE - found[-1][0])
        else:
            found.append((at, _PAGE))


def copy_pages(ranges: Iterable[Range]) -> None:
    """Copies what of them is shared. No error if the kernel (before 5.14) cannot do it."""
    for address, length in ranges:
        _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), _POPULATE_WRITE)
