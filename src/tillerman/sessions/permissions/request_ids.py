"""What requests are called: an agent's own name for one is neither unique nor fit to be typed."""

from __future__ import annotations

import re
from collections.abc import Collection

MOST = 80  # characters; nobody types more

_ODD = re.compile(r"[^A-Za-z0-9_.:@=+,-]+")  # `~` is for the names that we make


class RequestIds:
    """Of the open requests. An answer is for what was seen under its name, so no name is given
    twice in a session, though an agent may use one again, and begins anew when it is started."""

    def __init__(self) -> None:
        self._ours: dict[str, str] = {}
        self._theirs: dict[str, str] = {}

    def name(self, theirs: str, taken: Collection[str]) -> str:
        """The agent's own name where that will do."""
        ours = plain = _ODD.sub("-", theirs).strip("-")[:MOST] or "request"
        number = len(taken) + 1
        while ours in taken:
            ours = f"{plain}~{number}"
            number += 1
        self._ours[theirs] = ours
        self._theirs[ours] = theirs
        return ours

    def ours(self, theirs: str) -> str | None:
        """None: it asks nothing by that name."""
        return self._ours.get(theirs)

    def theirs(self, ours: str) -> str:
        return self._theirs[ours]

    def drop(self, ours: str) -> None:
        """It is open no longer."""
        self._ours.pop(self._theirs.pop(ours), None)
