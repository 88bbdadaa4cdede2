"""What a user said "always" to in a project: rules in the user's state, never in the project."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bridle.config.trust import repository
from bridle.core.errors import ConfigError, UsageError
from bridle.paths import Paths, private_folder

if TYPE_CHECKING:
    from bridle.core.permission import Rule

_HEAD = """\
# What was answered with "always" in this project, newest first.
# `bridle requests remembered` shows it, `bridle requests forget` takes a rule away.
"""
SOURCE = "remembered"


class Kept(Struct, frozen=True):
    rule: Rule
    at: str  # UTC, RFC 3339; empty: nobody wrote it down


class Remembered:
    """Of one project, read again whenever its file changed: another session may add to it."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.project = project
        self._folder = folder
        self.path = folder / f"{_name(project)}.toml"
        self._seen: tuple[int, ...] | None = None
        self._kept: tuple[Kept, ...] = ()

    @classmethod
    def of(cls, paths: Paths, cwd: Path | str) -> Remembered:
        return cls(paths.remembered, project_of(cwd))

    def rules(self) -> tuple[Rule, ...]:
        return tuple(kept.rule for kept in self.kept())

    def kept(self) -> tuple[Kept, ...]:
        """Newest first."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._kept = None, ()
            return ()
        seen = (found.st_ino, found.st_size, found.st_mtime_ns)
        if seen != self._seen:
            self._kept = tuple(map(_kept, self._read()))
            self._seen = seen
        return self._kept

    def add(self, rule: Rule) -> None:
        """In front of the others, since the first that matches counts."""
        from bridle.config.rules import rule_table

        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with self._locked():
            tables = [table for table in self._read() if _kept(table).rule != rule]
            self._write([{**rule_table(rule), "at": now}, *tables])

    def forget(self, number: int) -> Kept:
        """The rule of this number, counted from 1 as `kept` has them."""
        with self._locked():
            tables = self._read()
            if not 1 <= number <= len(tables):
                raise UsageError(
                    f"no remembered rule of this project has the number {number}",
                    hint="`bridle requests remembered` shows them",
                )
            forgotten = _kept(tables.pop(number - 1))
            self._write(tables)
        return forgotten

    def _read(self) -> list[dict[str, Any]]:
        import tomllib

        try:
            tables = tomllib.loads(self.path.read_text())["rules"]
            if isinstance(tables, list) and all(isinstance(table, dict) for table in tables):
                return tables
            why = "`rules` are no tables"
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError) as error:
            why = str(error)
        raise ConfigError(
            f"{self.path} cannot be read: {why}", hint="mend it, or delete it to be asked again"
        )

    def _write(self, tables: list[dict[str, Any]]) -> None:
        import tomlkit

        text = _HEAD + tomlkit.dumps({"project": str(self.project), "rules": tables})
        draft = self.path.with_suffix(f".{os.getpid()}")
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(fd)
            draft.replace(self.path)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        private_folder(self._folder.parent)
        path = private_folder(self._folder) / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def project_of(cwd: Path | str) -> Path:
    """The repository that the folder is in, or else the folder; by its real path."""
    real = Path(os.path.realpath(cwd))
    return repository(real) or real


def _kept(table: dict[str, Any]) -> Kept:
    from bridle.config.rules import rule_of

    body = {key: value for key, value in table.items() if key != "at"}
    return Kept(rule_of(body, SOURCE), str(table.get("at", "")))


def _name(project: Path) -> str:
    from hashlib import sha256

    return sha256(os.fsencode(project)).hexdigest()[:32]
