"""Writes secret command arguments and environment values to files in the warden's folder.

Only the user can read that folder. The warden removes it with its content when it ends; a sweep
removes it if the warden was killed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tillerman.core.agent import SecretFile, SecretFolder, Word


def written(folder: Path, argv: Sequence[Word]) -> list[str]:
    """Writes the files and returns the command line as plain arguments."""
    return [
        word if isinstance(word, str) else _plain(folder / f"word-{at}", word)
        for at, word in enumerate(argv)
    ]


def variables_written(folder: Path, env: Mapping[str, Word]) -> dict[str, str]:
    return {
        name: word if isinstance(word, str) else _plain(folder / f"variable-{name}", word)
        for name, word in env.items()
    }


def _plain(path: Path, word: SecretFile | SecretFolder) -> str:
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
    draft.replace(path)  # atomically: an earlier program may be reading it
