"""Merges config layers in rising precedence: defaults, project, user, environment, flags."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tillerman.config.project_trust import project_folder, trust_state
from tillerman.config.settings import SETTINGS, Config, IgnoredSetting, Source, agent_kind, build
from tillerman.config.value_types import ValueTypeError
from tillerman.core.errors import ConfigError
from tillerman.paths import Paths, find_paths

if TYPE_CHECKING:
    from tillerman.core.permission import Rule

FILE = "config.toml"
RULES = "rules"
_SECTIONS = sorted({key.split(".")[0] for key in SETTINGS if "." in key} | {"agents"})
# Settings that an untrusted project may tighten. Lowering any other limit would truncate the user's
# log and answers, or deny requests on the user's behalf.
TIGHTENED = frozenset(
    {"approve", "limits.turns", "limits.cost", "limits.tokens", "workspace.isolation"}
)
_RESERVED = frozenset({"TILLERMAN_HOME"})

Values = dict[str, tuple[Any, Source]]


def load(
    cwd: Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] = MappingProxyType({}),
    paths: Paths | None = None,
) -> Config:
    """Loads the merged config. `flags` maps dotted keys to arguments; None means not given."""
    paths = paths or find_paths(environment)
    values: Values = {}
    withheld: list[IgnoredSetting] = []
    ordered: tuple[Rule, ...] = ()
    tighter: tuple[Rule, ...] = ()
    folder = project_folder(paths, cwd or Path.cwd())
    if folder and FILE in folder.files:
        state = trust_state(paths, folder)
        try:
            found = read_toml(folder.files[FILE], folder.path / FILE, "project")
        except ConfigError as error:
            if state == "trusted":
                raise
            found, withheld = {}, [IgnoredSetting(FILE, error.message)]
        else:
            ordered = _rules(found)
            if state != "trusted":
                ordered, tighter = (), ordered
                found, withheld = tightening(found, state)
        values |= found
    user = _user_file(paths)
    ordered += _rules(user)
    values |= user
    values |= from_environment(environment)
    values |= _from_flags(flags)
    return build(
        {key: value for key, (value, _) in values.items()},
        paths=paths,
        rules=ordered,
        tightening=tighter,
        sources=MappingProxyType({key: source for key, (_, source) in values.items()}),
        withheld=tuple(withheld),
    )


def read_toml(data: bytes, path: Path, layer: str) -> Values:
    """Parses one TOML file and returns its validated values by dotted key."""
    import tomllib

    try:
        text = data.decode()
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 at byte {error.start}", hint="save it as UTF-8"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise _broken(path, data.decode(), str(error)) from None
    _refuse_dots(tables.get("agents"), path)
    values: Values = {}
    for key, value in _flatten(tables):
        source = Source(layer, str(path), line_of(text, key))
        if key == RULES:
            from tillerman.config.policy_rules import read_rules  # lazy: most configs have no rules

            values[key] = (read_rules(value, text, str(path), layer), source)
        else:
            values[key] = (checked(key, value, str(source)), source)
    return values


def checked(key: str, value: Any, where: str, *, word: bool = False) -> Any:
    """Validates and converts a value by its type. `word`: a plain string, not a TOML value."""
    if key.startswith("agents.") and key.count(".") >= 2:
        kind = agent_kind(key)
        if kind is None:
            return value
    elif key in SETTINGS:
        kind = SETTINGS[key].kind
    else:
        raise unknown(key, where)
    try:
        if word and kind.from_word:
            return kind.from_word(value)
        return kind.read(value)
    except ValueTypeError:
        raise ConfigError(
            f"{where}: {key} must be {kind.expected}, not {value!r}",
            hint=f"`tillerman config set {key} VALUE` sets it",
        ) from None


def unknown(key: str, where: str) -> ConfigError:
    from difflib import get_close_matches

    near = get_close_matches(key, SETTINGS, n=1, cutoff=0.5)
    last = key.rpartition(".")[2]
    near = near or [known for known in SETTINGS if known.rpartition(".")[2] == last]
    hint = f"did you mean {near[0]}?" if near else "`tillerman config show` lists the keys"
    return ConfigError(f"{where}: unknown setting {key}", hint=hint)


def from_environment(environment: Mapping[str, str]) -> Values:
    """Reads `TILLERMAN_*` variables: `limits.line` is TILLERMAN_LIMITS_LINE; lists use commas."""
    values: Values = {}
    by_variable = {setting.variable: key for key, setting in SETTINGS.items()}
    for variable, word in environment.items():
        if not variable.startswith("TILLERMAN_") or variable in _RESERVED or not word:
            continue
        key = by_variable.get(variable) or _agent_key(variable)
        if key is None:
            section = next(
                (s for s in _SECTIONS if variable.startswith(f"TILLERMAN_{s.upper()}_")), ""
            )
            if section:
                rest = variable.removeprefix(f"TILLERMAN_{section.upper()}_").lower()
                raise unknown(f"{section}.{rest}", variable)
            continue  # belongs to another program or a newer tillerman
        values[key] = (
            checked(key, word, variable, word=True),
            Source("environment", variable),
        )
    return values


def tightening(values: Values, state: str) -> tuple[Values, list[IgnoredSetting]]:
    """Splits values of an untrusted project into those that tighten the defaults and the rest."""
    stored: Values = {}
    withheld = []
    because = "it changed since it was trusted" if state == "changed" else "it is not trusted"
    for key, (value, source) in values.items():
        setting = SETTINGS.get(key)
        if setting is None or key not in TIGHTENED or setting.kind.tighter is None:
            withheld.append(IgnoredSetting(key, because))
        elif setting.kind.tighter(value, setting.default):
            stored[key] = (value, source)
        else:
            withheld.append(IgnoredSetting(key, f"would loosen {key}, but {because}"))
    return stored, withheld


def line_of(text: str, key: str) -> int | None:
    """Line number of a key for error messages, by a simple text scan; None if it is not found."""
    table = ""
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if header := re.match(r"\[([^\[\]]+)\]", line):
            table = re.sub(r"[\s\"']", "", header[1]) + "."
        elif assignment := re.match(r"([\w.\"'\s-]+?)\s*=", line):
            written = table + re.sub(r"[\s\"']", "", assignment[1])
            if key == written or key.startswith(f"{written}."):
                return number
    return None


def _user_file(paths: Paths) -> Values:
    try:
        data = paths.config_file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        hint = "fix its permissions" if isinstance(error, PermissionError) else ""
        raise ConfigError(
            f"{paths.config_file} cannot be read: {error.strerror}", hint=hint
        ) from None
    return read_toml(data, paths.config_file, "user")


def _rules(values: Values) -> tuple[Rule, ...]:
    """Removes and returns the rules: rules of several files are concatenated, not overridden."""
    rules: tuple[Rule, ...] = values.pop(RULES, ((), None))[0]
    return rules


def _from_flags(flags: Mapping[str, Any]) -> Values:
    values: Values = {}
    for key, word in flags.items():
        if word is not None:
            flag = f"--{key.rpartition('.')[2].replace('_', '-')}"
            read = checked(key, word, flag, word=isinstance(word, str))
            values[key] = (read, Source("flag", flag))
    return values


def _agent_key(variable: str) -> str | None:
    """Maps TILLERMAN_AGENTS_ACME_BINARY to `agents.acme.binary`.

    The option is the last part, since an agent name may contain underscores.
    """
    match = re.fullmatch(r"TILLERMAN_AGENTS_([A-Z0-9_]+)_(ACP|BINARY|MODEL|FLAGS)", variable)
    return f"agents.{match[1].lower()}.{match[2].lower()}" if match else None


def _flatten(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        key = prefix + name
        inside_an_agent = key.count(".") >= 2
        if key in ("models", "screen.keys"):  # tables with user-defined keys
            yield key, value
        elif isinstance(value, dict) and not inside_an_agent and (value or key in _SECTIONS):
            yield from _flatten(value, f"{key}.")
        elif not (key.startswith("agents.") and value == {}):
            yield key, value


def _refuse_dots(agents: object, path: Path) -> None:
    """Rejects a dot in an agent name: the key would be read as an option of another agent."""
    for name in agents if isinstance(agents, dict) else ():
        if "." in name:
            raise ConfigError(f"{path}: agent {name!r} has a dot in its name", hint="remove it")


def _broken(path: Path, text: str, message: str) -> ConfigError:
    place = re.search(r"\s*\(at line (\d+), column (\d+)\)", message)
    if place:
        message = message.replace(place.group(), "")
        at = f"{place[1]}:{place[2]}"
    else:
        lines = text.splitlines() or [""]
        message = re.sub(r"\s*\(at end of document\)", " at the end of the file", message)
        at = f"{len(lines)}:{len(lines[-1]) + 1}"
    return ConfigError(f"{path}:{at}: {message}", hint="fix the file, or move it away")
