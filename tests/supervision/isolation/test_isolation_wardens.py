"""Confined commands under a warden, at every level of supervision."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.supervision import kills
from tests.supervision.confined_run import Place
from tillerman.core.agent import Exit
from tillerman.supervision.client.child_processes import FileBackedProcess, ProcessEnded
from tillerman.supervision.client.supervision_levels import Level
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.isolation import ConfinedCommand, after, confine

# Says, as JSON, what came of a command at each level of supervision and of isolation.
EVERYWHERE = """
import asyncio, json, sys
from pathlib import Path
from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.isolation import after, confine
from tillerman.supervision.client.warden_client import WardenClient

command, folder, env = json.load(sys.stdin)
folder = Path(folder)
workspace = folder / "workspace"

async def run(warden, isolation, place):
    confined = confine(
        isolation, workspace=workspace, argv=["sh", "-c", command], env=env, cwd=workspace,
        protected=[workspace / ".mcp.json"], scratch=place / "scratch",
    )
    place.mkdir(exist_ok=True)
    job = await warden.run(
        confined.argv, cwd=workspace, env=confined.env, name=isolation, folder=place, cap=9999,
        rules=confined.rules,
    )
    ended = await job.wait()
    after(confined)
    return [ended.exit.code, *((place / name).read_text() for name in ("stdout", "stderr"))]

async def main():
    said = {}
    for level in ("namespace", "cgroup", "subreaper", "group"):
        try:
            warden = await WardenClient.start(level=level, records=folder / "records", marker=level)
        except SupervisionUnavailable:
            continue
        for isolation in sys.argv[1:]:
            place = folder / f"{level}-{isolation}"
            said[f"{level} {isolation}"] = await run(warden, isolation, place)
        await warden.close()
    print(json.dumps(said))

asyncio.run(main())
"""


def test_a_command_is_confined_at_every_level_of_supervision(place: Place, isolation: str) -> None:
    (place.outside / "secret").write_text("untold")
    place.give()
    secret = place.outside / "secret"
    command = f"echo in > made; cat made; rm made; cat {secret} || echo x > {secret} || exit 7"
    ran = subprocess.run(
        [place.stage.python, "-c", EVERYWHERE, "basic", isolation],
        input=json.dumps([command, str(place.folder), place.env]),
        capture_output=True,
        text=True,
        cwd="/",
        env={"PYTHONPATH": str(place.stage.source), **place.env},
        user=place.stage.user,
        group=place.stage.user,
        extra_groups=None if place.stage.user is None else [],
        timeout=90,
    )
    assert ran.returncode == 0, ran.stderr
    parsed: dict[str, list[Any]] = json.loads(ran.stdout)
    assert {"subreaper basic", f"subreaper {isolation}", f"group {isolation}"} <= parsed.keys()
    for where, (code, out, error) in parsed.items():
        if where.endswith("basic"):
            assert (code, out) == (0, "in\nuntold"), (where, error)
        else:
            assert (code, out) == (7, "in\n"), (where, error)
    assert secret.read_text() == "untold"
    assert list(place.workspace.iterdir()) == []


@pytest.fixture
def token() -> Iterator[str]:
    made = kills.new_token(random.Random())
    yield made
    kills.end_holders(made)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


async def start(
    warden: WardenClient, isolation: str, workspace: Path, command: str, *protected: Path
) -> tuple[FileBackedProcess, ConfinedCommand]:
    confined = confine(
        isolation,  # type: ignore[arg-type]
        workspace=workspace,
        argv=["sh", "-c", command],
        env={"PATH": "/usr/bin:/bin"},
        cwd=workspace,
        protected=protected,
    )
    folder = workspace.parent / "job"
    folder.mkdir()
    job = await warden.run(
        confined.argv,
        cwd=workspace,
        env=confined.env,
        name="job",
        folder=folder,
        cap=9999,
        stdin=True,
        rules=confined.rules,
    )
    return job, confined


async def ended(job: FileBackedProcess) -> ProcessEnded:
    async with asyncio.timeout(20):
        found = await job.wait()
    assert found
    return found


async def appears(path: Path) -> None:
    async with asyncio.timeout(10):
        while not path.exists():  # noqa: ASYNC110  another process makes it
            await asyncio.sleep(0.01)


ESCAPING = (
    "setsid sleep {0} & (env -i setsid sleep {0} </dev/null >/dev/null 2>&1 &); echo > ready; {1}"
)


@pytest.mark.parametrize("then", ["sleep {0}", "exit 0"])
async def test_a_confined_command_leaves_no_process_behind(
    warden: WardenClient, isolation: str, workspace: Path, token: str, then: str
) -> None:
    if warden.level is Level.GROUP and isolation == "medium":
        pytest.skip("this level never catches a cleared environment")
    command = ESCAPING.format(token, then.format(token))
    job, confined = await start(warden, isolation, workspace, command)
    await appears(workspace / "ready")
    if then.startswith("sleep"):
        await job.kill()
    else:
        assert (await ended(job)).exit == Exit(0, None)
        await job.kill()
    after(confined)
    assert kills.holders(token) == {}


async def test_a_limit_of_the_level_applies(
    warden: WardenClient, isolation: str, workspace: Path
) -> None:
    huge = "dd if=/dev/zero of=huge bs=1 count=1 seek=20000000000"  # a hole: no disk is used
    job, confined = await start(warden, isolation, workspace, f"{huge} 2>/dev/null; ulimit -n")
    await ended(job)
    after(confined)
    sizes = {"medium": 16 * 1024**3, "high": 4 * 1024**3}
    assert (workspace / "huge").stat().st_size <= sizes[isolation]
    files = (workspace.parent / "job/stdout").read_text()
    assert files == {"medium": "8192\n", "high": "4096\n"}[isolation]


@pytest.mark.parametrize("isolation", ["high"], indirect=True)
async def test_a_name_is_read_only_as_long_as_a_command_runs_that_lost_its_harness(
    warden: WardenClient, isolation: str, workspace: Path
) -> None:
    name = workspace / ".mcp.json"
    name.write_text("{}")
    late = "echo > ready; read word; echo evil > .mcp.json; echo > done"
    job, confined = await start(warden, isolation, workspace, late, name)
    await appears(workspace / "ready")
    after(confined)
    await job.write(b"go\n")
    await appears(workspace / "done")
    await ended(job)
    assert name.read_text() == "{}"
