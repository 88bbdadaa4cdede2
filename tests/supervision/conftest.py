from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.supervision import confined_run, gated, kills
from tillerman.supervision.client.supervision_levels import Level, probe
from tillerman.supervision.client.warden_client import WardenClient

NOBODY = 65534


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sys.platform != "linux":
        for item in items:
            item.add_marker(pytest.mark.skip("the process table is read from /proc"))


@pytest.fixture(scope="session")
def refusals() -> dict[Level, str | None]:
    return asyncio.run(probe())


@pytest.fixture(params=list(Level), ids=str)
def level(request: pytest.FixtureRequest, refusals: dict[Level, str | None]) -> Level:
    """Each level that this machine supports."""
    wanted: Level = request.param
    if reason := refusals[wanted]:
        pytest.skip(reason)
    return wanted


@pytest.fixture
def marker() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
async def warden(level: Level, tmp_path: Path, marker: str) -> AsyncIterator[WardenClient]:
    started = await WardenClient.start(level=level, records=tmp_path / "records", marker=marker)
    yield started
    await started.close()


@pytest.fixture(scope="session")
def ordinary_user() -> Iterator[kills.Stage]:
    """A place where a user without privileges can run the package: this one, or a copy of it.

    Root's checkout and interpreter may be unreadable for others, so the system's runs the copy.
    """
    if os.geteuid() != 0:
        yield kills.HERE
        return
    python = next(
        (path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if _same(path)), ""
    )
    if not python:
        pytest.skip("no other interpreter of this version for a user who cannot use root's")
    root = Path(tempfile.mkdtemp(prefix="tillerman-user-"))
    try:
        _copy(kills.SOURCE / "tillerman", root / "src/tillerman")
        _copy(Path(msgspec.__file__).parent, root / "src/msgspec")
        for script in (kills.__file__, confined_run.__file__, gated.__file__):
            _copy(Path(script), root / "tests/supervision" / Path(script).name)
        subprocess.run(["chmod", "-R", "a+rX", root], check=True)
        yield kills.Stage(python, root / "src", NOBODY)
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="session")
def tools() -> Iterator[Path]:
    """A folder for PATH with two programs that create the file $RAN: `forbidden`, `permitted`."""
    if not shutil.which("gcc"):
        pytest.skip("no C compiler")
    with tempfile.TemporaryDirectory(prefix="tillerman-tools-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for tool in ("forbidden", "permitted"):
            gated.build(folder / tool, gated.STUB.replace("@id", tool))
        yield folder


@pytest.fixture(params=["here", "ordinary user"])
def place(request: pytest.FixtureRequest) -> Iterator[confined_run.Place]:
    """This user, and for root also one without privileges."""
    stage = kills.HERE
    if request.param == "ordinary user":
        if os.geteuid() != 0:
            pytest.skip("this is an ordinary user")
        stage = request.getfixturevalue("ordinary_user")
    made = confined_run.Place.make(stage)
    yield made
    made.remove()


@pytest.fixture(params=["medium", "high"])
def isolation(request: pytest.FixtureRequest) -> str:
    """Each isolation level that this machine supports; a leaking one is still tested."""
    confined_run.skip_if_missing(request.param)
    return str(request.param)


def _same(python: str) -> bool:
    words = [python, "-c", "import sys; print(sys.version_info[:2])"]
    try:
        reported = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    except OSError:
        return False
    return reported.strip() == str(sys.version_info[:2])


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
