"""Replaces secrets in a file's text by placeholders, and restores them when a model writes.

A placeholder stands for a secret of this one file. A secret of several lines has one per line, so
that line numbers stay the same. If a file has several secrets of one name, or literally contains
such a placeholder, a tag distinguishes them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tillerman.supervision.secrets import Secrets
from tillerman.supervision.secrets.key_patterns import SHAPES
from tillerman.workspace.files.refusal import Refused

_KEY = os.urandom(32)  # a tag from a plain digest would help to guess the secret
_TAG_LENGTHS = (6, 12, 24)
_PLACEHOLDER = re.compile(
    r"\[secret:(?P<name>[A-Za-z0-9_.-]+)(?: (?P<tag>[0-9a-f]{6,24}))?(?: (?P<part>\d+/\d+))?\]"
)
_OF_A_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{3,}")
_SHAPES = frozenset(shape.name for shape in SHAPES)


class _Part(NamedTuple):
    """The part of a secret in one line."""

    start: int
    end: int
    place: str  # "2/28" of a secret of several lines


class _Secret(NamedTuple):
    name: str
    parts: tuple[_Part, ...]
    texts: tuple[str, ...]  # of the parts

    @property
    def identity(self) -> tuple[str, tuple[str, ...]]:
        return self.name, self.texts

    def tag(self, length: int) -> str:
        said = "\n".join((self.name, *self.texts)).encode("utf-8", "surrogatepass")
        return hmac.new(_KEY, said, hashlib.sha256).hexdigest()[:length]


class RedactedText:
    """`raw` is the text of a file; `text` is the same with placeholders, line by line."""

    def __init__(self, raw: str, secrets: Secrets) -> None:
        self._raw, self._secrets = raw, secrets
        self._found = list(_secrets_in(raw, secrets))
        own = _PLACEHOLDER.finditer(raw) if "[secret:" in raw else ()
        self._own = Counter(match[0] for match in own)
        self._tags: dict[int, dict[tuple[str, str], _Secret]] = {}
        self.text, self._values = raw, dict[str, str]()
        tagged = self._unclear_names()
        for length in _TAG_LENGTHS if self._found else ():
            self.text, self._values = self._replaced(tagged, length)
            if self._is_clear(tagged, length) and self._put_back(self.text)[0] == raw:
                return
            tagged = {one.name for one in self._found}
        self._values = {}  # nothing can be restored

    def hidden_in(self, text: str) -> int:
        """Counts the placeholders of secrets in a part of the text."""
        if not self._found:
            return 0
        return sum(match[0] in self._values for match in _PLACEHOLDER.finditer(text))

    def restore(self, text: str) -> str:
        """Restores the secrets in a text that a model made from this one.

        Refused: a placeholder of no secret in this file, which would be written literally, and a
        secret that would no longer be detected and so be shown at the next read.
        """
        if "[secret:" not in text:
            return text
        restored, places, unknown = self._put_back(text)
        for placeholder, count in Counter(unknown).items():
            if count > self._own[placeholder]:
                raise self._unknown(placeholder)
        if places and (shown := _uncovered(restored, places, self._secrets)):
            raise Refused(
                f"{shown} would no longer be recognized as a secret, and would be shown",
                hint="do not change the text directly before and after a placeholder, and "
                "keep all lines of a secret together, or delete all of them",
            )
        return restored

    def _put_back(self, text: str) -> tuple[str, list[tuple[int, int, str]], list[str]]:
        """Returns the text, the positions of secrets in it, and unknown placeholders."""
        pieces: list[str] = []
        places: list[tuple[int, int, str]] = []
        unknown: list[str] = []
        at = end = 0
        for match in _PLACEHOLDER.finditer(text):
            value = self._value(match)
            if value is None:
                if is_placeholder(match, self._secrets):
                    unknown.append(match[0])
                continue
            pieces += [text[end : match.start()], value]
            at += match.start() - end
            places.append((at, at + len(value), match[0]))
            at += len(value)
            end = match.end()
        return "".join([*pieces, text[end:]]), places, unknown

    def _value(self, match: re.Match[str]) -> str | None:
        """Returns the secret of a placeholder, also by a tag that is no longer needed."""
        value = self._values.get(match[0])
        if value is not None or not (self._values and match["tag"]) or match[0] in self._own:
            return value
        length = len(match["tag"])
        if length not in self._tags:
            self._tags[length] = {(one.name, one.tag(length)): one for one in self._found}
        secret = self._tags[length].get((match["name"], match["tag"]))
        places = zip(secret.parts, secret.texts, strict=True) if secret else ()
        return next((text for part, text in places if part.place == (match["part"] or "")), None)

    def _unclear_names(self) -> set[str]:
        """Returns names of several secrets, or whose placeholder occurs literally in the file."""
        identities = {one.identity for one in self._found}
        count = Counter(name for name, _ in identities)
        own = {
            secret.name
            for placeholder, secret, _, _ in self._placeholders((), 0)
            if placeholder in self._own
        }
        return own | {name for name, times in count.items() if times > 1}

    def _is_clear(self, tagged: Collection[str], length: int) -> bool:
        """Returns whether each placeholder is unique and does not occur literally in the file."""
        texts: dict[str, str] = {}
        return not any(
            texts.setdefault(placeholder, text) != text or placeholder in self._own
            for placeholder, _, _, text in self._placeholders(tagged, length)
        )

    def _replaced(self, tagged: Collection[str], length: int) -> tuple[str, dict[str, str]]:
        pieces: list[str] = []
        values: dict[str, str] = {}
        end = 0
        for placeholder, _, part, text in self._placeholders(tagged, length):
            pieces += [self._raw[end : part.start], placeholder]
            values[placeholder] = text
            end = part.end
        return "".join([*pieces, self._raw[end:]]), values

    def _placeholders(
        self, tagged: Collection[str], length: int
    ) -> Iterator[tuple[str, _Secret, _Part, str]]:
        """Yields the placeholders; `tagged` names get tags of `length` digits."""
        for secret in self._found:
            tag = f" {secret.tag(length)}" if secret.name in tagged else ""
            for part, text in zip(secret.parts, secret.texts, strict=True):
                place = f" {part.place}" if part.place else ""
                yield f"[secret:{secret.name}{tag}{place}]", secret, part, text

    def _unknown(self, placeholder: str) -> Refused:
        if not self._found:
            return Refused(
                f"{placeholder} stands for a secret that this file does not contain: the "
                "placeholder itself would be written, and the secret lost",
                hint="a placeholder can only be written to the file it was read from; to copy a "
                "secret into another file use a command such as cp, or move_file",
            )
        there = ", ".join(dict.fromkeys(self._values)) or "none that can be written"
        return Refused(
            f"{placeholder} does not identify a secret of this file",
            hint=f"it contains: {there[:1_000]}; read it again and keep its placeholders unchanged",
        )


def placeholders_in(text: str, secrets: Secrets) -> list[str]:
    """Returns the placeholders of secrets in a text."""
    if "[secret:" not in text:
        return []
    found = _PLACEHOLDER.finditer(text)
    return [match[0] for match in found if is_placeholder(match, secrets)]


def is_placeholder(match: re.Match[str], secrets: Secrets) -> bool:
    """Returns False for other text, such as the Python slice `data[secret:end]`."""
    name = match["name"]
    if match["tag"] or match["part"] or name in _SHAPES or name in secrets.names:
        return True
    return _OF_A_VARIABLE.fullmatch(name) is not None


def _secrets_in(raw: str, secrets: Secrets) -> Iterator[_Secret]:
    data = raw.encode("utf-8", "surrogatepass")
    if not secrets.finds(data):
        return
    at = byte = 0
    for span in secrets.spans(data):
        start, end = span.start, span.end
        while start > byte and data[start] & 0xC0 == 0x80:  # whole characters
            start -= 1
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        at += len(data[byte:start].decode("utf-8", "surrogatepass"))
        text = data[start:end].decode("utf-8", "surrogatepass")
        parts = list(_parts(text, at))
        if parts:
            yield _Secret(span.name, tuple(parts), tuple(raw[one.start : one.end] for one in parts))
        at, byte = at + len(text), end


def _parts(text: str, at: int) -> Iterator[_Part]:
    """Splits a secret by line, without surrounding whitespace."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        kept = line.strip()
        if kept:
            start = at + line.index(kept[0])
            place = f"{number}/{len(lines)}" if len(lines) > 1 else ""
            yield _Part(start, start + len(kept), place)
        at += len(line) + 1


def _uncovered(text: str, places: Sequence[tuple[int, int, str]], secrets: Secrets) -> str:
    """Returns the first placeholder whose restored secret is no longer detected, or ""."""
    covered = [(part.start, part.end) for one in _secrets_in(text, secrets) for part in one.parts]
    number = 0
    for start, end, placeholder in places:
        while number < len(covered) and covered[number][1] < end:
            number += 1
        if number == len(covered) or covered[number][0] > start:
            return placeholder
    return ""
