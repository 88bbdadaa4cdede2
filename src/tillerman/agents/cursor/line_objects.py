"""Splits a line of the CLI's output into JSON objects."""

from __future__ import annotations

import json

from tillerman.agents.decoding.fields import Table, parse, storable

_decoder = json.JSONDecoder()


def objects(line: bytes) -> list[Table] | str:
    """The objects, or an error text. Usually one; retries can put two on a line."""
    found = parse(line)
    if isinstance(found, dict):
        return [found]
    return _several(line) or found


def _several(line: bytes) -> list[Table]:
    if b"} {" not in line and b"}{" not in line:
        return []
    rest = line.decode("utf-8", "replace").strip()
    found = []
    while rest:
        try:
            one, end = _decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        if not isinstance(one, dict):
            return []
        found.append(storable(one))
        rest = rest[end:].lstrip()
    return found
