"""Agent profiles: user-defined Markdown files in `.tillerman/agents/` with front matter.

The lines between the first two `---` are the front matter, `key: value`; the text after them is the
system prompt. Project profiles apply only when the project is trusted, and override the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tillerman.config.definition_files import DefinitionFile, definition_files
from tillerman.core.errors import ConfigError
from tillerman.paths import Paths

FOLDER = "agents"
MODES = ("agent", "plan", "ask")
COLORS = (
    "red", "green", "yellow", "blue", "magenta", "cyan", "white", "black", "orange", "purple",
    "pink", "grey",
)  # fmt: skip
LARGEST = 256 * 1024  # bytes
_LISTS = frozenset({"agent", "tools"})
_KEYS = frozenset({"name", "description", "model", "color", "agent", "mode", "tools"})


class Profile(Struct, frozen=True):
    name: str
    path: str
    layer: Literal["project", "user"]
    description: str = ""
    model: str | None = None
    color: str | None = None
    agents: tuple[str, ...] = ()  # in order; empty: agents that offer the model, or the configured
    mode: Literal["agent", "plan", "ask"] | None = None
    tools: tuple[str, ...] = ()  # allowlist; empty: all tools
    system: str = ""


class InvalidProfile(Struct, frozen=True):
    """A profile file that is invalid or ignored, with the reason."""

    name: str
    path: str
    problem: str
    hint: str = ""


def profile(paths: Paths, cwd: Path, name: str) -> Profile | None:
    """Loads a profile by name. None if there is no such file.

    Raises ConfigError if the file is invalid or the project is not trusted.
    """
    withheld: InvalidProfile | None = None
    for found in _files(paths, cwd):
        if found.name != name:
            continue
        if found.data is None:
            withheld = withheld or InvalidProfile(name, found.path, found.problem, found.hint)
            continue
        return parse(found.data, found.path, found.layer)
    if withheld:
        raise ConfigError(f"{withheld.path}: {withheld.problem}", hint=withheld.hint)
    return None


def profiles(
    paths: Paths, cwd: Path, *, checked: bool = True
) -> Sequence[Profile | InvalidProfile]:
    """All profiles, sorted by name; for duplicate names only the effective one.

    `checked`: only trusted ones; else those of an untrusted project too, to look at.
    """
    listed: dict[str, Profile | InvalidProfile] = {}
    for found in _files(paths, cwd, checked):
        if isinstance(listed.get(found.name), Profile):
            continue
        if found.data is None:
            listed.setdefault(
                found.name, InvalidProfile(found.name, found.path, found.problem, found.hint)
            )
            continue
        try:
            listed[found.name] = parse(found.data, found.path, found.layer)
        except ConfigError as error:
            listed[found.name] = InvalidProfile(found.name, found.path, error.message, error.hint)
    return [listed[name] for name in sorted(listed)]


def _files(paths: Paths, cwd: Path, checked: bool = True) -> Iterator[DefinitionFile]:
    return definition_files(paths, cwd, FOLDER, (".md",), LARGEST, checked=checked)


# -- parsing one file ------------------------------------------------------------------------------


def parse(data: bytes, path: str, layer: Literal["project", "user"]) -> Profile:
    if len(data) > LARGEST:
        raise ConfigError(f"{path}: larger than {LARGEST // 1024} KB", hint="shorten it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 at byte {error.start}", hint="save it as UTF-8"
        ) from None
    lines = text.splitlines()
    values, body = _front_matter(lines, path) if lines[:1] == ["---"] else ({}, 0)
    stem = Path(path).stem
    name, line = values.pop("name", (stem, 1))
    if name != stem:
        raise _wrong(
            path, line, f"its name is {name!r}, but the file is named {stem!r}", "use one name"
        )
    given: dict[str, Any] = {}
    for key, (value, line) in values.items():
        given["agents" if key == "agent" else key] = _checked(key, value, path, line)
    system = "\n".join(lines[body:]).strip()
    return Profile(name=stem, path=path, layer=layer, system=system, **given)


def _uncommented(value: str) -> str:
    """Strips a trailing ` # comment`, unless the value is quoted."""
    value = value.strip()
    return value if value[:1] in ("'", '"') else value.partition(" #")[0]


def _front_matter(lines: Sequence[str], path: str) -> tuple[dict[str, tuple[Any, int]], int]:
    """Returns the value and line number of each key, and the number of front matter lines."""
    values: dict[str, tuple[Any, int]] = {}
    last = ""
    for number, line in enumerate(lines[1:], 2):
        if line.strip() == "---":
            return values, number
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.lstrip().startswith("- ") and last in _LISTS:
            items, first = values[last]
            values[last] = ([*items, *_items(_uncommented(line.lstrip()[2:]))], first)
            continue
        key, colon, value = line.partition(":")
        last, value = key.strip(), _uncommented(value)
        if not colon:
            raise _wrong(
                path, number, f"not `key: value`: {line.strip()!r}", "see `tillerman agents`"
            )
        if last not in _KEYS:
            known = ", ".join(sorted(_KEYS))
            raise _wrong(path, number, f"unknown key {last!r}", f"known: {known}")
        if last in values:
            raise _wrong(path, number, f"{last!r} is set twice", "remove one")
        values[last] = (_items(value) if last in _LISTS else _unquoted(value), number)
    raise _wrong(path, len(lines), "the front matter has no end", "close it with `---`")


def _checked(key: str, value: Any, path: str, line: int) -> Any:
    if key == "mode" and value not in MODES:
        raise _wrong(path, line, f"unknown mode {value!r}", f"known: {', '.join(MODES)}")
    if key == "color" and value not in COLORS and not _is_hex(value):
        known = ", ".join(COLORS)
        raise _wrong(path, line, f"unknown color {value!r}", f"#rrggbb, or one of {known}")
    if key == "tools" and not any(value):
        hint = "list the allowed tools, as in `tools: Read, Grep`, or omit the line to allow all"
        raise _wrong(path, line, "no tools given", hint)
    if key in _LISTS:
        return tuple(value)
    return value or None if key == "model" else value


def _items(text: str) -> list[str]:
    inner = text.strip().removeprefix("[").removesuffix("]")
    return [_unquoted(item) for item in inner.split(",") if item.strip()]


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def _is_hex(text: str) -> bool:
    return (
        len(text) == 7 and text[0] == "#" and all(c in "0123456789abcdefABCDEF" for c in text[1:])
    )


def _wrong(path: str, line: int, problem: str, hint: str) -> ConfigError:
    return ConfigError(f"{path}:{line}: {problem}", hint=hint)
