"""Adds and removes hook entries in the text of a CLI's settings, and keeps all other bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from tillerman.core.json_fields import Table
from tillerman.hooks.command_pattern import is_ours
from tillerman.hooks.jsonc_editor import Invalid, JsonNode, after_space, parse

Entries = Mapping[str, Table]  # by event
_BOM = b"\xef\xbb\xbf"


def added(data: bytes | None, entries: Entries, frame: Table, *, comments: bool = False) -> bytes:
    """The file with the entries appended to their lists; `data` None: there is no file yet.

    `frame` is what a new file has besides `hooks`. Raises `Invalid` if the file cannot be merged.
    """
    if data is None or is_empty(data):
        whole = {**frame, "hooks": {event: [entry] for event, entry in entries.items()}}
        return (data or b"") + msgspec.json.format(msgspec.json.encode(whole)) + b"\n"
    before = _text(data)
    text = before
    for event, entry in entries.items():
        text = _with(text, event, _line(entry), comments)
    wanted = _merged(parse(before, comments=comments).plain, entries)
    if parse(text, comments=comments).plain != wanted:
        raise Invalid("two members have the same name")
    return _bytes(text, data)


def removed(
    data: bytes, entries: Entries, original: bytes | None, *, comments: bool = False
) -> bytes:
    """The file without the entries and the lists that `original` did not have.

    Everything else is unchanged. Raises `Invalid` if the text is ambiguous.
    """
    text = _text(data)
    had = _lists(original, comments)
    for event, entry in entries.items():
        while (index := _index(text, event, entry, comments)) is not None:
            text = _without(text, event, index, had, comments)
    return _bytes(text, data)


def present(data: bytes, entries: Entries, *, comments: bool = False) -> set[str]:
    """The events whose entry is in the file."""
    hooks = _hooks(parse(_text(data), comments=comments))
    return {
        event
        for event, entry in entries.items()
        if any(one.plain == entry for one in _list(hooks, event))
    }


def without_ours(data: bytes, agent: str, *, comments: bool = False) -> bytes:
    """The file without any hook of tillerman, for any project."""
    if is_empty(data):
        return data
    hooks = _hooks(parse(_text(data), comments=comments))
    for event in hooks.value if hooks else ():
        for one in _list(hooks, event):
            if is_ours(one.plain, agent, event):
                data = removed(data, {event: one.plain}, None, comments=comments)
    return data


def is_empty(data: bytes) -> bool:
    return not data.removeprefix(_BOM).strip()


def is_bare(data: bytes, frame: Table, *, comments: bool = False) -> bool:
    """Whether the file holds nothing but what a new file has."""
    plain = parse(_text(data), comments=comments).plain
    return isinstance(plain, dict) and plain.items() <= frame.items()


# -- add -------------------------------------------------------------------------------------------


def _with(text: str, event: str, entry: str, comments: bool) -> str:
    top = parse(text, comments=comments)
    if not isinstance(top.value, dict):
        raise Invalid("it is not an object")
    if "hooks" not in top.value:
        return _append(text, top, f'"hooks": {{{json.dumps(event)}: [{entry}]}}')
    hooks = top.value["hooks"].node
    if not isinstance(hooks.value, dict):
        raise Invalid("`hooks` is not an object")
    if event not in hooks.value:
        return _append(text, hooks, f"{json.dumps(event)}: [{entry}]")
    found = hooks.value[event].node
    if not isinstance(found.value, list):
        raise Invalid(f"`hooks.{event}` is not a list")
    return _append(text, found, entry)


def _append(text: str, into: JsonNode, piece: str) -> str:
    """Appends to an object or a list, on a separate line if the last item has one."""
    if not into.value:
        return _insert(text, into.start + 1, piece)
    if isinstance(into.value, dict):
        last = max(into.value.values(), key=lambda member: member.start)
        start, end = last.start, last.node.end
    else:
        start, end = into.value[-1].start, into.value[-1].end
    line = text.rfind("\n", 0, start) + 1
    indent = text[line:start]
    if line == 0 or indent.strip():
        return _insert(text, end, f", {piece}")
    newline = "\r\n" if text[line - 2 : line - 1] == "\r" else "\n"
    return _insert(text, end, f",{newline}{indent}{piece}")


def _insert(text: str, at: int, piece: str) -> str:
    return text[:at] + piece + text[at:]


# -- remove ----------------------------------------------------------------------------------------


def _index(text: str, event: str, entry: Table, comments: bool) -> int | None:
    """The index of the entry in its list."""
    found = _list(_hooks(parse(text, comments=comments)), event)
    return next((n for n, one in enumerate(found) if one.plain == entry), None)


def _lists(original: bytes | None, comments: bool) -> set[str]:
    """The keys that existed before: `hooks` itself, and `hooks.EVENT` for each event."""
    if original is None or is_empty(original):
        return set()
    hooks = _hooks(parse(_text(original), comments=comments))
    return set() if hooks is None else {"hooks", *(f"hooks.{event}" for event in hooks.value)}


def _without(text: str, event: str, index: int, had: set[str], comments: bool) -> str:
    """Removes the entry, or the list or object that would be left empty."""
    top = parse(text, comments=comments)
    wanted = top.plain
    hooks = top.value["hooks"].node
    entries = hooks.value[event].node
    del wanted["hooks"][event][index]
    if wanted["hooks"][event] or f"hooks.{event}" in had:
        shorter = _cut(text, entries, index, comments)
    elif len(wanted["hooks"]) > 1 or "hooks" in had:
        del wanted["hooks"][event]
        shorter = _cut(text, hooks, list(hooks.value).index(event), comments)
    else:
        del wanted["hooks"]
        shorter = _cut(text, top, list(top.value).index("hooks"), comments)
    if parse(shorter, comments=comments).plain != wanted:
        raise Invalid("two members have the same name")
    return shorter


def _cut(text: str, of: JsonNode, index: int, comments: bool) -> str:
    """Removes one member or item with one comma and the whitespace beside it, but no comment."""
    spans = _spans(of)
    start, end = spans[index]
    if index > 0:
        comma = after_space(text, spans[index - 1][1], comments=comments)
        gap = text[comma + 1 : start]
        return text[:comma] + (gap if gap.strip() else "") + text[end:]
    comma = after_space(text, end, comments=comments)
    if text[comma] != ",":
        return text[:start] + text[end:]
    if index + 1 == len(spans):
        return text[:start] + text[end:comma] + text[comma + 1 :]
    after = spans[index + 1][0]
    gap = text[comma + 1 : after]
    return text[:start] + text[end:comma] + (gap if gap.strip() else "") + text[after:]


def _spans(node: JsonNode) -> list[tuple[int, int]]:
    if isinstance(node.value, dict):
        return [(member.start, member.node.end) for member in node.value.values()]
    return [(one.start, one.end) for one in node.value]


# -- shared ----------------------------------------------------------------------------------------


def _hooks(top: JsonNode) -> JsonNode | None:
    found = top.value.get("hooks") if isinstance(top.value, dict) else None
    return found.node if found and isinstance(found.node.value, dict) else None


def _list(hooks: JsonNode | None, event: str) -> list[JsonNode]:
    member = hooks.value.get(event) if hooks else None
    return member.node.value if member and isinstance(member.node.value, list) else []


def _merged(plain: Any, entries: Entries) -> Any:
    hooks = {**plain.get("hooks", {})}
    for event, entry in entries.items():
        hooks[event] = [*hooks.get(event, []), entry]
    return {**plain, "hooks": hooks}


def _line(entry: Table) -> str:
    return json.dumps(entry, ensure_ascii=False)


def _text(data: bytes) -> str:
    try:
        return data.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"it is not UTF-8: {error}") from None


def _bytes(text: str, like: bytes) -> bytes:
    return (_BOM if like.startswith(_BOM) else b"") + text.encode()
