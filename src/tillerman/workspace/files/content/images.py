"""Detects image type and pixel size from the file's bytes, for images that models accept.

A truncated or damaged image is rejected: a model's API would refuse the whole conversation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from msgspec import Struct

MOST_BYTES = 3 << 20  # as base64 still below the limits of model APIs
MOST_PIXELS = 8_000  # on either side


class ImageKind(Struct, frozen=True):
    mime: str
    width: int
    height: int


def image_kind(data: bytes) -> ImageKind | None:
    """Returns the image type; None if it is not a complete image."""
    for start, mime, size in _KINDS:
        if data.startswith(start):
            try:
                found = size(data)
            except (struct.error, IndexError):
                return None
            return ImageKind(mime, *found) if found and min(found) > 0 else None
    return None


def _png(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR" or b"IEND\xaeB`\x82" not in data[-1_024:]:
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _jpeg(data: bytes) -> tuple[int, int] | None:
    if b"\xff\xd9" not in data[-1_024:]:
        return None
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill bytes
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        else:
            at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return None


def _gif(data: bytes) -> tuple[int, int] | None:
    if not data.rstrip(b"\0").endswith(b";"):
        return None
    width, height = struct.unpack("<HH", data[6:10])
    return width, height


def _webp(data: bytes) -> tuple[int, int] | None:
    if data[8:12] != b"WEBP" or len(data) < 8 + struct.unpack("<I", data[4:8])[0]:
        return None
    match data[12:16]:
        case b"VP8X":
            return (
                1 + int.from_bytes(data[24:27], "little"),
                1 + int.from_bytes(data[27:30], "little"),
            )
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
    return None


_KINDS: tuple[tuple[bytes, str, Callable[[bytes], tuple[int, int] | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png", _png),
    (b"\xff\xd8\xff", "image/jpeg", _jpeg),
    (b"GIF87a", "image/gif", _gif),
    (b"GIF89a", "image/gif", _gif),
    (b"RIFF", "image/webp", _webp),
)
