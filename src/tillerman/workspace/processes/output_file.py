"""A file with what a process wrote, read in parts that show no part of a secret.

Whoever shows a text takes the secrets out of it. One that a cut goes through would not be known
any more, so it is masked here, byte by byte: offsets stay what they are.
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
        """Up to so many bytes from there on. `mask`: no secret is in them, whole or cut; for
        searches, which would else find out a secret letter by letter."""
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
    """By this part of the file, by a page of lines, or in a line that is too long."""
    at_an_edge = span.start <= start or span.end > end  # who reads may leave out the first byte
    if at_an_edge or b"\n" in data[span.start : span.end]:
        return True
    line = data.rfind(b"\n", 0, span.start)
    line_end = data.find(b"\n", span.end)
    return (line_end if line_end >= 0 else len(data)) - line > LINE_BYTES


def _mask(secret: bytes, name: str) -> bytes:
    """As long as the secret, with its ends of lines."""
    mask = marker(name).ljust(len(secret), b"*")
    return bytes(old if old in b"\r\n" else new for old, new in zip(secret, mask, strict=False))


@contextmanager
def opened(path: Path, secrets: Secrets | None) -> Iterator[tuple[OutputFile, int]]:
    """The file and its size."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refused(
            "this output is not there", hint="it may have been removed: list the processes"
        ) from None
    except OSError as error:
        raise Refused(f"this output cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("this output is no file")
        yield OutputFile(number, secrets), status.st_size
    except OSError as error:
        raise Refused(f"this output cannot be read: {error.strerror}") from None
    finally:
        os.close(number)
