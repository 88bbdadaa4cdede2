"""A pipeline file as values that know their lines: what the YAML and the TOML reader produce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import NoReturn

from msgspec import Struct

from tillerman.core.errors import PipelineFileError

SUFFIXES = (".yaml", ".yml", ".toml")
LARGEST = 256 * 1024  # bytes
DEEPEST = 24  # lists and tables inside each other
MOST_VALUES = 10_000  # after aliases are replaced by what they name

Scalar = str | int | float | bool | None


class Item(Struct, frozen=True):
    """One value. `line` is that of its key; in a list, that of the value."""

    value: Scalar | tuple[Item, ...] | dict[str, Item]
    line: int
    text_line: int | None = None  # where the text begins, if it stands on lines of its own

    @property
    def kind(self) -> str:
        match self.value:
            case None:
                return "nothing"
            case bool():
                return "true" if self.value else "false"
            case int() | float():
                return f"the number {self.value}"
            case str():
                return "a text"
            case tuple():
                return "a list"
            case _:
                return "a table"


class File:
    """The file that is read, for values of the types that are wanted and for its errors."""

    def __init__(self, path: str) -> None:
        self.path = path

    def wrong(self, at: Item | int, problem: str, hint: str) -> PipelineFileError:
        line = at if isinstance(at, int) else at.line
        return PipelineFileError(self.path, line, problem, hint=hint)

    def table(self, item: Item, what: str, known: Iterable[str] = ()) -> Mapping[str, Item]:
        """`known`: the keys that it may have; any if empty."""
        if not isinstance(item.value, dict):
            raise self.wrong(item, f"{what} must be a table, not {item.kind}", "write `key: value`")
        known = tuple(known)
        for key, value in item.value.items():
            if known and key not in known:
                raise self.wrong(value, f"unknown key {key!r} in {what}", suggestion(key, known))
        return item.value

    def list(self, item: Item, what: str) -> tuple[Item, ...]:
        if not isinstance(item.value, tuple):
            raise self.wrong(item, f"{what} must be a list, not {item.kind}", "write `[one, two]`")
        if not item.value:
            raise self.wrong(item, f"{what} is empty", "add an entry, or remove the key")
        return item.value

    def text(self, item: Item, what: str, *, empty: bool = False) -> str:
        if not isinstance(item.value, str):
            quoted = "put it in quotes" if _is_scalar(item) else "write one text"
            raise self.wrong(item, f"{what} must be a text, not {item.kind}", quoted)
        if not empty and not item.value.strip():
            raise self.wrong(item, f"{what} is empty", "write the text, or remove the key")
        return item.value

    def texts(self, item: Item, what: str) -> tuple[str, ...]:
        """One text, or a list of different ones."""
        if isinstance(item.value, str):
            return (self.text(item, what),)
        found: dict[str, None] = {}  # in order
        for entry in self.list(item, what):
            text = self.text(entry, f"an entry of {what}")
            if text in found:
                raise self.wrong(entry, f"{text!r} is twice in {what}", "remove one")
            found[text] = None
        return tuple(found)

    def flag(self, item: Item, what: str) -> bool:
        if not isinstance(item.value, bool):
            shown = repr(item.value) if isinstance(item.value, str) else item.kind
            raise self.wrong(item, f"{what} must be true or false, not {shown}", "write `true`")
        return item.value

    def whole(self, item: Item, what: str, least: int, most: int) -> int:
        value = item.value
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            shown = item.value if isinstance(item.value, int | str) else item.kind
            problem = f"{what} must be a whole number from {least} to {most}, not {shown}"
            raise self.wrong(item, problem, f"write a number, such as {max(least, 3)}")
        return value

    def choice(self, item: Item, what: str, known: Iterable[str]) -> str:
        known = tuple(known)
        text = self.text(item, what)
        if text not in known:
            raise self.wrong(item, f"unknown {what}: {text!r}", suggestion(text, known))
        return text


def read(data: bytes, path: str) -> Item:
    """The file as one table. Raises PipelineFileError and nothing else, whatever the bytes."""
    if len(data) > LARGEST:
        _refuse(path, 1, f"larger than {LARGEST // 1024} KB", "shorten it, or split the pipeline")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        _refuse(path, line, f"not UTF-8 at byte {error.start}", "save it as UTF-8")
    if PurePath(path).suffix == ".toml":
        from tillerman.pipelines.toml_reader import read_toml

        found = read_toml(text, path)
    else:
        from tillerman.pipelines.yaml_reader import read_yaml

        found = read_yaml(text, path)
    _check_texts(found, path)
    return found


def suggestion(word: str, known: Iterable[str], otherwise: str = "") -> str:
    from difflib import get_close_matches

    known = tuple(known)
    if near := get_close_matches(word, known, n=2, cutoff=0.6):
        return f"did you mean {' or '.join(near)}?"
    return otherwise or f"known: {', '.join(known)}"


def _check_texts(item: Item, path: str) -> None:
    match item.value:
        case str():
            _check_text(item.value, item.line, path)
        case tuple():
            for entry in item.value:
                _check_texts(entry, path)
        case dict():
            for key, entry in item.value.items():
                _check_text(key, entry.line, path)
                _check_texts(entry, path)


def _check_text(text: str, line: int, path: str) -> None:
    """No program takes a NUL as an argument, and half a surrogate pair is no character."""
    if "\0" in text:
        _refuse(path, line, "a text contains a NUL character", "remove it")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        _refuse(path, line, "a text contains half of a surrogate pair", "write the character")


def _is_scalar(item: Item) -> bool:
    return not isinstance(item.value, tuple | dict | None)


def _refuse(path: str, line: int, problem: str, hint: str) -> NoReturn:
    raise PipelineFileError(path, line, problem, hint=hint)
