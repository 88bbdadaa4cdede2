"""Compares an agent's version with the tested versions."""

from __future__ import annotations

import re
from typing import Literal

Standing = Literal["older", "tested", "newer"]

_NUMBER = re.compile(r"\d+")


def standing(tested: tuple[str, str] | None, version: str | None) -> Standing:
    """Compares the version; an unknown or incomparable one counts as tested."""
    if not (tested and version):
        return "tested"
    oldest, newest, here = map(numbers, (*tested, version))
    if here and here < oldest:
        return "older"
    return "newer" if here > newest else "tested"


def warning(agent: str, tested: tuple[str, str] | None, version: str | None) -> str:
    """A warning for people; empty if the version is tested."""
    match standing(tested, version), tested:
        case "newer", (_, newest):
            return f"{agent} {version} is newer than {newest}, the newest tested version"
        case "older", (oldest, _):
            return f"{agent} {version} is older than {oldest}, the oldest tested version"
    return ""


def numbers(version: str) -> tuple[int, ...]:
    """The first three numbers: `1.2.3-beta.4` counts as the release `1.2.3`."""
    release = version.partition("-")[0].partition("+")[0]
    return tuple(int(number) for number in _NUMBER.findall(release)[:3])
