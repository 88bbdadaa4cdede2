"""The short form of the path race; the long one is tests/torture/test_confined_paths.py."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from tests.workspace.path_attacks import SECRET, Stage
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.refusal import Refused


def naive(root: Path, path: str) -> bytes:
    """The naive way: follow all links, compare the prefix, then open by name."""
    real = os.path.realpath(root / path)
    if not real.startswith(f"{root}/"):
        raise PermissionError
    return (root / path).read_bytes()


@pytest.mark.parametrize("walk", [False, True])
def test_no_read_and_no_write_leaves_while_names_are_swapped(tmp_path: Path, walk: bool) -> None:
    stage = Stage(tmp_path)
    done = 0
    with ConfinedRoot(stage.work, walk=walk) as root, stage.swapping(60):
        for turn in range(3_000):
            path = Stage.PATHS[turn % 4]
            with contextlib.suppress(Refused):
                file = root.open_file(path)
                with os.fdopen(file, "rb") as opened:
                    assert SECRET.encode() not in opened.read()
                done += 1
            if turn % 10 == 0:
                with contextlib.suppress(Refused):
                    root.write(path, [b"mine\n"], durable=False)
                with contextlib.suppress(Refused):
                    root.write(f"{path}-{turn}/new", [b"mine\n"], durable=False)
    assert stage.escapes() == []
    assert done > 0


def test_the_naive_implementation_loses_the_race(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    stage = Stage(tmp_path)
    with stage.swapping(60):
        for turn in range(200_000):
            with contextlib.suppress(OSError):
                if SECRET.encode() in naive(stage.work, Stage.PATHS[turn % 4]):
                    return
    pytest.fail("the swapper is too slow to be a danger")
