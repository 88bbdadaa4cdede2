"""Option grammars as data, and a getopt parser that applies them.

A grammar is a text of tokens: `-a` and `--all` are flags, `-abc` is three of them, `-a|--all` one
under two names, `-o|--output=write` takes a value, `--color?=text` may have one attached. Marks
follow a colon: `-r|--recursive:recursive`. The meaning of a value (its role) and of a mark is
defined in `roles`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from tillerman.core.permission.shell.parsed_script import SIGNS

_SIGN = re.compile(f"[{''.join(SIGNS)}]+")

Style = Literal["getopt", "posix", "single"]
# getopt: options may follow operands. posix: they end at the first operand. single: names of
# several letters follow one dash (`java -version`), and nothing is clustered.


class ProgramOption(NamedTuple):
    name: str
    takes: Literal["nothing", "value", "attached"] = "nothing"
    role: str = ""
    marks: tuple[str, ...] = ()


class Parsed:
    """The words of one command, classified by a grammar."""

    def __init__(self) -> None:
        self.operands: list[str] = []
        self.values: list[tuple[ProgramOption, str]] = []
        self.given: list[ProgramOption] = []  # in order
        self.marks: set[str] = set()
        self.unknown: list[str] = []  # options that are not in the grammar
        self.open = False  # a word known only at run time is among the options
        self.unsure = False  # part of an option's name is only known at run time
        self.rest = 0  # index of the first word after the options; posix only
        self.plain = False  # `--` was seen

    def value(self, name: str) -> str | None:
        """The last value given for the option of this name."""
        return next((text for option, text in reversed(self.values) if option.name == name), None)

    def add(self, option: ProgramOption, value: str | None = None) -> None:
        self.given.append(option)
        self.marks.update(option.marks)
        if value is not None:
            self.values.append((option, value))


@cache
def grammar(spec: str, style: Style = "getopt") -> Mapping[str, ProgramOption]:
    """Options by name with dashes; `-#` stands for a number after a dash."""
    found: dict[str, ProgramOption] = {}
    for token in spec.split():
        head, _, marks = token.partition(":")
        names, equals, role = head.partition("=")
        attached = names.endswith("?")
        takes: Literal["nothing", "value", "attached"] = (
            "nothing" if not equals else "attached" if attached else "value"
        )
        aliases = names.removesuffix("?").split("|")
        expanded = [name for one in aliases for name in _each(one, style)]
        canonical = max(expanded, key=len) if "|" in names else ""
        marked = tuple(marks.split(",")) if marks else ()
        for name in expanded:
            found.setdefault(name, ProgramOption(canonical or name, takes, role, marked))
    return found


def _each(name: str, style: Style) -> Iterator[str]:
    if style == "single" or name.startswith("--"):
        yield name
    else:
        yield from (f"-{letter}" for letter in name[1:])


def parse(
    words: Sequence[str], options: Mapping[str, ProgramOption], style: Style = "getopt"
) -> Parsed:
    """Parses `words` without the program's name."""
    parsed = Parsed()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            parsed.plain = True
            break
        if word[:1] in SIGNS and word:
            parsed.open = True
        elif word[:1] == "-" and word != "-":
            at += read_option(word, words[at : at + 1], options, style, parsed)
            continue
        if style == "posix":
            at -= 1
            break
        parsed.operands.append(word)
    parsed.operands += words[at:]
    parsed.rest = at
    return parsed


def read_option(
    word: str,
    following: Sequence[str],
    options: Mapping[str, ProgramOption],
    style: Style,
    parsed: Parsed,
) -> int:
    """Adds one word of options; returns how many of the following words it consumes."""
    if word.startswith("--") or style == "single":
        return _long(word, following, options, style, parsed)
    if "-#" in options and word[1:].isdigit():
        parsed.add(options["-#"])
        return 0
    for place in range(1, len(word)):
        option = options.get(f"-{word[place]}")
        if option is None:  # it may stand for other options, or have no value
            if word[place] in SIGNS:
                parsed.open = parsed.unsure = True
            elif word not in parsed.unknown[-1:]:
                parsed.unknown.append(word)
            continue
        attached = word[place + 1 :]
        if option.takes == "value":
            parsed.add(option, attached or (following[0] if following else ""))
            return int(not attached)
        if option.takes == "attached":
            parsed.add(option, attached)
            return 0
        parsed.add(option)
    return 0


def _long(
    word: str,
    following: Sequence[str],
    options: Mapping[str, ProgramOption],
    style: Style,
    parsed: Parsed,
) -> int:
    name, equals, value = word.partition("=")
    if not SIGNS.isdisjoint(name):
        _perhaps(name, options, parsed)
        return 0
    candidates = _named(name, options, style)
    if len(candidates) != 1:
        parsed.unknown.append(word)
        given = value if equals else following[0] if following else ""
        for one in candidates:  # the program may know fewer options, and accept it as this one
            parsed.add(one, given if one.takes == "value" or (equals and one.role) else None)
        return 0
    (option,) = candidates
    if equals and option.takes == "nothing":
        parsed.unknown.append(word)
        return 0
    if option.takes == "value" and not equals:
        parsed.add(option, following[0] if following else "")
        return 1
    parsed.add(option, value if option.takes != "nothing" else None)
    return 0


def _perhaps(name: str, options: Mapping[str, ProgramOption], parsed: Parsed) -> None:
    """Part of the name is only known at run time: it may be any option that fits."""
    known = [re.escape(part) for part in _SIGN.split(name)]
    fits = re.compile(".*".join(known))
    parsed.open = parsed.unsure = True
    for full, option in options.items():
        if fits.match(full):
            parsed.marks.update(option.marks)


def _named(name: str, options: Mapping[str, ProgramOption], style: Style) -> list[ProgramOption]:
    """The options that a name matches; long options may be abbreviated if unambiguous."""
    if name in options:
        return [options[name]]
    if style == "single":
        other = name[1:] if name.startswith("--") else f"-{name}"
        return [options[other]] if other in options else []
    if len(name) < 3:
        return []
    return list(dict.fromkeys(one for full, one in options.items() if full.startswith(name)))
