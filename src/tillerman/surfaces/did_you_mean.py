"""Suggests close matches for an unknown word."""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str], otherwise: str = "") -> str:
    from difflib import get_close_matches

    known = list(known)
    if near := get_close_matches(word, known, n=2, cutoff=0.6):
        return f"did you mean {' or '.join(near)}?"
    return otherwise or f"known: {', '.join(known)}"
