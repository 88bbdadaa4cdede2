"""Changes that could not be undone yet: tried again while programs run, and reported once."""

from __future__ import annotations

import time
from collections.abc import Collection

from tillerman.workspace.protection.protected_state import PathMark, PathNode

_TRIES = 3
_REPORTED_AFTER = 1.0  # seconds
_PAUSES = (0.5, 5.0)  # seconds between two tries after the report: the first, and the longest


class Failures:
    def __init__(self) -> None:
        self._failing: dict[str, _Failure] = {}
        self._pause = _PAUSES[0]
        self.report_soon = False  # after some tries: a program, or a turn, is over

    def __bool__(self) -> bool:
        return bool(self._failing)

    def forget_others(self, differing: Collection[str]) -> None:
        """What differs no longer has been restored."""
        self._failing = {path: one for path, one in self._failing.items() if path in differing}
        if not self._failing:
            self._pause = _PAUSES[0]

    def remove(self, path: str) -> None:
        self._failing.pop(path, None)

    def add(self, path: str, was: PathNode | None, now: PathNode | None) -> bool | None:
        """True: it is time to report it. False: it was reported. None: try once more before."""
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
        """Seconds until the next try; None where none would help."""
        if all(one.is_final for one in self._failing.values()):
            return None
        self._pause, now = min(2 * self._pause, _PAUSES[1]), self._pause
        return now


class _Failure:
    def __init__(self, was: PathNode | None) -> None:
        self.since = time.monotonic()
        self.tries = 0
        self.reported: tuple[PathMark | None] | None = None
        # too large or not to be read, so that there is no copy
        self.is_final = was is not None and was.kind != "folder" and was.content is None
