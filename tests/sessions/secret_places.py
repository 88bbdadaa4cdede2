"""What a thorough search finds of secrets in all that a session stored."""

from __future__ import annotations

import os
import random
import sqlite3
import string
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.sessions.session_desk import Desk
from tests.supervision.written import WAYS
from tillerman.core.events import encode
from tillerman.core.transcript.transcript import fold
from tillerman.sessions import export
from tillerman.sessions.session import read_all

FRAGMENT = 10  # so many characters of a secret in a row are a find
HALF = FRAGMENT // 2
ALPHABETS = (
    string.ascii_letters + string.digits,
    string.ascii_letters + string.digits + "-_",
    string.ascii_letters + string.digits + "+/=",
    string.ascii_letters + string.digits + "!#$&'()*,.:;<>?@[]^{|}~\"/\\ ",
)


def canary(chance: random.Random) -> str:
    length = chance.choice([20, 24, 32, 40, 51, 64])
    alphabet = chance.choice(ALPHABETS)
    return "k" + "".join(chance.choice(alphabet) for _ in range(length - 2)) + "7"


class Fragments:
    """Every piece of every secret, in every encoding."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known: dict[bytes, str] = {}
        for secret in secrets:
            for way, write in WAYS.items():
                for piece in _pieces(_own(write(secret), write("?" * len(secret)))):
                    self._known.setdefault(piece, f"{way} of {secret!r}")
        starts = range(FRAGMENT - HALF + 1)
        self._halves = {piece[at : at + HALF] for piece in self._known for at in starts}

    def found_in(self, data: bytes) -> list[str]:
        """Where a fragment is, one of the halves that are searched first is inside it."""
        known = self._known
        halves = (data[at : at + HALF] for at in range(0, len(data), FRAGMENT - HALF + 1))
        if self._halves.isdisjoint(halves):
            return []
        pieces = (data[start : start + FRAGMENT] for start in range(len(data) - FRAGMENT + 1))
        return [f"{piece!r}, {known[piece]}" for piece in pieces if piece in known]


def _own(text: str, other: str) -> str:
    """The part of an encoded text that the secret alone determines; one character at either end is
    shared."""
    start = len(os.path.commonprefix([text, other]))  # noqa: RUF071 - no paths
    end = len(os.path.commonprefix([text[::-1], other[::-1]]))  # noqa: RUF071
    return text[start + 1 : len(text) - end - 1]


def _pieces(text: str) -> Iterator[bytes]:
    data = text.encode()
    for start in range(len(data) - FRAGMENT + 1):
        yield data[start : start + FRAGMENT]


def stored_files(desk: Desk, sessions: Sequence[str]) -> dict[str, bytes]:
    """Every file, and whatever can be unpacked or exported from the store."""
    found = {
        str(path.relative_to(desk.paths.state.parent)): path.read_bytes()
        for path in desk.paths.state.parent.rglob("*")
        if path.is_file() and not path.name.endswith(".reserve")
    }
    assert any(name.endswith(".db") for name in found)
    found |= {f"table {name}": data for name, data in _tables(desk.paths.store)}
    for session in sessions:
        entries = list(read_all(desk.sessions.log, session))
        found[f"entries of {session}"] = b"\n".join(map(encode, entries))
        found[f"jsonl of {session}"] = b"".join(export.to_jsonl(iter(entries)))
        found[f"markdown of {session}"] = export.to_markdown(fold(entries)).encode()
        found[f"html of {session}"] = export.to_html(fold(entries)).encode()
    return found


def _tables(store: Path) -> Iterator[tuple[str, bytes]]:
    """All rows as text; compressed ones are inflated."""
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (name,) in names:
            rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
            yield name, b"\n".join(_readable(value) for row in rows for value in row)
    finally:
        connection.close()


def _readable(value: object) -> bytes:
    if not isinstance(value, bytes):
        return str(value).encode("utf-8", "replace")
    try:
        inflated = zlib.decompress(value)
    except zlib.error:
        return value
    try:  # raw lines: packed again, as a list
        return b"\n".join(line for _, _, line in msgspec.msgpack.decode(inflated))
    except (ValueError, TypeError, msgspec.MsgspecError):
        return inflated
