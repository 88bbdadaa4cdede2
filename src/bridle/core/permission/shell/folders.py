"""The folders that a command of a line may run in, after the `cd` before it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from bridle.core.permission.shell.script import Folder, is_open

_MOST = 12


class Folders:
    """After `cd x &&` it is x; after `cd x;` it may also be where one was, if there is no x."""

    def __init__(self, now: tuple[Folder, ...] = ("",)) -> None:
        self.now = now
        self._before = now

    def entered(self) -> Folders:
        """Those of a subshell, which moves by itself."""
        return Folders(self.now)

    def chain_ends(self) -> None:
        both = tuple(dict.fromkeys((*self._before, *self.now)))
        self.now = self._before = both if len(both) <= _MOST else (None,)

    def move(self, words: Sequence[str]) -> None:
        """If this command is one that moves."""
        if not words or words[0] not in ("cd", "chdir", "pushd", "popd"):
            return
        operands = [word for word in words[1:] if word == "-" or not word.startswith("-")]
        target = operands[0] if operands else "~"
        if words[0] == "popd" or target == "-" or len(operands) > 1 or is_open(target):
            self.now = (None,)
        else:
            self.now = tuple(dict.fromkeys(_joined(base, target) for base in self.now))


def _joined(base: Folder, target: str) -> Folder:
    if target.startswith(("/", "~")):
        return target
    return base if base is None else posixpath.join(base, target)
