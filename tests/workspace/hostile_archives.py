"""Archives that try to write outside, fill the disk or break their reader; and mutations."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from functools import cache

NAMES = (
    *("../evil", "../../evil", "a/../../evil", "/tmp/evil-absolute", "//evil", "..", ".", "", "/"),
    *("a/./../..//../evil", "..\\evil", "C:\\evil", "C:/evil", "\\\\host\\evil", "a\\..\\..\\evil"),
    *(".git/hooks/post-checkout", ".GIT/config", ".env", "sub/.mcp.json", "evil\0.txt", "~/evil"),
    *("n" * 300, "d/" * 30 + "x", "d/" * 1_500 + "x", "e\u0301vil", ".g\u200cit/config", "a\nb"),
    *("fine", "fine", "FINE", "sub/fine", "sub", "link/evil", "link", "hard", "file/below", "file"),
    *("link-in/evil", "./fine2", "fine//3"),
)


@cache
def corpus() -> list[bytes]:
    return list(_made())


def _made() -> Iterator[bytes]:
    yield zipped([(name, b"evil") for name in NAMES])
    yield zipped([("bomb", bytes(40 << 20))])
    yield zipped([(f"many/{number}", b"") for number in range(500)])
    yield _zipped_links()
    for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        plain = tarred(kind)
        yield plain
        yield gzip.compress(plain, 1, mtime=0)
    yield gzip.compress(tarred(tarfile.PAX_FORMAT, bomb=40 << 20), 9, mtime=0)


def zipped(members: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            info = zipfile.ZipInfo("x")
            info.filename = name  # as it is: the constructor would tidy it
            info.compress_type = zipfile.ZIP_DEFLATED
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the same name twice is meant
                archive.writestr(info, data)
    return out.getvalue()


def _zipped_links() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, mode, data in (
            ("link", 0o120777, b"../outside"), ("link/evil", 0o100644, b"evil"),
            ("device", 0o020666, b""), ("pipe", 0o010666, b""), ("suid", 0o104755, b"x"),
        ):  # fmt: skip
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return out.getvalue()


def tarred(kind: int, bomb: int = 0) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        links = (
            ("link", tarfile.SYMTYPE, "../outside"), ("link-in", tarfile.SYMTYPE, "sub/../.."),
            ("hard", tarfile.LNKTYPE, "../outside/secret"), ("device", tarfile.CHRTYPE, ""),
            ("block", tarfile.BLKTYPE, ""), ("pipe", tarfile.FIFOTYPE, ""),
            ("sparse", tarfile.GNUTYPE_SPARSE, ""), ("odd", b"Z", ""),
        )  # fmt: skip
        for name, type, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = type, target
            archive.addfile(info)
        for name in NAMES:
            info = tarfile.TarInfo(name)
            info.size, info.mode = 4, 0o4755
            try:
                archive.addfile(info, io.BytesIO(b"evil"))
            except ValueError:
                continue  # this kind of tar cannot say it
        if bomb:
            info = tarfile.TarInfo("bomb")
            info.size = bomb
            archive.addfile(info, io.BytesIO(bytes(bomb)))
    return out.getvalue()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, numbers set to extremes, pieces doubled, moved and cut off."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if not changed:
            break
        at = chance.randrange(len(changed))
        match chance.randrange(6):
            case 0:
                changed[at] = chance.randrange(256)
            case 1:
                changed[at : at + 4] = chance.choice(
                    (b"\xff" * 4, b"\0" * 4, b"7777", b"\x80\0\0\1")
                )
            case 2:
                piece = changed[at : at + chance.randrange(600)]
                changed[at:at] = piece
            case 3:
                del changed[at : at + chance.randrange(600)]
            case 4:
                changed[at : at + 3] = chance.choice((b"../", b"/..", b"\0\0\0", b"PK\x01"))
            case 5 if chance.random() < 0.3:
                del changed[at:]
            case _:
                changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed)


def resummed(data: bytes) -> bytes:
    """A tar whose header checksums are correct again: otherwise a flipped byte ends it at once."""
    changed = bytearray(data)
    for at in range(0, len(changed) - 511, 512):
        if changed[at + 257 : at + 262] == b"ustar":
            changed[at + 148 : at + 156] = b" " * 8
            changed[at + 148 : at + 156] = b"%06o\0 " % sum(changed[at : at + 512])
    return bytes(changed)
