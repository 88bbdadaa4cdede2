"""Finds files and commands named in code of another language, without parsing it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE, joined

_LONGEST, _MOST = 100_000, 200
_STRING = re.compile(r""""((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`""")
_NAME = re.compile(r"[^\s\"'`()\[\]{}<>|;,&=]+")
# Outside of strings: begins like a path and does not continue a name (`x.env` is an attribute).
_PATH = re.compile(r"(?<![\w.)\]}\"'$\\*?+^-])(?:~?/|\.{1,2}(?=[\w/])|[\w-]+/)[\w.@%+,:~/-]+")
_LIKE_PATH = re.compile(r"[./~]")
_GLOBS = str.maketrans({"*": ANY, "?": ONE})  # `glob(".e*")`
_PIECE = re.compile(r"[;&|\n(){}\"'`<>]+|\$\(|:\s")
_VALUE = re.compile(r"^-{0,2}[\w.-]+=")
# What follows is a command, in many small languages.
_RUNNING = re.compile(
    r"(?:^|[^\w-])(?:run-shell|run|if-shell|shell|system|sys|exec|execute|spawn|popen|cmd|command"
    r"|entrypoint)[\s:,-]+(?=\S)(.*)",
    re.DOTALL | re.IGNORECASE,
)
_MOST_WORDS = 40
_LONGEST_WORD = 10_000


def named_files(text: str) -> list[str]:
    """Words that may be files: a whole string, or a word that looks like a path.

    HOLE if the code is too long to search.
    """
    found = dict.fromkeys(_named(text[:_LONGEST]))
    names = [name.translate(_GLOBS) for name in found if name not in ("", "-", ".", "..", "/")]
    return names[:_MOST] + ([HOLE] if len(text) > _LONGEST or len(names) > _MOST else [])


def _named(text: str) -> Iterator[str]:
    for match in _STRING.finditer(text):
        inside = next(group for group in match.groups() if group is not None)
        names = _NAME.findall(inside)
        yield from (name for name in names if len(names) == 1 or _LIKE_PATH.search(name))
    yield from _PATH.findall(text)


def passed_commands(words: Sequence[str]) -> tuple[str, ...]:
    """Commands that a program may run if it runs its arguments: from one on, or inside one."""
    found: list[str] = []
    for at, word in enumerate(words[1:_MOST_WORDS], 1):
        if len(word) > _LONGEST_WORD:
            continue
        rest = words[at + 1 : at + _MOST_WORDS]
        found.append(joined([word.rpartition("/")[2], *rest]))
        value = _VALUE.sub("", word, count=1)
        if value != word:
            found.append(joined([value.rpartition("/")[2], *rest]))
        if _PIECE.search(value) or " " in value:
            pieces = [piece.strip(" \t%!@\\") for piece in _PIECE.split(value)]
            found += [
                re.sub(r"^\S*/", "", one)
                for piece in pieces[:_MOST_WORDS]
                for one in (piece, *_RUNNING.findall(piece))
            ]
    return tuple(dict.fromkeys(one for one in found if one))
