"""Malformed input streams for decoder tests: invalid lines, and randomly corrupted recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

LONGEST = 2000  # bytes of a recorded line that is worth corrupting
SCRAPS = (
    b"\n", b"\r\n", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"\\", b"\\u",
    b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"-", b"1e999", b"NaN",
    b"9" * 30, b"[" * 120, b" " * 70, "é".encode(), "𝄞".encode(), b"\x1b]0;x\x07",
)  # fmt: skip

NONSENSE: Sequence[bytes] = (
    b"not JSON",
    b"null",
    b"7",
    b'"words"',
    b"[]",
    b"{}",
    b'{"from": "tomorrow"}',
    b'{"type": "from_tomorrow"}',
    b'{"type": null}',
    b'{"type": {"type": "text"}}',
    b'{"type": "text", "text": "\\ud800"}',
    b'{"n": 123456789012345678901234567890}',
    b'{"n": ' + b"9" * 5000 + b"}",
    b'{"n": NaN}',
    b'{"n": -Infinity}',
    b'{"n": 1e999}',
    b'{"n": "\x00"}',
    b"\xef\xbb\xbf{}",
    '{"type": "text"}'.encode("utf-16"),
    b"\xff\xfe\x00\x80",
    b'{"n": "\xff"}',
    b"[" * 100_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
)


def corrupted(lines: Sequence[bytes], random: Random) -> bytes:
    """A few recorded lines with random corruptions."""
    short = [line for line in lines if len(line) <= LONGEST] or list(NONSENSE[:20])
    chosen = [random.choice(short) for _ in range(random.randint(1, 4))]
    data = bytearray(b"\n".join(chosen) + random.choice((b"\n", b"")))
    for _ in range(random.randint(0, 6)):
        random.choice(DAMAGES)(data, random)
    return bytes(data)


def _place(data: bytearray, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _insert(data: bytearray, random: Random) -> None:
    at = _place(data, random)
    data[at:at] = random.choice(SCRAPS)


def _overwrite(data: bytearray, random: Random) -> None:
    at, scrap = _place(data, random), random.choice(SCRAPS)
    data[at : at + len(scrap)] = scrap


def _flip(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _remove(data: bytearray, random: Random) -> None:
    at = _place(data, random)
    del data[at : at + random.randint(1, 40)]


def _repeat(data: bytearray, random: Random) -> None:
    at = _place(data, random)
    data[at:at] = data[at : at + random.randint(1, 40)]


def _cut(data: bytearray, random: Random) -> None:
    del data[_place(data, random) :]


def _noise(data: bytearray, random: Random) -> None:
    at = _place(data, random)
    data[at:at] = random.randbytes(random.randint(1, 20))


def _swap(data: bytearray, random: Random) -> None:
    """Replaces a number or a word by another."""
    for old, new in ((b"true", b"7"), (b'"type"', b'"kind"'), (b":", b": "), (b'"', b"")):
        at = data.find(old, _place(data, random))
        if at >= 0:
            data[at : at + len(old)] = new
            return


DAMAGES: Sequence[Callable[[bytearray, Random], None]] = (
    _insert, _overwrite, _flip, _remove, _repeat, _cut, _noise, _swap,
)  # fmt: skip
