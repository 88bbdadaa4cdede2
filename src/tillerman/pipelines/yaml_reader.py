"""Reads a YAML pipeline file: plain data with lines, without tags, bounded in size and depth.

Only the words of YAML 1.1 and 1.2 that mean the same in both are other than texts: `true`, `false`,
`null`, decimal numbers. `yes`, `on`, `1:30` and `2024-01-01` are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from tillerman.core.errors import PipelineFileError, UsageError
from tillerman.pipelines.document import DEEPEST, MOST_VALUES, Item, Scalar

if TYPE_CHECKING:
    from types import ModuleType

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FRACTION = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{1,18}(?:[eE][-+][0-9]{1,2})?")


def read_yaml(text: str, path: str) -> Item:
    yaml = _yaml()
    reader = _Reader(yaml, yaml.parse(text, Loader=yaml.SafeLoader), path)
    try:
        return reader.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = " ".join(filter(None, (error.context, error.problem)))
        hint = "check its indentation, quotes and colons"
        raise PipelineFileError(path, line, f"not YAML: {problem}", hint=hint) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        problem = f"not YAML: character U+{error.character:04X} is not allowed"
        raise PipelineFileError(path, line, problem, hint="remove it") from None
    except (ValueError, OverflowError):  # escapes and version numbers beyond all bounds
        line = reader.line
        hint = "check the escapes in quoted texts"
        raise PipelineFileError(path, line, "not YAML: a number is too large", hint=hint) from None


def _yaml() -> ModuleType:
    try:
        import yaml
    except ImportError:
        from tillerman.harness.extras import install_command

        raise UsageError(
            "a pipeline in YAML needs PyYAML, which is not installed",
            hint=f"{install_command('pipelines')}, or write the pipeline in TOML",
        ) from None
    return yaml


class _Reader:
    """Builds values from the parser's events, so that bounds hold before anything is built."""

    def __init__(self, yaml: ModuleType, events: Iterator[Any], path: str) -> None:
        self._yaml = yaml
        self._events = events
        self._path = path
        self._anchors: dict[str, tuple[Item, int]] = {}  # with the number of values in it
        self._count = 0
        self.line = 1

    def document(self) -> Item:
        first = self._next()
        while not isinstance(first, self._yaml.DocumentStartEvent):
            if isinstance(first, self._yaml.StreamEndEvent):
                self.line = 1
                self._refuse("the file is empty", "write `name:` and `steps:`")
            first = self._next()
        found = self._value(self._next(), 0)
        self._next()  # the end of the document
        if not isinstance(self._next(), self._yaml.StreamEndEvent):
            self._refuse("a second document", "put each pipeline in a file of its own")
        if not isinstance(found.value, dict):
            self.line = found.line
            self._refuse(f"a pipeline must be a table, not {found.kind}", "write `key: value`")
        return found

    def _next(self) -> Any:
        event = next(self._events)
        self.line = event.start_mark.line + 1
        return event

    def _value(self, event: Any, depth: int, line: int = 0) -> Item:
        """`line`: that of the key, for the value of a key."""
        own, line = self.line, line or self.line
        if depth > DEEPEST:
            self._refuse(f"nested deeper than {DEEPEST} levels", "use fewer levels")
        if isinstance(event, self._yaml.AliasEvent):
            return self._alias(event.anchor, line)
        if event.tag is not None:
            shown = _short(event.tag.replace("tag:yaml.org,2002:", "!!"))
            self._refuse(f"the tag {shown!r}", "remove it: files are plain data")
        before = self._count
        self._add(1)
        if isinstance(event, self._yaml.ScalarEvent):
            multiline = event.style in ("|", ">")
            item = Item(_scalar(event), line, own + 1 if multiline else None)
        elif isinstance(event, self._yaml.SequenceStartEvent):
            item = Item(self._entries(depth), line)
        else:
            item = Item(self._table(depth), line)
        if event.anchor is not None:
            self._anchors[event.anchor] = item, self._count - before
        return item

    def _alias(self, name: str, line: int) -> Item:
        if name not in self._anchors:
            self._refuse(f"no anchor {name!r} before this", "define it with `&` first")
        item, count = self._anchors[name]
        self._add(count)
        return Item(item.value, line, item.text_line)

    def _entries(self, depth: int) -> tuple[Item, ...]:
        entries = []
        while not isinstance(event := self._next(), self._yaml.SequenceEndEvent):
            entries.append(self._value(event, depth + 1))
        return tuple(entries)

    def _table(self, depth: int) -> dict[str, Item]:
        table: dict[str, Item] = {}
        while not isinstance(event := self._next(), self._yaml.MappingEndEvent):
            line = self.line
            if not isinstance(event, self._yaml.ScalarEvent):
                self._refuse("a key must be a word", "write `key: value`")
            if event.tag is not None or event.anchor is not None:
                self._refuse("a key with a tag or an anchor", "write a plain key")
            if event.value in table:
                shown = _short(event.value)
                first = table[event.value].line
                self._refuse(f"the key {shown!r} is also in line {first}", "remove one")
            table[event.value] = self._value(self._next(), depth + 1, line)
        return table

    def _add(self, count: int) -> None:
        self._count += count
        if self._count > MOST_VALUES:
            self._refuse(f"more than {MOST_VALUES:,} values", "use fewer steps or aliases")

    def _refuse(self, problem: str, hint: str) -> NoReturn:
        raise PipelineFileError(self._path, self.line, problem, hint=hint)


def _scalar(event: Any) -> Scalar:
    text: str = event.value
    if event.style:  # quoted, or a block of text
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
