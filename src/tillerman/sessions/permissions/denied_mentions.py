"""Mentions of denied files in a prompt: some agents attach `@FILE` unasked, without a tool call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import Decision

_MENTION = re.compile(r"@(?=(\"[^\"\n]+\"|'[^'\n]+'|\S+))")
_AROUND = ".,;:!?)]}>\"'`*_"  # what ends a sentence, or encloses a mention
_LONGEST = 4_096
_MOST = 500  # different ones; others are not attached

Decide = Callable[[PermissionRequested], Decision | None]


class PlainText(NamedTuple):
    text: str
    files: tuple[str, ...]  # whose mention was taken apart


def without_denied_mentions(text: str, decide: Decide) -> PlainText:
    """The text with a blank after the `@` of each file that a rule of the user does not allow."""
    if "@" not in text:
        return PlainText(text, ())
    known: dict[str, bool] = {}
    denied: dict[str, None] = {}

    def mention(found: re.Match[str]) -> str:
        name = found[1]
        if name not in known:
            known[name] = len(known) < _MOST and not _is_denied(name, decide)
        if known[name]:
            return "@"
        denied[name.strip("\"'").rstrip(_AROUND)] = None
        return "@ "

    return PlainText(_MENTION.sub(mention, text), tuple(denied))


def _is_denied(name: str, decide: Decide) -> bool:
    if len(name) > _LONGEST:
        return False
    plain = name.strip("\"'")
    for path in dict.fromkeys((plain, plain.rstrip(_AROUND), re.split(r"[,;]", plain)[0])):
        request = PermissionRequested(
            request_id="", tool="Read", title="", input={"file_path": path}, paths=(path,)
        )
        decision = decide(request) if path else None
        if decision and decision.verdict != "allow" and decision.source != "tillerman":
            return True
    return False
