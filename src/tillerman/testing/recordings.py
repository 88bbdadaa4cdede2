"""Loads recordings of an agent's lines, and generates changes that newer versions may make.

A recording is a folder with `wire.jsonl`, the agent's lines as it wrote them, or both directions
as `{"dir": "in" | "out", "msg": …}` where out is what the host sent; and, for the first form, with
`events.jsonl`, what the wire decodes them to in a session at /proj: on each line an event, or
`{"reply": MESSAGE}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRONG: tuple[object, ...] = (None, 0, "x", {}, [None])


@dataclass(frozen=True)
class Recording:
    name: str
    parts: tuple[tuple[bytes, ...], ...]  # the agent's lines between the host's messages
    expected: tuple[bytes, ...] | None

    @property
    def lines(self) -> list[bytes]:
        return [line for part in self.parts for line in part]


def load(folder: Path) -> list[Recording]:
    return [_load(path.parent, folder) for path in sorted(folder.rglob("wire.jsonl"))]


def _load(folder: Path, root: Path) -> Recording:
    parts: list[list[bytes]] = [[]]
    for line in (folder / "wire.jsonl").read_bytes().splitlines():
        match _parsed(line):
            case {"dir": "out", "msg": _}:
                if parts[-1]:
                    parts.append([])
            case {"dir": "in", "msg": message}:
                parts[-1].append(json.dumps(message).encode())
            case _:
                parts[-1].append(line)
    events = folder / "events.jsonl"
    both_ways = len(parts) > 1  # then the events depend on what the host did
    return Recording(
        name=str(folder.relative_to(root)),
        parts=tuple(tuple(part) for part in parts),
        expected=tuple(events.read_bytes().splitlines())
        if events.exists() and not both_ways
        else None,
    )


def changes(line: bytes, seen: set[tuple[str, ...]]) -> Iterator[tuple[str, bytes]]:
    """Each key dropped, renamed, and set to values of other types; skips paths seen before.

    Yields a description of the change, and the changed line.
    """
    message = _parsed(line)
    if not isinstance(message, dict):
        return
    kind = f"{message.get('type')}/{message.get('subtype')}"
    for path, holder, key in list(_places(message, ())):
        place = (kind, *path)
        if place in seen:
            continue
        seen.add(place)
        where = f"{'.'.join(path)} of a {kind}"
        value = holder.pop(key)
        yield f"{where} dropped", _encoded(message)
        holder[key + "_v2"] = value
        yield f"{where} renamed", _encoded(message)
        del holder[key + "_v2"]
        for wrong in WRONG:
            holder[key] = wrong
            yield f"{where} set to {wrong!r}", _encoded(message)
        holder[key] = value


def _places(
    value: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], str]]:
    match value:
        case dict():
            for key, inner in value.items():
                yield (*path, key), value, key
                yield from _places(inner, (*path, key))
        case list():
            for inner in value:
                yield from _places(inner, (*path, "[]"))


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _encoded(message: object) -> bytes:
    return json.dumps(message).encode()
