"""No process outlives its harness, its warden or its program, however it tries to escape."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervision import kills
from tillerman.supervision.client.orphan_sweep import sweep
from tillerman.supervision.client.supervision_levels import Level
from tillerman.supervision.client.warden_client import WardenClient

# What a killed process group cannot reach must be found by the marker, so at the lowest level these
# escape: that is why it is the lowest.
BEYOND_GROUP = {"cleared env", "cleared env, same pipes", "hydra", "agent gone first"}


@pytest.fixture
def token() -> Iterator[str]:
    """Processes that a failing test leaves are killed with it."""
    made = kills.new_token(random.Random())
    yield made
    kills.end_holders(made)


@pytest.fixture(params=kills.STYLES)
def style(request: pytest.FixtureRequest, level: Level) -> str:
    name: str = request.param
    if level == Level.GROUP and name in BEYOND_GROUP:
        pytest.skip("not promised at this level")
    return name


@pytest.mark.parametrize("name", sorted(set(kills.STYLES) - {"hydra"}))
def test_without_supervision_every_style_escapes(name: str, token: str) -> None:
    """Otherwise the tests below could not fail."""
    program = subprocess.Popen(
        kills.program(name, token), stdout=subprocess.PIPE, start_new_session=True
    )
    assert program.stdout
    assert program.stdout.readline() == b"ready\n"
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    program.stdout.close()
    deadline = time.monotonic() + kills.WITHIN
    while not (escaped := kills.holders(token)) and time.monotonic() < deadline:
        time.sleep(0.005)  # a process has no arguments while it turns into a program
    assert escaped
    assert kills.end_holders(token) == []


async def test_a_killed_program_takes_its_whole_tree_along(
    warden: WardenClient, style: str, token: str
) -> None:
    argv = kills.program(style, token)
    child = await warden.spawn(argv, cwd="/", env={"PATH": os.environ["PATH"]}, stdin=False)
    os.set_blocking(child.stdout, True)
    assert await asyncio.to_thread(os.read, child.stdout, 100) == b"ready\n"
    began = time.monotonic()
    await child.kill()
    seconds = time.monotonic() - began
    assert kills.wait_until_gone(token, spare={warden.pid}, within=0) == []
    assert seconds < kills.WITHIN


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.torture)])
def test_kills_at_random_moments_leave_nothing(level: Level, rounds: int) -> None:
    if level == Level.GROUP:
        styles = tuple(sorted(set(kills.STYLES) - BEYOND_GROUP))
    else:
        styles = tuple(kills.STYLES)
    done = kills.run_kills(rounds * len(styles), [level], seed=time.time_ns(), styles=styles)
    assert [kill for kill in done if kill.left or kill.seconds > kills.WITHIN] == []


@pytest.mark.parametrize("count", [3, pytest.param(40, marks=pytest.mark.torture)])
@pytest.mark.parametrize("wanted", ["auto", "namespace", "subreaper"])
def test_kills_as_an_ordinary_user_leave_nothing(
    ordinary_user: kills.Stage, wanted: str, count: int
) -> None:
    try:
        done = kills.run_kills(count, [wanted], seed=time.time_ns(), stage=ordinary_user)
    except kills.LevelRefused as reason:
        pytest.skip(str(reason))
    assert [kill for kill in done if kill.left or kill.seconds > kills.WITHIN] == []


@pytest.mark.parametrize(
    "name", ["setsid", "double fork", "cleared env, same pipes", "cleared env"]
)
def test_survivors_of_harness_warden_and_keeper_are_swept_at_the_next_start(
    level: Level, name: str, token: str, tmp_path: Path
) -> None:
    if level == Level.NAMESPACE:
        pytest.skip("the kernel leaves nothing to sweep")
    if level != Level.CGROUP and name == "cleared env":
        pytest.skip("it closed its files, cleared its environment and left its session: no proof")
    harness = kills.HERE.popen(level, tmp_path)
    assert harness.stdin and harness.stdout
    marker = token.replace(".", "-")
    harness.stdin.write(kills.job(marker, kills.program(name, token)))
    harness.stdin.flush()
    pids = dict(line.split() for line in iter(harness.stdout.readline, "ready 0\n"))
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: any one would end the tree
        for pid in (int(pids["keeper"]), int(pids["warden"]), harness.pid):
            os.kill(pid, number)
    harness.wait()
    harness.stdin.close()
    harness.stdout.close()
    assert kills.wait_until_gone(marker) == []  # the keeper and the warden
    assert kills.holders(token)
    deadline = time.monotonic() + kills.WITHIN
    while not (swept := sweep(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.005)  # who dies lets go of its memory first, then of the lease
    assert kills.wait_until_gone(token, within=0) == []
    assert [(one.marker, one.left) for one in swept] == [(marker, ())]
    assert swept[0].killed
    assert list(tmp_path.iterdir()) == []
