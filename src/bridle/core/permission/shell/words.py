"""Words of a command line before and after what a shell makes of them: quotes, braces, globs."""

from __future__ import annotations

import re

from msgspec import Struct

from bridle.core.permission.shell.script import ANY, HOLE, ONE

_MOST_BRACES = 64  # words that one word may become
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?\+?=")
_ANSI = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)


class Word(Struct, frozen=True):
    """`mask` has a `q` for each character that was quoted, and a `u` for the others."""

    text: str
    mask: str

    @property
    def plain(self) -> bool:
        """Nothing of it was quoted, so it may be a word of the language."""
        return "q" not in self.mask

    def assignment(self) -> tuple[str, Word] | None:
        """The name and the value, if this is one."""
        match = _ASSIGNMENT.match(self.text)
        if match is None or "q" in self.mask[: match.end()]:
            return None
        end = match.end()
        return match[1], Word(self.text[end:], self.mask[end:])

    def fields(self) -> list[str] | None:
        """The words that this becomes; None where nobody wants to count them."""
        expanded = _braces(self)
        if expanded is None:
            return None
        if len(expanded) > 1:  # an empty one is no word
            expanded = [word for word in expanded if word.text]
        return [_globbed(word) for word in expanded]


def ansi(text: str) -> str:
    """The inside of `$'…'`."""

    def put(match: re.Match[str]) -> str:
        x, u, long, octal, control, letter = match.groups()
        if code := x or u or long:
            number = int(code, 16)
            return chr(number) if number <= 0x10FFFF else HOLE
        if octal:
            return chr(int(octal, 8) & 0xFF)
        if control:
            return chr(ord(control) & 0x1F)
        return _ANSI.get(letter, "\\" + letter)

    return _ANSI_ESCAPE.sub(put, text)


def _globbed(word: Word) -> str:
    if "q" not in word.mask and not any(c in word.text for c in "*?["):
        return word.text
    out = []
    at = 0
    while at < len(word.text):
        c = word.text[at]
        if word.mask[at] == "q":
            out.append(c)
        elif c == "*":
            out.append(ANY)
        elif c == "?":
            out.append(ONE)
        elif c == "[" and (end := word.text.find("]", at + 2)) > 0:
            out.append(ONE)
            at = end
        else:
            out.append(c)
        at += 1
    return "".join(out)


def _braces(word: Word) -> list[Word] | None:
    """`a{b,c}` is two words; what is no such list stays as it is."""
    if word.text.count("{") > _MOST_BRACES and _open_braces(word) > _MOST_BRACES:
        return None
    done: list[Word] = []
    waiting = [word]
    while waiting:
        one = waiting.pop()
        parts = _first_list(one)
        if parts is None:
            done.append(one)
        else:
            waiting += reversed(parts)
        if len(done) + len(waiting) > _MOST_BRACES:
            return None
    return done


def _open_braces(word: Word) -> int:
    return sum(c == "{" and m == "u" for c, m in zip(word.text, word.mask, strict=True))


def _first_list(word: Word) -> list[Word] | None:
    start = 0
    while (start := _unquoted(word, "{", start)) >= 0:
        if start and word.text[start - 1] == "$":
            start += 1
            continue
        if found := _list_at(word, start):
            pieces, end = found
            head, tail = (0, start), (end, len(word.text))
            return [
                Word(
                    "".join(word.text[a:b] for a, b in (head, piece, tail)),
                    "".join(word.mask[a:b] for a, b in (head, piece, tail)),
                )
                for piece in pieces
            ]
        if (close := _unquoted(word, "}", start)) > 0 and ".." in word.text[start:close]:
            text = word.text[:start] + HOLE + word.text[close + 1 :]
            return [Word(text, word.mask[:start] + "u" + word.mask[close + 1 :])]
        start += 1
    return None


def _list_at(word: Word, start: int) -> tuple[list[tuple[int, int]], int] | None:
    """The bounds of each piece of the list that begins here, and where it ends."""
    depth, since = 0, start + 1
    pieces: list[tuple[int, int]] = []
    for at in range(start, len(word.text)):
        if word.mask[at] == "q":
            continue
        match word.text[at]:
            case "{":
                depth += 1
            case "," if depth == 1:
                pieces.append((since, at))
                since = at + 1
            case "}":
                depth -= 1
                if depth == 0:
                    return ([*pieces, (since, at)], at + 1) if pieces else None
    return None


def _unquoted(word: Word, c: str, start: int) -> int:
    while (start := word.text.find(c, start)) >= 0 and word.mask[start] == "q":
        start += 1
    return start
