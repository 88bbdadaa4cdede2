"""Redacts a stream piece by piece, including secrets split between pieces.

Only a tail that may be the start of a secret is held back. The output does not depend on where the
text was split.
"""

from __future__ import annotations

from tillerman.supervision.secrets.key_patterns import LONGEST_HEAD
from tillerman.supervision.secrets.registry import Secrets, marker

_CONTEXT = LONGEST_HEAD  # bytes: whether a key matches depends on the text before it


class Redactor:
    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._context = b""  # already emitted
        self._held = b""
        self.joined = False  # the last piece completed a secret begun in an earlier one

    def feed(self, data: bytes) -> bytes:
        return self._advance(data, more=True)

    def flush(self) -> bytes:
        """Returns what was held back, once no more data follows."""
        return self._advance(b"", more=False)

    def passes(self, data: bytes) -> bool:
        """Accepts the data unchanged if nothing in it is, or may start, a secret."""
        text = self.with_context(data)
        return not self._secrets.finds(text) and self.accepts(text)

    def with_context(self, data: bytes) -> bytes:
        """Returns the data after the end of the text before it, for a search by the caller."""
        return self._context + data

    def accepts(self, text: bytes) -> bool:
        """Like `passes`, for the result of `with_context` in which no secret was found."""
        self.joined = False
        if self._held or self._secrets.beginning(text, len(self._context)) < len(text):
            return False
        self._context = text[-_CONTEXT:]
        return True

    @property
    def held(self) -> int:
        """Returns the number of bytes held back."""
        return len(self._held)

    def _advance(self, data: bytes, *, more: bool) -> bytes:
        text = self._context + self._held + data
        done = len(self._context)
        new = done + len(self._held)
        self.joined = False
        hold = self._secrets.beginning(text, done) if more else len(text)
        out: list[bytes] = []
        for span in self._secrets.spans(text, done):
            if span.start >= hold:
                break
            out += [text[done : span.start], marker(span.name)]
            done = span.end
            self.joined |= span.start < new < span.end
            if done > hold:
                hold = self._secrets.beginning(text, done)
        out.append(text[done:hold])
        self._context, self._held = text[max(0, hold - _CONTEXT) : hold], text[hold:]
        return b"".join(out)


class TextRedactor:
    """Like `Redactor`, for text."""

    def __init__(self, secrets: Secrets) -> None:
        self._bytes = Redactor(secrets)

    def feed(self, text: str) -> str:
        return self._bytes.feed(text.encode("utf-8", "surrogatepass")).decode(
            "utf-8", "surrogatepass"
        )

    def flush(self) -> str:
        return self._bytes.flush().decode("utf-8", "surrogatepass")

    def passes(self, text: str) -> bool:
        return self._bytes.passes(text.encode("utf-8", "surrogatepass"))

    def with_context(self, text: str) -> bytes:
        return self._bytes.with_context(text.encode("utf-8", "surrogatepass"))

    def accepts(self, text: bytes) -> bool:
        return self._bytes.accepts(text)

    @property
    def held(self) -> int:
        return self._bytes.held

    @property
    def joined(self) -> bool:
        return self._bytes.joined
