"""Connections of the engine and the run store: SQLite files of the user, or one PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from tillerman.core.errors import ConfigError, TillermanError
from tillerman.paths import Paths, make_private

VARIABLE = "TILLERMAN_DATABASE_URL"
SCHEMA = "tillerman"  # of our tables in PostgreSQL; the engine's are in `dbos`
_DRIVER = "postgresql+psycopg"


def database_url(environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns the URL of the PostgreSQL that was requested; None: SQLite."""
    given = environment.get(VARIABLE)
    if not given:
        return None
    try:
        url = make_url(given)
    except ArgumentError:
        url = None
    if url is None or not url.drivername.startswith(("postgres", "postgresql")):
        raise ConfigError(
            f"{VARIABLE} is not the URL of a PostgreSQL database",
            hint="postgresql://USER:PASSWORD@HOST:PORT/DATABASE; unset it to use SQLite",
        )
    return url.set(drivername=_DRIVER).render_as_string(hide_password=False)


@contextmanager
def explained() -> Iterator[None]:
    """Says what is wrong with the database, such as a full disk or a server that is not there."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        why = (str(error.orig or error).strip().splitlines() or ["no reason"])[0]
        raise TillermanError(
            f"the database of the runs cannot be used: {why}",
            hint=f"check the space and the rights of tillerman's state folder, or {VARIABLE}",
        ) from None


def folder(paths: Paths) -> Path:
    """Returns the folder of the SQLite files and the leases, and creates it."""
    place = paths.state / "pipelines"
    make_private(place)
    return place


def sqlite_engine(path: Path, synchronous: Literal["NORMAL", "FULL"]) -> sa.Engine:
    """Opens a SQLite file with a write-ahead log.

    The engine's own file is NORMAL: after a power cut its last records may be missing, and the run
    store, which is FULL, knows the steps that had finished.
    """
    engine = sa.create_engine(f"sqlite:///{path}")

    @sa.event.listens_for(engine, "connect")
    def _set_up(connection: Any, _: object) -> None:
        connection.isolation_level = "IMMEDIATE"
        connection.execute("PRAGMA busy_timeout=30000")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")

    return engine


def postgres_engine(url: str) -> sa.Engine:
    engine = sa.create_engine(url, pool_pre_ping=True, pool_size=3)
    return engine.execution_options(schema_translate_map={None: SCHEMA})
