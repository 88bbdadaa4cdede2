"""Fuzzy matching of names by a few letters, in time linear in the name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def match(query: str, name: str) -> tuple[float, tuple[int, ...]] | None:
    """Score and matched letter positions; None if there is no match."""
    score, places = 0.0, set[int]()
    for word in query.lower().split():
        found = _word(word, name.lower())
        if found is None:
            return None
        score += found[0]
        places |= set(found[1])
    return score - len(name) / 10_000, tuple(sorted(places))  # prefer the shorter of equal matches


def best(query: str, things: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """Matching items, best first; all of them in order for an empty query."""
    if not query.strip():
        return list(things)
    found = [(match(query, name(thing)), thing) for thing in things]
    fitting = [(fit[0], thing) for fit, thing in found if fit]
    fitting.sort(key=lambda pair: -pair[0])
    return [thing for _, thing in fitting]


def _word(word: str, name: str) -> tuple[float, range | list[int]] | None:
    """Scores word prefixes highest, then substrings, then scattered letters; earlier is better."""
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
    """Index at which `word` starts a word of `name`."""
    at = name.find(word)
    while at >= 0:
        if at == 0 or not name[at - 1].isalnum():
            return at
        at = name.find(word, at + 1)
    return None


def _scattered(word: str, name: str) -> list[int] | None:
    """Positions of the letters in order, earliest end first, then packed together backwards."""
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
