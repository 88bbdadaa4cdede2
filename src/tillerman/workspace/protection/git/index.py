"""Finds which paths git tracks, by parsing its index without running git."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

_MOST = 50_000  # entries that are read
_HEAD = struct.Struct(">4sLL")
_FLAGS = struct.Struct(">H")
_LONG_NAME, _EXTENDED = 0xFFF, 0x4000


def tracked(git: str, paths: Iterable[str]) -> set[str] | None:
    """Returns those of `paths` (relative to the work tree) that are or contain tracked files.

    `git` is the folder with the work tree's index. None if it cannot be determined. Entries are
    sorted, so that hidden names, which come first, are found soon.
    """
    wanted = sorted({os.fsencode(path) for path in paths})
    if not wanted:
        return set()
    try:
        if any(name.startswith("sharedindex.") for name in os.listdir(git)):  # noqa: PTH208
            return None  # some entries are in another file
        with open(f"{git}/index", "rb") as file:  # noqa: PTH123
            data = file.read()
    except FileNotFoundError:
        return set()
    except OSError:
        return None
    try:
        return _found(data, wanted, 32 if _is_sha256(git) else 20)
    except (struct.error, IndexError, ValueError):
        return None


def _found(data: bytes, wanted: list[bytes], digest: int) -> set[str] | None:
    magic, version, count = _HEAD.unpack_from(data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        return None
    found: set[str] = set()
    at, name, last = _HEAD.size, b"", wanted[-1]
    for number in range(count):
        if number >= _MOST:
            return None
        start = at
        at += 40 + digest
        (flags,) = _FLAGS.unpack_from(data, at)
        at += 4 if flags & _EXTENDED else 2
        if version == 4:
            cut, at = _varint(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - cut] + data[at:end]
            at = end + 1
        else:
            length = flags & _LONG_NAME
            end = at + length if length < _LONG_NAME else data.index(b"\0", at)
            name = data[at:end]
            at = start + (end - start + 8) // 8 * 8
        for path in wanted:
            if name == path or name.startswith(path + b"/"):
                found.add(os.fsdecode(path))
        if name > last + b"0":  # sorts after everything below `last/`
            break
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value = byte & 0x7F
    while byte & 0x80:
        byte = data[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at


def _is_sha256(git: str) -> bool:
    try:
        with open(f"{git}/config", "rb") as file:  # noqa: PTH123
            text = file.read(64 << 10).lower()
    except OSError:
        return False
    return b"objectformat" in text and b"sha256" in text
