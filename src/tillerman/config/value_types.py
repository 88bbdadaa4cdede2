"""Config value types: how each is parsed from TOML or a string, formatted and compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct


class ValueTypeError(ValueError):
    """Raised for a value of the wrong type; `ValueType.expected` describes the right one."""


class ValueType(Struct, frozen=True):
    """How one type of value is parsed, formatted and compared."""

    expected: str
    read: Callable[[Any], Any]  # accepts a TOML value, and a string if `from_word` is None
    from_word: Callable[[str], Any] | None = None
    show: Callable[[Any], str] = str
    tighter: Callable[[Any, Any], bool] | None = None  # (value, than), for untrusted projects


_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)i?(b?)", re.IGNORECASE)
_SPANS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.IGNORECASE)
_NONE = ("", "0", "none", "never", "off")


def text() -> ValueType:
    return ValueType("a string", _text, show=lambda value: value or "")


def choice(words: Sequence[str], *, strictest_first: bool = False) -> ValueType:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueTypeError
        return value

    def tighter(value: str, than: str) -> bool:
        return words.index(value) <= words.index(than)

    return ValueType(
        f"one of {', '.join(words)}", read, tighter=tighter if strictest_first else None
    )


def switch() -> ValueType:
    def read(value: Any) -> bool:
        words = {"yes": True, "true": True, "no": False, "false": False}
        word = str(value).lower()
        if not isinstance(value, bool | str) or word not in words:
            raise ValueTypeError
        return words[word]

    return ValueType("yes or no", read, show=lambda value: "yes" if value else "no")


def names() -> ValueType:
    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueTypeError
        return tuple(value)

    def from_word(word: str) -> tuple[str, ...]:
        return tuple(item.strip() for item in word.split(",") if item.strip())

    return ValueType("a list of strings", read, from_word, ", ".join)


def agent_list() -> ValueType:
    """Agent names in order, stored as on the command line: `one,two`."""

    def read(value: Any) -> str:
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return ",".join(value)
        return _text(value)

    return ValueType("a name, or a list of names", read)


def model_rows() -> ValueType:
    """`[models."NAME"]`: vendor names by agent, and `price`."""

    def read(value: Any) -> dict[str, dict[str, Any]]:
        if not isinstance(value, dict) or not all(isinstance(row, dict) for row in value.values()):
            raise ValueTypeError
        for row in value.values():
            for key, entry in row.items():
                if not (_is_price(entry) if key == "price" else isinstance(entry, str)):
                    raise ValueTypeError
        return value

    return ValueType(
        'tables such as ["sonnet-5"] with claude = "its name" and price = [input, output, cached]',
        read,
        show=lambda value: ", ".join(value) or "none",
    )


def key_table() -> ValueType:
    """`[screen.keys]`: key bindings that override the defaults."""

    def read(value: Any) -> dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value.values()):
            raise ValueTypeError
        return value

    return ValueType(
        'a table such as quit = "ctrl+x"',
        read,
        show=lambda value: ", ".join(f"{name} = {key}" for name, key in value.items()) or "none",
    )


def _is_price(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) in (2, 3)
        and all(isinstance(part, int | float) and part >= 0 for part in value)
    )


def size(least: int = 1024) -> ValueType:
    def read(value: Any) -> int:
        return int(_measure(value, _SIZE, _UNITS, least))

    return ValueType(
        f'a size such as 65536 or "64 KB", at least {show_size(least)}',
        read,
        show=show_size,
    )


def seconds(least: float = 1, *, optional: bool = False) -> ValueType:
    def read(value: Any) -> float | None:
        if optional and str(value).lower() in _NONE:
            return None
        return _measure(value, _SPAN, _SPANS, least)

    return ValueType(
        'a time such as 90 or "10m"' + (', or "none"' if optional else ""),
        read,
        show=show_seconds,
    )


def count(*, optional: bool = False, fraction: bool = False) -> ValueType:
    def read(value: Any) -> float | None:
        if optional and str(value).lower() in _NONE:
            return None
        try:
            number = float(value) if fraction else int(value)
        except (TypeError, ValueError):
            raise ValueTypeError from None
        if (
            isinstance(value, bool)
            or not 0 < number < 2**63
            or (isinstance(value, float) and not fraction)
        ):
            raise ValueTypeError
        return number

    return ValueType(
        ("a number" if fraction else "an integer")
        + " greater than 0"
        + (', or "none"' if optional else ""),
        read,
        show=lambda value: "none" if value is None else str(value),
        tighter=_lower,
    )


def show_size(value: int) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if value >= factor and value % factor == 0:
            return f"{value // factor} {unit}"
    return f"{value} B"


def show_seconds(value: float | None) -> str:
    if value is None:
        return "none"
    for unit, factor in (("d", 86400), ("h", 3600), ("m", 60)):
        if value >= factor and value % factor == 0:
            return f"{value / factor:g}{unit}"
    return f"{value:g}s"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueTypeError
    return value


def _measure(value: Any, form: re.Pattern[str], units: dict[str, int], least: float) -> float:
    if isinstance(value, str) and (match := form.fullmatch(value.strip())):
        value = float(match[1]) * units[match[2].lower()]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1e15:
        raise ValueTypeError
    return float(value)


def _lower(value: float | None, than: float | None) -> bool:
    return than is None or (value is not None and value <= than)
