"""Small images, made by hand."""

from __future__ import annotations

import struct
import zlib


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + bytes(3 * width) for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join((
        b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)),
        chunk(b"IEND", b""),
    ))  # fmt: skip


def gif(width: int, height: int) -> bytes:
    """With one pixel in its first corner."""
    return (
        b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0" + bytes(6)
        + b",\0\0\0\0" + struct.pack("<HH", 1, 1) + b"\0\x02\x02D\x01\0;"
    )  # fmt: skip


def jpeg(width: int, height: int) -> bytes:
    """Its header with the size, and its end."""
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"
    return (
        b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xc0"
        + struct.pack(">H", len(frame) + 2) + frame + b"\xff\xda\0\x08\1\1\0\0?\0\0\xff\xd9"
    )  # fmt: skip


def webp(width: int, height: int) -> bytes:
    """Lossless, by its header."""
    bits = (width - 1) | (height - 1) << 14
    data = b"/" + struct.pack("<I", bits) + bytes(8)
    body = b"WEBPVP8L" + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body
