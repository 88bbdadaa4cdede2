"""Reads a TOML pipeline file. tomllib gives the values, a second pass the line of each."""

from __future__ import annotations

import re
from typing import Any

from tillerman.core.errors import PipelineFileError
from tillerman.pipelines.document import DEEPEST, MOST_VALUES, Item

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY_PART = re.compile(r'[ \t]*(?:([A-Za-z0-9_-]+)|"((?:[^"\\\n]|\\.)*)"|\'([^\'\n]*)\')[ \t]*')
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)
_BARE = re.compile(r"[^,\]}#\n]*")

Path = tuple[str | int, ...]


def read_toml(text: str, path: str) -> Item:
    import tomllib

    text = text.replace("\r\n", "\n")
    try:
        tables = tomllib.loads(text)
        lines = _Lines(text)
        lines.read()
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        problem = str(error).replace(found[0], "") if found else str(error)
        raise PipelineFileError(
            path, line, f"not TOML: {problem}", hint="check its quotes, brackets and commas"
        ) from None
    except RecursionError:
        problem = f"nested deeper than {DEEPEST} levels"
        raise PipelineFileError(path, 1, problem, hint="use fewer levels") from None
    except ValueError:  # a number of thousands of digits
        problem = "not TOML: a number is too large"
        raise PipelineFileError(path, 1, problem, hint="use a smaller one") from None
    return _Builder(path, lines).item(tables, (), 1)


class _Builder:
    def __init__(self, path: str, lines: _Lines) -> None:
        self._path = path
        self._lines = lines
        self._count = 0

    def item(self, value: Any, at: Path, line: int) -> Item:
        line = self._lines.found.get(at, line)
        self._count += 1
        if len(at) > DEEPEST:
            raise PipelineFileError(
                self._path, line, f"nested deeper than {DEEPEST} levels", hint="use fewer levels"
            )
        if self._count > MOST_VALUES:
            raise PipelineFileError(
                self._path, line, f"more than {MOST_VALUES:,} values", hint="use fewer steps"
            )
        if isinstance(value, dict):
            return Item({key: self.item(one, (*at, key), line) for key, one in value.items()}, line)
        if isinstance(value, list):
            return Item(tuple(self.item(one, (*at, n), line) for n, one in enumerate(value)), line)
        if isinstance(value, int) and abs(value) >= 10**18:
            raise PipelineFileError(
                self._path, line, "a number is too large", hint="use a smaller one"
            )
        if not isinstance(value, str | int | float):
            raise PipelineFileError(
                self._path, line, "a date or time", hint="put it in quotes: it is read as a text"
            )
        return Item(value, line, self._lines.texts.get(at))


class _Lines:
    """The line of each value of a text that tomllib accepted."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = 0, 1  # a position and its line
        self._entries: dict[Path, int] = {}  # the last entry of each array of tables
        self.found: dict[Path, int] = {}
        self.texts: dict[Path, int] = {}  # texts that begin below their quotes

    def read(self) -> None:
        table: Path = ()
        while self._more():
            if self._text.startswith("[[", self._at):
                table = self._header(2)
                self._entries[table] = entry = self._entries.get(table, -1) + 1
                self.found.setdefault(table, self._line())
                table = (*table, entry)
                self.found[table] = self._line()
            elif self._text.startswith("[", self._at):
                table = self._header(1)
                self.found[table] = self._line()
            else:
                self._assignment(table)

    def _header(self, brackets: int) -> Path:
        self._at += brackets
        names = self._key()
        self._at += brackets
        table: Path = ()
        for number, name in enumerate(names):
            table = (*table, name)
            if table in self._entries and (brackets == 1 or number < len(names) - 1):
                table = (*table, self._entries[table])
        return table

    def _line(self) -> int:
        position, line = self._counted
        if self._at < position:
            position, line = 0, 1
        line += self._text.count("\n", position, self._at)
        self._counted = self._at, line
        return line

    def _more(self) -> bool:
        self._skip()
        return self._at < len(self._text)

    def _skip(self) -> None:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _key(self) -> Path:
        names: list[str] = []
        while True:
            part = _KEY_PART.match(self._text, self._at)
            if part is None:  # not reached: tomllib has accepted the text
                raise ValueError("a key")
            bare, quoted, literal = part.groups()
            names.append(bare if bare is not None else _unescaped(quoted, literal))
            self._at = part.end()
            if len(names) > DEEPEST:
                raise RecursionError
            if not self._text.startswith(".", self._at):
                return tuple(names)
            self._at += 1

    def _assignment(self, table: Path) -> None:
        line = self._line()
        key = (*table, *self._key())
        for length in range(len(table) + 1, len(key) + 1):
            self.found.setdefault(key[:length], line)
        self._at += 1  # the equals sign
        self._value(key)

    def _value(self, at: Path) -> None:
        self._skip()
        opening = self._text[self._at]
        if opening == "[":
            self._at += 1
            self._list(at)
        elif opening == "{":
            self._at += 1
            self._inline(at)
        elif string := _STRING.match(self._text, self._at):
            if string[0][3:4] == "\n":
                self.texts[at] = self._line() + 1
            self._at = string.end()
        else:
            bare = _BARE.match(self._text, self._at)
            self._at = bare.end() if bare else self._at

    def _list(self, at: Path) -> None:
        for number in range(len(self._text)):
            self._skip()
            if self._text[self._at] == "]":
                break
            self.found[(*at, number)] = self._line()
            self._value((*at, number))
            self._skip()
            if self._text[self._at] == ",":
                self._at += 1
        self._at += 1

    def _inline(self, at: Path) -> None:
        while True:
            self._skip()
            if self._text[self._at] == "}":
                break
            self._assignment(at)
            self._skip()
            if self._text[self._at] == ",":
                self._at += 1
        self._at += 1


def _unescaped(quoted: str | None, literal: str | None) -> str:
    import tomllib

    if quoted is None:
        return literal or ""
    name: str = tomllib.loads(f'key = "{quoted}"')["key"]
    return name
