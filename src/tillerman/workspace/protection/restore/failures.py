"""Changes that could not be undone yet: retried while programs run, and reported once."""

from __future__ import annotations

import time
from collections.abc import Collection

from tillerman.workspace.protection.protected_state import PathMark, PathNode

_TRIES = 3
_REPORTED_AFTER = 1.0  # seconds
_PAUSES = (0.5, 5.0)  # seconds between retries after the report: the first, and the maximum


class Failures:
    def __init__(self) -> None:
        self._failing: dict[str, _Failure] = {}
        self._pause = _PAUSES[0]
        self.report_soon = False  # after a few retries: a program or a turn has ended

    def __bool__(self) -> bool:
        return bool(self._failing)

    def forget_others(self, differing: Collection[str]) -> None:
        """Removes paths that no longer differ, since they have been restored."""
        self._failing = {path: one for path, one in self._failing.items() if path in differing}
        if not self._failing:
            self._pause = _PAUSES[0]

    def remove(self, path: str) -> None:
        self._failing.pop(path, None)

    def add(self, path: str, was: PathNode | None, now: PathNode | None) -> bool | None:
        """Adds a failure. True: report it now. False: already reported. None: retry first."""
        one = self._failing.setdefault(path, _Failure(was))
        one.tries += 1
        state = (now and now.mark,)
        if one.reported == state:
            return False
        waited = time.monotonic() >= one.since + _REPORTED_AFTER
        if one.is_final or waited or (self.report_soon and one.tries >= _TRIES):
            one.reported = state
            return True
        return None

    def pause(self) -> float | None:
        """Returns seconds until the next retry; None if no retry would help."""
        if all(one.is_final for one in self._failing.values()):
            return None
        self._pause, now = min(2 * self._pause, _PAUSES[1]), self._pause
        return now


class _Failure:
    def __init__(self, was: PathNode | None) -> None:
        self.since = time.monotonic()
        self.tries = 0
        self.reported: tuple[PathMark | None] | None = None
        # too large or unreadable, so that there is no copy
        self.is_final = was is not None and was.kind != "folder" and was.content is None
