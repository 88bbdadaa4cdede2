"""The harness: what it stores of a session, and how it handles sessions of others."""

from __future__ import annotations

from pathlib import Path

import pytest

import tillerman
from tillerman.config.project_trust import read_folder, trust
from tillerman.core.errors import SessionNotFound, Unsupported, UsageError
from tillerman.core.events import MessageChunk
from tillerman.paths import Paths, find_paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})


async def one_session(paths: Paths, folder: Path, agent: str = "mock") -> str:
    folder.mkdir(exist_ok=True)
    async with tillerman.open(paths=paths, cwd=folder) as harness:
        session = await harness.start(agent, approve="auto")
        await session.ask('[{"say": "Hello."}]')
        return session.id


async def test_last_is_the_newest_session_of_the_harnesss_folder(
    paths: Paths, tmp_path: Path
) -> None:
    here = await one_session(paths, tmp_path / "here")
    await one_session(paths, tmp_path / "there")
    async with tillerman.open(paths=paths, cwd=tmp_path / "here") as harness:
        assert harness.find("last").id == here


async def test_a_session_without_its_folder_is_an_error(paths: Paths, tmp_path: Path) -> None:
    session = await one_session(paths, tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        with pytest.raises(UsageError, match="no longer exists"):
            await harness.resume(session)


async def test_a_replayed_session_can_be_continued(paths: Paths, tmp_path: Path) -> None:
    first = await one_session(paths, tmp_path)
    replayed = await one_session(paths, tmp_path, f"replay:{first}")
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        with pytest.raises(UsageError):  # it does not know any more what it played
            await (await harness.resume(replayed)).prompt("again")


async def test_a_deleted_session_leaves_no_recording_behind(paths: Paths, tmp_path: Path) -> None:
    first = await one_session(paths, tmp_path)
    await one_session(paths, tmp_path, f"replay:{first}")
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        assert list(paths.cache.iterdir())
        await harness.sessions.delete(harness.find(first))
    assert list(paths.cache.iterdir()) == []


async def test_old_sessions_are_deleted_if_configured(paths: Paths, tmp_path: Path) -> None:
    session = await one_session(paths, tmp_path)
    paths.config_file.write_text("[store]\nkeep_days = 1\n")
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        assert harness.find(session).id == session
        await harness.sessions.expire(0)
        with pytest.raises(SessionNotFound):
            harness.find(session)


async def test_an_agent_that_refuses_to_start_leaves_no_session(
    paths: Paths, tmp_path: Path
) -> None:
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        session = await harness.start("replay")
        with pytest.raises(UsageError):
            await session.prompt("hello")
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        assert harness.sessions.catalog.list() == []
        with pytest.raises(Unsupported):
            await harness.start("mock", folders=[tmp_path])
        assert harness.sessions.catalog.list() == []


async def test_a_broken_config_of_an_untrusted_project_stops_nothing(
    paths: Paths, tmp_path: Path
) -> None:
    (tmp_path / ".tillerman").mkdir()
    (tmp_path / ".tillerman/config.toml").write_text("agent = [\n")
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        assert [held.key for held in harness.config.withheld] == ["config.toml"]


async def test_trust_in_one_folder_does_not_loosen_a_session_of_another(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSS_X", "crossed over")
    session = await one_session(paths, tmp_path / "theirs")
    ours = tmp_path / "ours"
    (ours / ".tillerman").mkdir(parents=True)
    (ours / ".tillerman/config.toml").write_text('[env]\npass = ["CROSS_X"]\n')
    folder = read_folder(ours)
    assert folder
    trust(paths, folder)
    async with tillerman.open(paths=paths, cwd=ours) as harness:
        assert harness.config.env.passed == ("CROSS_X",)
        resumed = await harness.resume(session)
        await resumed.ask('[{"run": "echo [$CROSS_X] > seen.txt"}]')
    assert (tmp_path / "theirs/seen.txt").read_text() == "[]\n"


async def test_a_copy_made_in_mid_turn_reports_it(paths: Paths, tmp_path: Path) -> None:
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        running = await harness.start("mock", approve="auto")
        await running.prompt('[{"say": "Hello there."}, {"hang": true}]')
        async for entry in running.entries():
            if isinstance(entry.event, MessageChunk):
                break
        copy = await harness.resume(running.id, fork=True)
        (failure,) = [turn.failure for turn in copy.transcript().turns]
        assert failure and "forked" in failure.message
        await running.cancel()
