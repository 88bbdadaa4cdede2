"""A profile's restrictions stay in force, whoever changes its file and whichever agent takes
over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tillerman
from tillerman.config.project_trust import read_folder, trust
from tillerman.core.errors import Unsupported
from tillerman.paths import Paths, find_paths

WRITES = json.dumps([{"run": "touch ran"}, {"write": "w.txt", "text": ""}])
READER = "---\nagent: mock\ntools: Read\n---\nOnly read.\n"


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    paths.config.mkdir(parents=True)
    paths.config_file.write_text("[agents.mock]\npace = 0\n")
    return paths


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".git").write_text("gitdir: elsewhere")
    (folder / ".tillerman" / "agents").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("becomes", [None, "---\nagent: mock\n---\nDo all.\n", "---\nbroken"])
async def test_a_session_resumed_without_its_profile_keeps_the_profiles_tools(
    paths: Paths, project: Path, becomes: str | None
) -> None:
    file = project / ".tillerman" / "agents" / "reader.md"
    file.write_text(READER)
    folder = read_folder(project)
    assert folder
    trust(paths, folder)
    async with tillerman.open(paths=paths, cwd=project) as harness:
        session = await harness.start("reader", approve="auto", check_account=False)
        first = await session.ask(WRITES)
        await session.close()
        file.unlink() if becomes is None else file.write_text(becomes)
        again = await harness.resume(session.id)
        second = await again.ask(WRITES)
        await again.close()
        third = await (await harness.resume(session.id)).ask(WRITES)
    for result in (first, second, third):
        assert [call.outcome for call in result.calls] == ["denied", "denied"]
    assert sorted(path.name for path in project.iterdir()) == [".git", ".tillerman"]


async def test_tools_are_refused_for_an_agent_that_neither_takes_a_list_nor_asks(
    paths: Paths, project: Path
) -> None:
    (paths.config / "agents").mkdir()
    (paths.config / "agents" / "reader.md").write_text(READER.replace("mock", "codex-exec"))
    async with tillerman.open(paths=paths, cwd=project) as harness:
        with pytest.raises(Unsupported, match="list of tools"):
            await harness.start("reader", approve="auto")


async def test_tools_are_refused_for_a_transport_on_which_an_agent_does_not_ask(
    paths: Paths, project: Path
) -> None:
    paths.config_file.write_text(
        '[agents.gemini]\nsurface = "stream-json"\nbinary = "/bin/false"\n'
    )
    (paths.config / "agents").mkdir()
    (paths.config / "agents" / "reader.md").write_text(READER.replace("mock", "gemini"))
    async with tillerman.open(paths=paths, cwd=project) as harness:
        session = await harness.start("reader", approve="auto", check_account=False)
        with pytest.raises(Unsupported, match="gemini does not support a list of tools"):
            await session.ask("write a file")
