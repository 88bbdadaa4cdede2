"""Reads archives as a stream in bounded memory: zip, tar, tar.gz, tar.bz2, tar.xz.

Nothing is written here, and no metadata of a member is trusted: the caller decides by `kind` and
`name`, and counts the bytes that are really read.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple, Protocol

from tillerman.workspace.files.refusal import Refused

_CHUNK = 1 << 16
_BLOCK = 512
_MOST_HEADER = 1 << 16  # of a long name or of pax records
_MOST_EXTRAS = 16  # headers that only describe the next one
_MOST_AT_ONCE = 2 << 20  # of a zip's central directory, which is read at once
_XZ_MEMORY = 128 << 20  # `xz -9` needs 65 MiB

MemberKind = Literal["file", "folder", "link", "device or pipe", "of an unknown kind"]


class Damaged(Exception):
    """The archive is inconsistent."""


class TooMuch(Exception):
    """The archive expands to more bytes than allowed."""


class ArchiveMember(NamedTuple):
    name: str
    kind: MemberKind
    executable: bool
    chunks: Callable[[], Iterator[bytes]]  # valid only until the next member is requested


class _Reads(Protocol):
    def read(self, size: int, /) -> bytes: ...


def members(file: int, most: int) -> Iterator[ArchiveMember]:
    """Yields the members. Raises Refused if it is not an archive, Damaged or TooMuch later.

    `most`: the maximum of decompressed bytes, including skipped members, which cost as much.
    """
    head = os.pread(file, 262 + 3, 0)
    source = io.FileIO(file, closefd=False)
    source.seek(0)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        found = _of_zip(source, _Room(most))
    elif head.startswith(b"\x1f\x8b"):
        found = _of_tar(gzip.GzipFile(fileobj=source), _Room(most))
    elif head.startswith(b"BZh"):
        found = _of_tar(bz2.BZ2File(source), _Room(most))
    elif head.startswith(b"\xfd7zXZ\0"):
        found = _of_tar(_Xz(source), _Room(most))
    elif head[257:262] == b"ustar":
        found = _of_tar(source, _Room(most))
    else:
        raise Refused("unknown archive format", hint="supported: zip, tar, tar.gz, .bz2 and .xz")
    return _guarded(found)


def _guarded(found: Iterator[ArchiveMember]) -> Iterator[ArchiveMember]:
    while True:
        with _damage():
            member = next(found, None)
        if member is None:
            return
        yield member._replace(chunks=partial(_guarded_chunks, member.chunks))


def _guarded_chunks(chunks: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    found = chunks()
    while True:
        with _damage():
            chunk = next(found, None)
        if chunk is None:
            return
        yield chunk


class _damage:
    """Converts any error of the readers, also struct.error and IndexError, to Damaged."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, Damaged | TooMuch):
            said = str(error) or type(error).__name__
            raise Damaged(said[:200]) from None


class _Room:
    def __init__(self, most: int) -> None:
        self._left = most

    def add(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise TooMuch
        return data


class _Xz:
    """An lzma reader with a memory limit, which the standard file class does not have."""

    def __init__(self, source: io.FileIO) -> None:
        self._source = source
        self._inner = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def read(self, size: int, /) -> bytes:
        while True:
            data = b""
            if self._inner.eof:
                rest = self._inner.unused_data.lstrip(b"\0") or self._source.read(_CHUNK)
                if not rest or not rest.strip(b"\0"):
                    return b""
                self._inner = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
                data = rest
            elif self._inner.needs_input:
                data = self._source.read(_CHUNK)
                if not data:
                    raise Damaged("it ends too early")
            if found := self._inner.decompress(data, size):
                return found


class _Bounded(io.FileIO):
    """A file for zipfile with a limit per read: zipfile reads as much as the archive claims."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = _MOST_AT_ONCE  # it does so only for the last bytes
        if size > _MOST_AT_ONCE:
            raise Damaged("its list of members is too long")
        return super().read(size) or b""


def _of_zip(source: io.FileIO, room: _Room) -> Iterator[ArchiveMember]:
    with zipfile.ZipFile(_Bounded(source.fileno(), closefd=False)) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            kind = _zip_kind(info, mode)
            chunks = partial(_inflate, archive, info, room)
            yield ArchiveMember(info.orig_filename, kind, bool(mode & 0o100), chunks)


def _zip_kind(info: zipfile.ZipInfo, mode: int) -> MemberKind:
    written = stat.S_IFMT(mode)
    if written == stat.S_IFLNK:
        return "link"
    if written == stat.S_IFDIR or info.orig_filename.endswith(("/", "\\")):
        return "folder"
    return "file" if written in (0, stat.S_IFREG) else "device or pipe"


def _inflate(archive: zipfile.ZipFile, info: zipfile.ZipInfo, room: _Room) -> Iterator[bytes]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Damaged("unsupported compression method")  # the others are unbounded
    with archive.open(info) as member:
        while chunk := member.read(_CHUNK):
            yield room.add(chunk)


class _Tar:
    """Reads tar blocks, forward only."""

    def __init__(self, source: _Reads, room: _Room) -> None:
        self._source, self._room = source, room
        self.left = 0  # of the open member, including the padding of its last block

    def header(self) -> bytes:
        """Returns the next header; empty at the end: an empty block, or the end of the file."""
        data = b"".join(self._some(_BLOCK))
        if not data.strip(b"\0"):
            return b""
        if len(data) < _BLOCK:
            raise Damaged("it ends too early")
        return data

    def contents(self, size: int) -> Iterator[bytes]:
        for data in self._some(size):
            size -= len(data)
            self.left -= len(data)
            yield data
        if size:
            raise Damaged("it ends too early")

    def extra(self, size: int) -> bytes:
        if size > _MOST_HEADER:
            raise Damaged("a name is too long")
        self.left = _padded(size)
        data = b"".join(self.contents(size))
        self.skip()
        return data

    def skip(self) -> None:
        for _ in self.contents(self.left):
            pass

    def _some(self, size: int) -> Iterator[bytes]:
        while size and (data := self._source.read(min(size, _CHUNK))):
            size -= len(data)
            yield self._room.add(data)


def _of_tar(source: _Reads, room: _Room) -> Iterator[ArchiveMember]:
    tar = _Tar(source, room)
    told: dict[str, str] = {}  # from headers before the member's own
    extras = 0
    while header := tar.header():
        size, letter = _checked(header), header[156:157]
        if letter in (b"x", b"g", b"L", b"K"):
            extras += 1
            if extras > _MOST_EXTRAS:
                raise Damaged("it contains only headers")
            data = tar.extra(size)
            if letter == b"L":
                told["path"] = _text(data)
            elif letter == b"x":
                told.update(_records(data))
            continue
        size = int(told.get("size", size))
        if not 0 <= size < 1 << 50:
            raise Damaged("a size is invalid")
        name = told.get("path") or _name(header)
        kind = _KINDS.get(letter, _UNKNOWN) if "GNU.sparse" not in told else _UNKNOWN
        if kind == "file" and name.endswith("/"):
            kind = "folder"  # as old tar versions wrote them
        if letter in (b"1", b"2", b"3", b"4", b"5", b"6"):
            size = 0  # these have no content, whatever the header claims
        told, extras = {}, 0
        tar.left = _padded(size)
        executable = bool(_number(header[100:108]) & 0o100)
        yield ArchiveMember(name, kind, executable, partial(tar.contents, size))
        tar.skip()


_UNKNOWN: MemberKind = "of an unknown kind"
_KINDS: dict[bytes, MemberKind] = {
    **dict.fromkeys((b"0", b"\0", b"7"), "file"),
    **dict.fromkeys((b"1", b"2"), "link"),
    **dict.fromkeys((b"3", b"4", b"6"), "device or pipe"),
    b"5": "folder",
}  # fmt: skip


def _checked(header: bytes) -> int:
    written = _number(header[148:156])
    if sum(header) - sum(header[148:156]) + 8 * 32 != written:
        raise Damaged("a header is invalid")
    return _number(header[124:136])


def _number(field: bytes) -> int:
    if field[:1] in (b"\x80", b"\xff"):
        return int.from_bytes(field[1:], "big", signed=field[:1] == b"\xff")
    return int(field.split(b"\0", 1)[0].strip() or b"0", 8)


def _name(header: bytes) -> str:
    name = _text(header[:100])
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _records(data: bytes) -> Iterator[tuple[str, str]]:
    """Parses pax records: `LENGTH KEY=VALUE\\n`. Keys that are not needed are skipped."""
    at = 0
    while at < len(data) and data[at]:
        space = data.index(b" ", at)
        end = at + int(data[at:space])
        if not space < end <= len(data):
            raise Damaged("a record is invalid")
        key, _, value = data[space + 1 : end - 1].partition(b"=")
        at = end
        if key in (b"path", b"size"):
            yield key.decode(), value.decode("utf-8", "surrogateescape")
        elif key.startswith(b"GNU.sparse"):
            yield "GNU.sparse", ""


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
