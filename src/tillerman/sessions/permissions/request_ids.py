"""Public ids of requests: an agent's own ids may be repeated or hard to type."""

from __future__ import annotations

import re
from collections.abc import Collection

MOST = 80  # characters; longer ids are hard to type

_ODD = re.compile(r"[^A-Za-z0-9_.:@=+,-]+")  # `~` is reserved for generated ids


class RequestIds:
    """Maps ids of open requests.

    An answer applies to what was shown under its id, so a public id is never reused in a session,
    while an agent may reuse its own ids, and starts over when it is restarted.
    """

    def __init__(self) -> None:
        self._public: dict[str, str] = {}
        self._vendor: dict[str, str] = {}

    def name(self, theirs: str, taken: Collection[str]) -> str:
        """Assigns a public id: the agent's own one if possible."""
        ours = plain = _ODD.sub("-", theirs).strip("-")[:MOST] or "request"
        number = len(taken) + 1
        while ours in taken:
            ours = f"{plain}~{number}"
            number += 1
        self._public[theirs] = ours
        self._vendor[ours] = theirs
        return ours

    def public_id(self, theirs: str) -> str | None:
        """Returns the public id; None if no open request has this id."""
        return self._public.get(theirs)

    def vendor_id(self, ours: str) -> str:
        return self._vendor[ours]

    def drop(self, ours: str) -> None:
        """Removes a request that is no longer open."""
        self._public.pop(self._vendor.pop(ours), None)
