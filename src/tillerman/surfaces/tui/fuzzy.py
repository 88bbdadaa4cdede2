"""Which of many names somebody means, by a few letters of it, in time that grows with the name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def match(query: str, name: str) -> tuple[float, tuple[int, ...]] | None:
    """How well it fits, and which of its letters were meant; None: it does not."""
    score, places = 0.0, set[int]()
    for word in query.lower().split():
        found = _word(word, name.lower())
        if found is None:
            return None
        score += found[0]
        places |= set(found[1])
    return score - len(name) / 10_000, tuple(sorted(places))  # of two alike the shorter one


def best(query: str, things: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """Those that fit, best first; all of them as they are if nothing is asked for."""
    if not query.strip():
        return list(things)
    found = [(match(query, name(thing)), thing) for thing in things]
    fitting = [(fit[0], thing) for fit, thing in found if fit]
    fitting.sort(key=lambda pair: -pair[0])
    return [thing for _, thing in fitting]


def _word(word: str, name: str) -> tuple[float, range | list[int]] | None:
    """Best where a word begins with it, then anywhere, then in pieces; the earlier the better."""
    at = _at_start(word, name)
    if at is not None:
        return 4.0 - at / (at + 10), range(at, at + len(word))
    if (at := name.find(word)) >= 0:
        return 2.0 - at / (at + 10), range(at, at + len(word))
    places = _scattered(word, name)
    if places is None:
        return None
    return len(word) / (places[-1] - places[0] + 1), places


def _at_start(word: str, name: str) -> int | None:
    """Where it stands at the beginning of a word."""
    at = name.find(word)
    while at >= 0:
        if at == 0 or not name[at - 1].isalnum():
            return at
        at = name.find(word, at + 1)
    return None


def _scattered(word: str, name: str) -> list[int] | None:
    """Its letters in their order: as early as can be, then drawn together from the last one."""
    at = -1
    for letter in word:
        at = name.find(letter, at + 1)
        if at < 0:
            return None
    places = [at]
    for letter in reversed(word[:-1]):
        at = name.rfind(letter, 0, at)
        places.append(at)
    return places[::-1]
