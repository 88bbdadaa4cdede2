"""The files that stand for secret words of a command line or environment, in a warden's folder.

That folder is the user's alone; the warden removes it with all that is in it when it ends, and a
sweep does if the warden was killed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tillerman.core.agent import SecretFile, SecretFolder, Word


def written(folder: Path, argv: Sequence[Word]) -> list[str]:
    """The plain words of the command line, with its files in place."""
    return [_plain(folder / f"word-{at}", word) for at, word in enumerate(argv)]


def variables_written(folder: Path, env: Mapping[str, Word]) -> dict[str, str]:
    return {name: _plain(folder / f"variable-{name}", word) for name, word in env.items()}


def _plain(path: Path, word: Word) -> str:
    if isinstance(word, str):
        return word
    if isinstance(word, SecretFile):
        _write(path, word.content)
    if isinstance(word, SecretFolder):
        path.mkdir(mode=0o700, exist_ok=True)
        for name, content in word.files.items():
            (path / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path / name, content)
    return f"{word.flag}{path}"


def _write(path: Path, content: bytes) -> None:
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)  # at once: an earlier program may be reading it
