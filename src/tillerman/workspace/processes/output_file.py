"""Reads an output file in parts that contain no part of a secret.

Callers redact secrets in the text that they show. A secret that is cut would no longer be detected,
so it is masked here byte by byte: offsets stay the same.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tillerman.supervision.secrets.registry import Secrets, Span, marker
from tillerman.workspace.files.refusal import Refused

LINE_BYTES = 2_000  # a longer line is cut


class OutputFile:
    def __init__(self, number: int, secrets: Secrets | None) -> None:
        self.number = number
        self._secrets = secrets

    def read(self, count: int, at: int, *, mask: bool = False) -> bytes:
        """Reads up to `count` bytes at `at`. `mask`: also masks complete secrets.

        That is for searches, which could otherwise reveal a secret letter by letter.
        """
        if self._secrets is None or count <= 0:
            return os.pread(self.number, count, at)
        margin = self._secrets.longest
        before = min(at, margin)
        data = os.pread(self.number, before + count + margin, at - before)
        end = min(before + count, len(data))
        masked = bytearray(data)
        for span in self._secrets.spans(data):
            is_inside = span.end > before and span.start < end
            if is_inside and (mask or _may_be_cut(data, span, before, end)):
                masked[span.start : span.end] = _mask(data[span.start : span.end], span.name)
        return bytes(masked[before:end])


def _may_be_cut(data: bytes, span: Span, start: int, end: int) -> bool:
    """Returns whether the secret may be cut: by this read, by a page, or in a long line."""
    at_an_edge = span.start <= start or span.end > end  # the caller may skip the first byte
    if at_an_edge or b"\n" in data[span.start : span.end]:
        return True
    line = data.rfind(b"\n", 0, span.start)
    line_end = data.find(b"\n", span.end)
    return (line_end if line_end >= 0 else len(data)) - line > LINE_BYTES


def _mask(secret: bytes, name: str) -> bytes:
    """Returns a mask of the same length, with the same line ends."""
    mask = marker(name).ljust(len(secret), b"*")
    return bytes(old if old in b"\r\n" else new for old, new in zip(secret, mask, strict=False))


@contextmanager
def opened(path: Path, secrets: Secrets | None) -> Iterator[tuple[OutputFile, int]]:
    """Opens the file; yields it and its size."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refused(
            "this output does not exist", hint="it may have been removed: list the processes"
        ) from None
    except OSError as error:
        raise Refused(f"this output cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("this output is not a file")
        yield OutputFile(number, secrets), status.st_size
    except OSError as error:
        raise Refused(f"this output cannot be read: {error.strerror}") from None
    finally:
        os.close(number)
