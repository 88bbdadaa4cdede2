"""Conformance case registration, and the verdict of running a case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from tillerman.core.capabilities import capabilities
from tillerman.core.errors import Unsupported
from tillerman.testing.scenario import Scenario, UnsupportedAction

Play = Callable[[Scenario], Awaitable[None]]


class ConformanceCase(NamedTuple):
    name: str
    what: str  # a description for people
    needs: frozenset[str]  # names of CAPABILITIES
    play: Play


class CaseVerdict(NamedTuple):
    """The verdict of a case.

    `yes`: passed. `no`: not declared. `differs`: a known difference. `unplayed`: the scenario
    cannot run it. `fails`: declared, but not done.
    """

    outcome: Literal["yes", "no", "differs", "unplayed", "fails"]
    why: str = ""


CASES: dict[str, ConformanceCase] = {}


def case(what: str, *needs: str) -> Callable[[Play], Play]:
    """Registers the decorated function as a case under its name."""

    def add(play: Play) -> Play:
        name = play.__name__
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = ConformanceCase(name, what, frozenset(needs), play)
        return play

    return add


async def check(scene: Scenario, case: ConformanceCase) -> CaseVerdict:
    """Runs a case; the scenario must be fresh, or its agent idle."""
    if missing := case.needs - capabilities(scene.agent):
        return CaseVerdict("no", ", ".join(sorted(missing)))
    if why := scene.left_out.get(case.name):
        return CaseVerdict("unplayed", why)
    known = scene.differs.get(case.name)
    try:
        await case.play(scene)
    except UnsupportedAction as reason:
        return CaseVerdict("unplayed", str(reason))
    except Unsupported as refusal:
        return CaseVerdict("fails", f"it declares {', '.join(sorted(case.needs))}, but: {refusal}")
    except TimeoutError:
        return CaseVerdict("differs", known) if known else CaseVerdict("fails", "it took too long")
    except AssertionError as error:
        return (
            CaseVerdict("differs", known)
            if known
            else CaseVerdict("fails", str(error) or repr(error))
        )
    if known:
        return CaseVerdict(
            "fails", f"it passes, although a known difference is declared: {known!r}"
        )
    return CaseVerdict("yes")


async def check_all(scene: Scenario) -> dict[str, CaseVerdict]:
    return {name: await check(scene, each) for name, each in CASES.items()}
