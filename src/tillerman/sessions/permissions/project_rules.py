"""Rules from "always" answers in a project, stored in the user's state folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import fields, replace

from tillerman.config.project_trust import repository
from tillerman.core.errors import ConfigError, UsageError
from tillerman.core.permission import Rule
from tillerman.core.permission.patterns import escaped
from tillerman.core.timestamps import rfc3339
from tillerman.paths import Paths, private_folder, write_whole

_HEAD = """\
# Rules from requests answered with "always" in this project, newest first.
# `tillerman requests remembered` lists them, `tillerman requests forget` removes one.
"""
_KEYS = {"at", *(field.name for field in fields(Rule))}
_TRIES, _PAUSE = 500, 0.01  # seconds between tries; a holder keeps the lock for milliseconds


class StoredRule(Struct, frozen=True):
    rule: Rule
    at: str  # UTC, RFC 3339; empty: unknown


class ProjectRules:
    """Remembered rules of one project, reloaded when the file changes.

    Other sessions may add rules. `cwd` is the working directory inside the project.
    """

    def __init__(self, folder: Path, project: Path, cwd: Path | None = None) -> None:
        self.project = project
        self._cwd = cwd or project
        self._folder = folder
        self.path = folder / f"{_name(project)}.toml"
        self._seen: tuple[int, ...] | None = None
        self._stored: tuple[StoredRule, ...] = ()

    @classmethod
    def of(cls, paths: Paths, cwd: Path | str) -> ProjectRules:
        return cls(paths.remembered, project_of(cwd), Path(cwd))

    def rules(self) -> tuple[Rule, ...]:
        """Returns the rules; while the file is damaged, those read before."""
        with suppress(ConfigError):
            self.kept()
        return tuple(stored.rule for stored in self._stored)

    def kept(self) -> tuple[StoredRule, ...]:
        """Returns the stored rules, newest first; `ConfigError` if the file is damaged."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._stored = None, ()
            return ()
        except OSError as error:
            raise self._damaged(str(error.strerror)) from None
        seen = (found.st_ino, found.st_size, found.st_mtime_ns)
        if seen != self._seen:
            self._stored = tuple(map(self._rule, self._read()))
            self._seen = seen
        return self._stored

    def add(self, rule: Rule) -> None:
        """Adds a rule before the others, since the first match counts."""
        rule = for_project(rule, self._cwd)
        now = rfc3339(datetime.now(UTC), "seconds")
        with self._locked():
            tables = [table for table in self._read() if self._rule(table).rule != rule]
            self._write([{"at": now, **to_builtins(rule)}, *tables])

    def forget(self, number: int) -> StoredRule:
        """Removes the rule with this number, counted from 1 in the order of `kept`."""
        with self._locked():
            tables = self._read()
            if not 1 <= number <= len(tables):
                raise UsageError(
                    f"this project has no remembered rule {number}",
                    hint="`tillerman requests remembered` lists them",
                )
            forgotten = self._rule(tables.pop(number - 1))
            self._write(tables)
        return forgotten

    def _read(self) -> list[dict[str, Any]]:
        import tomllib

        try:
            tables = tomllib.loads(self.path.read_text()).get("rules", [])
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise self._damaged(str(error)) from None
        if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
            raise self._damaged("`rules` must be tables")
        return tables

    def _rule(self, table: dict[str, Any]) -> StoredRule:
        """Parses a rule. Refuses unknown keys, which could be ones that narrow the rule."""
        if unknown := sorted(table.keys() - _KEYS):
            raise self._damaged(f"a rule has unknown keys: {', '.join(unknown)}")
        try:
            return StoredRule(convert(table, Rule), str(table.get("at", "")))
        except ValidationError as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self.path} cannot be used: {why}", hint="fix it, or delete it to be asked again"
        )

    def _write(self, tables: list[dict[str, Any]]) -> None:
        import tomlkit

        text = _HEAD + tomlkit.dumps({"project": str(self.project), "rules": tables})
        try:
            write_whole(self.path, text.encode())
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot be written: {error.strerror}", hint="check its permissions"
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        private_folder(self._folder.parent)
        path = private_folder(self._folder) / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(_TRIES):
                with suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                sleep(_PAUSE)
            else:
                raise ConfigError(f"another process has locked {path}", hint="try again")
            yield
        finally:
            os.close(fd)


def project_of(cwd: Path | str) -> Path:
    """Returns the repository that contains the folder, else the folder; as a real path."""
    real = Path(os.path.realpath(cwd))
    return repository(real) or real


def for_project(rule: Rule, cwd: Path | str) -> Rule:
    """Makes relative paths absolute, so that they mean the same file in the whole project."""
    here = escaped(os.path.realpath(cwd)).rstrip("/")
    paths = tuple(
        here + path[1:].removesuffix("/.") if path.startswith("./") else path for path in rule.paths
    )
    return replace(rule, paths=paths)


def _name(project: Path) -> str:
    from hashlib import sha256

    return sha256(os.fsencode(project)).hexdigest()[:32]
