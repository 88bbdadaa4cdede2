"""Files with secrets in them, and changes that a model makes to what it is shown of them."""

from __future__ import annotations

import random
import re
import string
from typing import NamedTuple

REGISTERED = {
    "SERVICE_TOKEN": "tok_9fK2mQ7xWc41",
    "DB_PASSWORD": "pa$$ w0rd/with+odd=signs",
    "OTHER_TOKEN": "Zx81-Qp77-Lm30",
}
PLACEHOLDER = re.compile(r"\[secret:(?!end\])[^\]\n]*\]")  # and no slice of Python's
_LITERALS = (
    "[secret:api-key]", "[secret:SERVICE_TOKEN]", "[secret:private-key 1/5]",
    "[secret:api-key 0a1b2c]", "data[secret:end]", "[secret:", "secret:api-key]",
)  # fmt: skip
_WORDS = ("url", "name = x", "# a comment", "", "    indented", "end", "ümläut", "key:", "{", "}")


class Line(NamedTuple):
    raw: str
    block: int = 0  # lines of one secret have one number, others 0


class SecretFile(NamedTuple):
    lines: list[Line]
    ends: str
    ends_last: bool
    encoding: str
    values: list[str]  # that must not be shown

    @property
    def data(self) -> bytes:
        return encoded([line.raw for line in self.lines], self)


def encoded(lines: list[str], like: SecretFile) -> bytes:
    text = like.ends.join(lines) + (like.ends if like.ends_last and lines else "")
    return text.encode(like.encoding)


def secret_file(chance: random.Random) -> SecretFile:
    lines: list[Line] = []
    values: list[str] = []
    pool = [_single(chance) for _ in range(3)]
    blocks = 0
    for _ in range(chance.randint(1, 14)):
        match chance.choice(("plain", "plain", "one", "one", "two", "again", "key", "literal")):
            case "plain":
                lines.append(Line(chance.choice(_WORDS)))
            case "literal":
                lines.append(Line(f"see {chance.choice(_LITERALS)} there"))
            case "key":
                blocks += 1
                rows = _private_key(chance)
                indent = chance.choice(("", "    "))
                lines += [Line(indent + row, blocks) for row in rows]
                values += rows[1:-1]
            case kind:
                new = [_single(chance) for _ in range(2 if kind == "two" else 1)]
                found = [chance.choice(pool)] if kind == "again" else new
                values += found
                lines.append(
                    Line(chance.choice(("{}", "x = '{}'", "a {} b")).format(" ".join(found)))
                )
    lines.append(Line("last"))
    return SecretFile(
        lines,
        chance.choice(("\n", "\r\n")),
        chance.random() < 0.7,
        chance.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig")),
        values,
    )


def _single(chance: random.Random) -> str:
    def letters(count: int) -> str:
        return "".join(chance.choices(string.ascii_letters + string.digits, k=count))

    return chance.choice((
        f"sk-{letters(24)}7",
        f"ghp_{letters(36)}",
        f"AKIA{''.join(chance.choices(string.ascii_uppercase + string.digits, k=16))}",
        f"xoxb-{letters(20)}",
        *REGISTERED.values(),
    ))  # fmt: skip


def _private_key(chance: random.Random) -> list[str]:
    kind = chance.choice(("", "RSA ", "OPENSSH "))
    alphabet = string.ascii_letters + string.digits + "+/"
    rows = ["".join(chance.choices(alphabet, k=64)) for _ in range(chance.randint(1, 4))]
    return [f"-----BEGIN {kind}PRIVATE KEY-----", *rows, f"-----END {kind}PRIVATE KEY-----"]


class Change(NamedTuple):
    """`rows` are lines of the file by their number, or new ones."""

    rows: list[int | str]
    whole: bool  # each secret of several lines is included or left out as a whole
    repeats: bool  # something is there more often than before


def change(chance: random.Random, file: SecretFile) -> Change:
    left_out = {one for one in {line.block for line in file.lines} if one and chance.random() < 0.3}
    rows: list[int | str] = [
        number
        for number, line in enumerate(file.lines)
        if (line.block not in left_out if line.block else chance.random() < 0.8)
    ]
    whole, repeats = True, False
    if chance.random() < 0.1 and any(line.block for line in file.lines):
        number = chance.choice([n for n, line in enumerate(file.lines) if line.block])
        if number in rows:
            rows.remove(number)
            whole = False
    for _ in range(chance.randint(0, 3)):
        at = chance.choice([n for n in range(len(rows) + 1) if _is_free(rows, n, file)])
        if chance.random() < 0.3 and (
            free := [n for n in range(len(file.lines)) if not file.lines[n].block]
        ):
            number = chance.choice(free)
            repeats = repeats or number in rows
            rows.insert(at, number)
        else:
            rows.insert(at, f"new line {chance.randint(0, 99)}")
    return Change(rows, whole, repeats)


def _is_free(rows: list[int | str], at: int, file: SecretFile) -> bool:
    """Not inside a secret."""
    blocks = [
        file.lines[row].block if isinstance(row, int) else 0
        for row in (rows[at - 1 : at] or [""])[:1] + (rows[at : at + 1] or [""])
    ]
    return not (blocks[0] and blocks[0] == blocks[1])
