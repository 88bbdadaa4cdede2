"""Decodes base64 images into a log entry and the attachment bytes to store."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from tillerman.core.events import Image
from tillerman.core.wire import AttachmentBytes


class Picture(NamedTuple):
    image: Image
    keep: AttachmentBytes


def picture(mime: str, encoded: str) -> Picture | None:
    """Decodes an image; None if the data is invalid."""
    import hashlib  # loads OpenSSL, and images are rare

    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data:
        return None
    hash = hashlib.sha256(data).hexdigest()
    return Picture(Image(mime or "application/octet-stream", hash), AttachmentBytes(data))
