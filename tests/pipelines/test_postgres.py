"""Runs on PostgreSQL: the same workflows, with leases by advisory locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import tillerman
from tests.pipelines.postgres_server import PostgresServer, why_not
from tests.pipelines.run_desk import APPROVE, Desk, kill, until, until_step
from tests.pipelines.test_killed_runs import SEED, observed
from tillerman.core.errors import ConfigError
from tillerman.pipelines.engine import Engine, RunBusy
from tillerman.pipelines.engine_database import database_url
from tillerman.pipelines.steps import ReviewStep

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    yield made
    made.remove()


@pytest.fixture
def pg_desk(tmp_path: Path, server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(tmp_path)
    made.environment["TILLERMAN_DATABASE_URL"] = server.url
    for name in ("PATH", "TILLERMAN_HOME", "TILLERMAN_MOCK_STATE", "TILLERMAN_DATABASE_URL"):
        monkeypatch.setenv(name, made.environment[name])
    return made


@pytest.fixture
async def pg_engine(pg_desk: Desk) -> AsyncIterator[Engine]:
    async with tillerman.open(cwd=pg_desk.project) as harness:
        made = Engine(harness.paths)
        await made.open(harness)
        yield made
        await made.close()


async def test_a_run_on_postgresql(pg_desk: Desk, pg_engine: Engine) -> None:
    gate = ReviewStep(id="gate", needs=("one",))
    spec = pg_desk.spec(pg_desk.agent("one"), gate, pg_desk.command("two", needs=("gate",)))
    await pg_engine.start("pg-run", spec)
    await until_step(pg_engine.store, "pg-run", "gate", "waiting")
    async with pg_desk.control() as control:
        assert control.look("pg-run").alive
        await control.answer("pg-run", "gate", APPROVE)
    ended = await asyncio.wait_for(pg_engine.wait("pg-run"), 60)
    assert ended.status == "completed", ended
    assert pg_desk.git("log", "--format=%s", "main").splitlines() == ["Run test", "Begin"]
    assert not pg_engine.look("pg-run").alive
    await pg_engine.forget(["pg-run"])


async def test_a_dead_process_loses_its_lease_on_postgresql(
    pg_desk: Desk, pg_engine: Engine
) -> None:
    spec = pg_desk.spec(pg_desk.command("one", "sleep 2"), pg_desk.command("two", needs=("one",)))
    owner = pg_desk.owner("pg-dead", spec)
    await until(lambda: pg_desk.started() == ["one"])
    with pytest.raises(RunBusy):
        await pg_engine.start("pg-dead", spec)
    kill(owner)
    await until(lambda: not pg_engine.look("pg-dead").alive)
    assert await pg_engine.adopt("pg-dead")
    assert (await asyncio.wait_for(pg_engine.wait("pg-dead"), 60)).status == "completed"
    assert pg_desk.started() == ["one", "one", "two"]
    assert owner.stdout
    owner.stdout.close()


async def test_a_run_on_postgresql_that_is_killed_ends_right(pg_desk: Desk) -> None:
    observer = await observed(pg_desk, SEED + 1, 2)
    assert observer.repeated == [], f"seed {SEED + 1}"


def test_another_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("mysql://localhost/x", "not a url", "sqlite:///x.db"):
        with pytest.raises(ConfigError, match="TILLERMAN_DATABASE_URL"):
            database_url({"TILLERMAN_DATABASE_URL": url})
