"""Lines: the same bytes give the same lines, whatever the chunks; memory stays bounded."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tillerman.agents.stdio.line_decoder import HEAD, Line, LineSplitter, OverlongLine, PartialLine

CHUNKS = (1, 7, 64, 65536)
CAP = 50


class Kept:
    """A spill in memory."""

    def __init__(self, all_of_them: list[bytes]) -> None:
        self._all = all_of_them
        self._all.append(b"")
        self._number = len(self._all) - 1

    def write(self, data: bytes) -> None:
        self._all[self._number] += data

    def close(self) -> str:
        return str(self._number)


def split(data: bytes, chunk: int, cap: int = CAP) -> tuple[list[Line], list[bytes]]:
    spilled: list[bytes] = []
    lines = LineSplitter(cap, lambda: Kept(spilled))
    found: list[Line] = []
    for start in range(0, len(data), chunk):
        found += lines.feed(data[start : start + chunk])
    return [*found, *lines.end()], spilled


def expected(data: bytes, cap: int = CAP) -> tuple[list[Line], list[bytes]]:
    """The expected lines, computed in the simplest way."""
    found: list[Line] = []
    spilled: list[bytes] = []
    *whole, rest = data.split(b"\n")
    for line, ended in [*((line, True) for line in whole), (rest, False)]:
        if len(line) > cap:
            name, sha256 = str(len(spilled)), hashlib.sha256(line).hexdigest()
            found.append(OverlongLine(line[:HEAD], len(line), sha256, name))
            spilled.append(line)
        elif line:
            found.append(line if ended else PartialLine(line))
    return found, spilled


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=80),
            st.just(b"\n"),
            st.binary(max_size=8).map(lambda data: data + b"\n"),
            st.integers(CAP - 2, CAP + 2).map(lambda size: b"x" * size + b"\n"),
        ),
        max_size=30,
    ).map(b"".join)
)
def test_lines_do_not_depend_on_chunks(data: bytes) -> None:
    for chunk in CHUNKS:
        assert split(data, chunk) == expected(data)


@pytest.mark.parametrize("size", [CAP - 1, CAP, CAP + 1])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_cap_is_exact(size: int, chunk: int) -> None:
    line = b"x" * size
    found, spilled = split(line + b"\nnext\n", chunk)
    if size <= CAP:
        assert found == [line, b"next"]
    else:
        assert found == [OverlongLine(line, size, hashlib.sha256(line).hexdigest(), "0"), b"next"]
        assert spilled == [line]


class Nothing:
    def write(self, data: bytes) -> None:
        pass

    def close(self) -> str:
        return ""


@pytest.mark.parametrize("chunk", [1, 4096])
def test_memory_is_bounded_by_the_cap_however_small_the_chunks(chunk: int) -> None:
    """A cap of 32 KB, and a line of 96 KB."""
    lines = LineSplitter(32 * 1024, Nothing)
    pieces = [b"x" * chunk] * (96 * 1024 // chunk)
    tracemalloc.start()
    whole = [line for piece in pieces for line in lines.feed(piece)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert whole == []
    assert peak < 96 * 1024
    (line,) = lines.end()
    assert isinstance(line, OverlongLine)
    assert line.length == 96 * 1024
