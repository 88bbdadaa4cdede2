"""Implements `tillerman config`: show, get and set values, and list the config files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from tillerman.config.layers import FILE, checked, read_toml, unknown
from tillerman.config.project_trust import (
    FOLDER,
    ProjectFolder,
    TrustState,
    project_folder,
    read_folder,
    trust,
    trust_state,
)
from tillerman.config.settings import SETTINGS, Config, Source, agent_kind, value_at
from tillerman.paths import Paths, private_folder, write_whole


class ConfigRow(NamedTuple):
    key: str
    value: Any
    shown: str
    source: Source
    help: str


class ConfigFile(NamedTuple):
    layer: str
    path: Path
    exists: bool
    trust: TrustState | None  # only for the project file


def show(config: Config) -> list[ConfigRow]:
    keys = [*SETTINGS, *sorted(key for key in config.sources if key.startswith("agents."))]
    return [get(config, key) for key in keys]


def get(config: Config, key: str) -> ConfigRow:
    if key not in SETTINGS and key not in config.sources:
        raise unknown(key, "config")
    value = value_at(config, key)
    kind = SETTINGS[key].kind if key in SETTINGS else agent_kind(key)
    shown = kind.show(value) if kind else str(value)
    help = SETTINGS[key].help if key in SETTINGS else ""
    return ConfigRow(key, value, shown, config.sources.get(key, Source("default")), help)


def files(paths: Paths, cwd: Path) -> list[ConfigFile]:
    """Config files, lowest precedence first."""
    folder = project_folder(paths, cwd)
    found = []
    if folder:
        state = trust_state(paths, folder)
        found = [ConfigFile("project", folder.path / FILE, FILE in folder.files, state)]
    user = paths.config_file
    return [*found, ConfigFile("user", user, user.is_file(), None)]


def set_value(paths: Paths, key: str, word: str, *, project: Path | None = None) -> Path:
    """Writes to the user or project file, preserving comments and order. Returns the path."""
    value = checked(key, word, "config set", word=True)
    if project is None:
        path = paths.config_file
        old = path.read_bytes() if path.exists() else b""
        new = _with(old, path, key, value, word)
        private_folder(path.parent)
        _write(path, new)
        return path
    path = project / FOLDER / FILE
    before = read_folder(project) or ProjectFolder(project.absolute())
    new = _with(before.files.get(FILE, b""), path, key, value, word)
    keeps_trust = not before.files or trust_state(paths, before) == "trusted"
    if before.is_real:
        path.parent.mkdir(exist_ok=True)
        _write(path, new)
    if keeps_trust:  # trust the content that was read plus this edit, not what is on disk now
        trust(paths, replace(before, files={**before.files, FILE: new}))
    return path


def _with(old: bytes, path: Path, key: str, value: Any, word: str) -> bytes:
    import tomlkit

    read_toml(old, path, "user")  # raises on an invalid file, so that it is not overwritten
    document = tomlkit.parse(old.decode())
    *tables, name = key.split(".")
    at: Any = document
    for part in tables:
        if part not in at:
            at[part] = tomlkit.table()
        at = at[part]
    at[name] = _for_toml(value, word)
    return tomlkit.dumps(document).encode()


def _for_toml(value: Any, word: str) -> Any:
    match value:
        case tuple():
            return list(value)
        case int() | float() if word.strip().replace(".", "", 1).isdigit():
            return value if isinstance(value, int) else int(value) if value.is_integer() else value
        case _:
            return word


def _write(path: Path, data: bytes) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_whole(path, data, mode=mode)
