"""Real agent CLIs for tests: pinned, in a clean environment, with a scripted model."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.real.claude_desk import ClaudeDesk, no_process_left
from tests.real.clis import Cli, CliError, pinned
from tests.real.desk import Desk, Player
from tests.real.real_claude import RealClaude
from tests.real.schedule import Schedule, longest_first
from tests.real.second_model import SecondModel
from tests.real.stages import STAGES, Actor
from tests.real.standing import StandingDesk
from tillerman.testing.model_double.server import ModelDouble


@pytest.fixture
async def double() -> AsyncIterator[ModelDouble]:
    """A scripted model; a test adds scenarios: `double.scenarios["name"] = [reply(…), …]`."""
    async with ModelDouble() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty git repository."""
    return _new_project(tmp_path)


def _new_project(beside: Path) -> Path:
    folder = beside / "project"
    folder.mkdir()
    environment = {"PATH": os.defpath, "HOME": str(beside), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", "-b", "main", folder], env=environment, check=True)
    return folder


@pytest.fixture(params=pinned("claude"), ids=lambda cli: cli.version)
def claude(request: pytest.FixtureRequest, tmp_path: Path, project: Path) -> RealClaude:
    cli: Cli = request.param
    home = tmp_path / "home"
    home.mkdir()
    return RealClaude(cli.version, _program(cli, request.config), home, project)


@pytest.fixture
async def desk(
    claude: RealClaude, double: ModelDouble, tmp_path: Path
) -> AsyncIterator[ClaudeDesk]:
    """Sessions with it; at the end their logs must be valid and no process may be left."""
    desk = ClaudeDesk(claude, double, tmp_path)
    yield desk
    await desk.close()
    await no_process_left(claude)


def pytest_configure(config: pytest.Config) -> None:
    mark = "agents(*names): the agents whose CLIs a real test runs for; all without this"
    config.addinivalue_line("markers", mark)
    config.addinivalue_line("markers", "newest: of each agent only the newest pinned CLI")
    config.addinivalue_line("markers", "anew: at a standing desk no session goes on before it")


_MASK = Path("/tmp/.git")
_MASKED_BEFORE = _MASK.exists()


def pytest_sessionfinish() -> None:
    """The sandbox of Codex hides `.git` wherever it may write, and leaves an empty one in /tmp,
    which would turn every folder of a later test into a repository."""
    if not _MASKED_BEFORE:
        with contextlib.suppress(OSError):
            _MASK.rmdir()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an `actor` runs for every agent and version, or those of its `agents` mark."""
    standing = "standing" in metafunc.fixturenames
    if standing or "actor" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("agents")
        most = 1 if metafunc.definition.get_closest_marker("newest") else None
        agents = mark.args if mark else STAGES
        clis = [cli for agent in agents for cli in pinned(agent)[:most]]
        names = [f"{cli.agent}-{cli.version}" for cli in clis]
        if standing:
            metafunc.parametrize("standing", clis, ids=names, indirect=True, scope="module")
        else:
            metafunc.parametrize("actor", clis, ids=names, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    longest_first(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Schedule:
    return Schedule(config, log)


_WELL = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_WELL] = report.passed
    return report


@pytest.fixture
def actor(request: pytest.FixtureRequest, tmp_path: Path, project: Path) -> Actor:
    """A pinned agent CLI, with a separate home and project."""
    cli: Cli = request.param
    program = _program(cli, request.config)
    return Actor(STAGES[cli.agent], cli, program, tmp_path / "home", project)


@pytest.fixture
async def any_desk(actor: Actor, double: ModelDouble, tmp_path: Path) -> AsyncIterator[Desk]:
    """Sessions with the actor; at the end their logs must be valid and no process may be left."""
    desk = Desk(actor, double, tmp_path)
    yield desk
    await desk.close()
    await no_process_left(actor)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[StandingDesk]:
    """A desk for all tests of a module, for each CLI."""
    cli: Cli = request.param

    def made(program: Path, home: Path, project: Path) -> Actor:
        return Actor(STAGES[cli.agent], cli, program, home, project)

    async with _standing(request, tmp_path_factory.mktemp(cli.agent), made) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def standing_desk(
    standing: StandingDesk, request: pytest.FixtureRequest
) -> AsyncIterator[StandingDesk]:
    """It outlives the test, as do its sessions: the next test continues with them."""
    async with _lent(standing, request.node):
        yield standing


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=pinned("claude"), ids=lambda cli: cli.version
)
async def standing_claude(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[StandingDesk]:
    def made(program: Path, home: Path, project: Path) -> RealClaude:
        home.mkdir()
        return RealClaude(request.param.version, program, home, project)

    async with _standing(request, tmp_path_factory.mktemp("claude"), made) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def standing_claude_desk(
    standing_claude: StandingDesk, request: pytest.FixtureRequest
) -> AsyncIterator[StandingDesk]:
    async with _lent(standing_claude, request.node):
        yield standing_claude


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def second_standing(
    standing: StandingDesk, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[StandingDesk]:
    """The same CLI in another home, with the second scripted model."""
    actor = standing.player
    assert isinstance(actor, Actor)
    folder = tmp_path_factory.mktemp(actor.agent)  # as long a name: titles are cut
    player = replace(actor, home=folder / "home", project=_new_project(folder))
    with SecondModel() as model:
        async with _desk_of(player, model, folder) as desk:
            yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def second_desk(
    second_standing: StandingDesk, request: pytest.FixtureRequest
) -> AsyncIterator[StandingDesk]:
    async with _lent(second_standing, request.node):
        yield second_standing


@contextlib.asynccontextmanager
async def _standing(
    request: pytest.FixtureRequest, folder: Path, made: Callable[[Path, Path, Path], Player]
) -> AsyncIterator[StandingDesk]:
    program = _program(request.param, request.config)
    player = made(program, folder / "home", _new_project(folder))
    async with ModelDouble() as double, _desk_of(player, double, folder) as desk:
        yield desk


@contextlib.asynccontextmanager
async def _desk_of(
    player: Player, model: ModelDouble | SecondModel, folder: Path
) -> AsyncIterator[StandingDesk]:
    desk = StandingDesk(player, model, folder)
    yield desk
    await desk.close()
    await no_process_left(player)
    shutil.rmtree(folder)


@contextlib.asynccontextmanager
async def _lent(desk: StandingDesk, test: pytest.Item) -> AsyncIterator[None]:
    desk.anew = test.get_closest_marker("anew") is not None
    yield
    await desk.rest(well=test.stash.get(_WELL, False))


def _program(cli: Cli, config: pytest.Config) -> Path:
    try:
        return cli.path()
    except CliError as missing:
        if _asked_for_real_tests(config):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


def _asked_for_real_tests(config: pytest.Config) -> bool:
    return re.search(r"(?<!not )\breal\b", config.getoption("markexpr")) is not None
