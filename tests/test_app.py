"""The harness: what it keeps of a session, and what it does with what others left."""

from __future__ import annotations

from pathlib import Path

import pytest

import bridle
from bridle.config.paths import Paths, find_paths
from bridle.core.errors import SessionNotFound, Unsupported, UsageError


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"BRIDLE_HOME": str(tmp_path / "home")})


async def one_session(paths: Paths, folder: Path, agent: str = "mock") -> str:
    folder.mkdir(exist_ok=True)
    async with bridle.open(paths=paths, cwd=folder) as harness:
        session = await harness.start(agent, approve="auto")
        await session.ask('[{"say": "Hello."}]')
        return session.id


async def test_last_is_the_newest_session_of_the_harnesss_folder(
    paths: Paths, tmp_path: Path
) -> None:
    here = await one_session(paths, tmp_path / "here")
    await one_session(paths, tmp_path / "there")
    async with bridle.open(paths=paths, cwd=tmp_path / "here") as harness:
        assert harness.find("last").id == here


async def test_a_session_whose_folder_is_gone_says_so(paths: Paths, tmp_path: Path) -> None:
    session = await one_session(paths, tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    async with bridle.open(paths=paths, cwd=tmp_path) as harness:
        with pytest.raises(UsageError, match="is gone"):
            await harness.resume(session)


async def test_a_replayed_session_can_be_gone_on_with(paths: Paths, tmp_path: Path) -> None:
    first = await one_session(paths, tmp_path)
    replayed = await one_session(paths, tmp_path, f"replay:{first}")
    async with bridle.open(paths=paths, cwd=tmp_path) as harness:
        with pytest.raises(UsageError):  # it does not know any more what it played
            await (await harness.resume(replayed)).prompt("again")


async def test_a_deleted_session_leaves_no_recording_behind(paths: Paths, tmp_path: Path) -> None:
    first = await one_session(paths, tmp_path)
    await one_session(paths, tmp_path, f"replay:{first}")
    async with bridle.open(paths=paths, cwd=tmp_path) as harness:
        assert list(paths.cache.iterdir())
        await harness.sessions.delete(harness.find(first))
    assert list(paths.cache.iterdir()) == []


async def test_old_sessions_are_deleted_when_the_config_says_so(
    paths: Paths, tmp_path: Path
) -> None:
    session = await one_session(paths, tmp_path)
    paths.config_file.write_text("[store]\nkeep_days = 1\n")
    async with bridle.open(paths=paths, cwd=tmp_path) as harness:
        assert harness.find(session).id == session
        await harness.sessions.expire(0)
        with pytest.raises(SessionNotFound):
            harness.find(session)


async def test_an_agent_that_refuses_to_start_leaves_no_session(
    paths: Paths, tmp_path: Path
) -> None:
    async with bridle.open(paths=paths, cwd=tmp_path) as harness:
        session = await harness.start("replay")
        with pytest.raises(UsageError):
            await session.prompt("hello")
    async with bridle.open(paths=paths, cwd=tmp_path) as harness:
        assert harness.sessions.catalog.list() == []
        with pytest.raises(Unsupported):
            await harness.start("mock", max_turns=3)
        assert harness.sessions.catalog.list() == []


async def test_a_broken_config_of_an_untrusted_project_stops_nothing(
    paths: Paths, tmp_path: Path
) -> None:
    (tmp_path / ".bridle").mkdir()
    (tmp_path / ".bridle/config.toml").write_text("agent = [\n")
    async with bridle.open(paths=paths, cwd=tmp_path) as harness:
        assert [held.key for held in harness.config.withheld] == ["config.toml"]
