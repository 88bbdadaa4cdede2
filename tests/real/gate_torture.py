"""Runs a failure of the gate on every class of calls that an agent requests."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.real.clis import CliError, pinned
from tests.real.gate_failures import CHANNELS, FAILURES, Failure
from tests.real.gate_sides import CursorSide, RealSide, Side, marks_for, new_project, tapped
from tests.real.gate_stand import Stand
from tests.real.stages import STAGES, Actor
from tillerman.core.tools import ToolClass
from tillerman.testing.model_double.server import ModelDouble

# What was seen to run where nothing is broken, with or without a tap.
_SOUND: set[tuple[str, ToolClass, bool]] = set()
_NUMBERS = count(1)


@asynccontextmanager
async def side_of(agent: str, folder: Path) -> AsyncIterator[Side]:
    project = new_project(folder)
    async with ModelDouble() as double, marks_for(folder, project) as marks:
        if agent == "cursor":
            yield CursorSide(folder, project, marks)
            return
        cli = pinned(agent)[0]
        try:
            actor = Actor(STAGES[agent], cli, cli.path(), folder / "home", project)
        except CliError as missing:
            pytest.fail(str(missing), pytrace=False)
        yield RealSide(actor, double, marks)


async def assert_held(
    side: Side, folder: Path, names: Sequence[str], kinds: Sequence[ToolClass]
) -> None:
    """Asserts that none of these failures lets a call of these classes run, and that a sound gate
    does."""
    failures = [(name, FAILURES[CHANNELS[side.agent]][name]) for name in names]
    if any(failure.approve != "auto" for _, failure in failures):
        await _assert_sound(side, folder, kinds)
    stand: Stand | None = None
    for name, failure in failures:
        if name == "socket squatted" and os.geteuid() != 0:
            pytest.skip("only root can be another user")
        for kind in kinds:
            begin = time.monotonic()
            if stand is None:
                stand = await _start(side, folder, failure)
                if failure.approve == "auto":
                    await _check(stand, [kind] if failure.ends else kinds, failure.tapped)
            try:
                await failure.play(stand, kind)
                ran = stand.marks.left(kind)
            except BaseException:
                await stand.kill()
                raise
            took = time.monotonic() - begin
            print(f"{side.agent}, {name}, {kind}: {'RAN' if ran else 'held'} in {took:.1f} s")
            if failure.ends:
                await stand.kill()
                stand = None
                ran = ran or side.marks.left(kind)
            assert not ran, f"{name}, {kind}"
    if stand:
        await stand.close()


async def _start(side: Side, folder: Path, failure: Failure) -> Stand:
    place = folder / f"harness{next(_NUMBERS)}"
    program = None
    if failure.tapped:
        program = tapped(place.with_name(f"{place.name}-tap"), side.program)
    return await Stand.start(
        side,
        place,
        approve=failure.approve,
        request=failure.request,
        program=program,
        clock=clock_shift() if failure.shifted else None,
    )


async def _assert_sound(side: Side, folder: Path, kinds: Sequence[ToolClass]) -> None:
    """Once in a run of the tests."""
    if all((side.agent, kind, False) in _SOUND for kind in kinds):
        return
    stand = await Stand.start(side, folder / f"harness{next(_NUMBERS)}")
    try:
        await _check(stand, kinds, tapped=False)
    finally:
        await stand.close()


async def _check(stand: Stand, kinds: Sequence[ToolClass], tapped: bool) -> None:
    """Asserts that the same calls create their markers if nothing is broken; once in a run of the
    tests."""
    agent = stand.side.agent
    unseen = [kind for kind in kinds if (agent, kind, tapped) not in _SOUND]
    if not unseen:
        return
    await stand.begin(*unseen)
    await stand.rest()
    missing = [kind for kind in unseen if not stand.marks.left(kind)]
    assert missing == [], f"these do not run anyway, so they prove nothing: {stand.log}"
    _SOUND.update((agent, kind, tapped) for kind in unseen)


@cache
def clock_shift() -> Path:
    library = Path(mkdtemp(prefix="tillerman-clock-")) / "clock_shift.so"
    source = Path(__file__).parents[1] / "hooks" / "clock_shift.c"
    try:
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no C compiler here")
    return library
