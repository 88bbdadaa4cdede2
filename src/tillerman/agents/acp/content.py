"""Decodes tool results of ACP agents into text, diffs and images."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tillerman.agents.decoding.fields import Table, at, storable, table, tables, text
from tillerman.agents.decoding.images import picture
from tillerman.core.events import Content, Diff, Text
from tillerman.core.wire import AttachmentBytes

_FENCE = "```"
# Keys under which agents put the plain output, in order of preference.
_OUTPUTS = (
    "aggregated_output", "formatted_output", "output", "stdout", "text", "content", "result",
    "error", "message",
)  # fmt: skip


def contents(call: Table) -> Iterator[Content | AttachmentBytes]:
    """Decodes the `content` of a tool call or of an update to one."""
    for one in tables(call, "content"):
        match text(one, "type"):
            case "content":
                yield from _block(table(one, "content"))
            case "diff":
                yield _diff(one)
            case "terminal":
                continue  # the client offers no terminal
            case _:
                yield Text(json.dumps(storable(one), ensure_ascii=False))


def output(raw: Any) -> str:
    """The text in a `rawOutput`, whose shape differs per agent; "" if there is none."""
    match raw:
        case str():
            return raw
        case list():
            return "\n".join(filter(None, (output(one) for one in raw)))
        case dict():
            for key in _OUTPUTS:
                if found := output(raw.get(key)):
                    stderr = raw.get("stderr") if key == "stdout" else None
                    return found + (stderr if isinstance(stderr, str) else "")
            return output(raw.get("stderr"))
    return ""


def streamed(update: Table) -> str:
    """More output of a command, from an agent that treats the client as a terminal."""
    for key in ("terminal_output_delta", "terminal_output"):
        if isinstance(data := at(update, "_meta", key, "data"), str):
            return data
    return ""


def exit_code(raw: Any) -> int | None:
    """Exit code of a command, where the agent reports it with the output."""
    for path in (("exit_code",), ("exitCode",), ("metadata", "exit")):
        if type(code := at(raw, *path)) is int:
            return code
    for part in tables(raw, "contents") if isinstance(raw, dict) else ():
        if type(code := part.get("exitCode")) is int:
            return code
    return None


def unfenced(message: str) -> str:
    """Removes the Markdown code fence around an output."""
    lines = message.strip("\n").split("\n")
    if len(lines) >= 2 and lines[0].startswith(_FENCE) and lines[-1] == _FENCE:
        return "\n".join(lines[1:-1])
    return message


def _block(block: Table) -> Iterator[Content | AttachmentBytes]:
    match text(block, "type"):
        case "text":
            yield Text(text(block, "text"))
        case "image":
            yield from _image(block)
        case "resource_link":
            yield Text(text(block, "uri") or text(block, "name"))
        case "resource":
            yield Text(text(table(block, "resource"), "text") or "(a resource that is not text)")
        case _:
            yield Text(json.dumps(storable(block), ensure_ascii=False))


def _image(block: Table) -> Iterator[Content | AttachmentBytes]:
    found = picture(text(block, "mimeType"), text(block, "data"))
    if found:
        yield from found
    else:
        yield Text(text(block, "uri") or "(an image that cannot be decoded)")


def _diff(one: Table) -> Diff:
    """Decodes a diff of whole files or of a replaced part; a new file has no or empty old text."""
    old, new = one.get("oldText"), one.get("newText")
    return Diff(
        path=text(one, "path"),
        old=old if isinstance(old, str) and old else None,
        new=new if isinstance(new, str) else None,
    )
