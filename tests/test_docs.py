"""Every Python example in the documents runs as it stands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tillerman.surfaces.cli.parsing.argparse_errors import parse
from tillerman.surfaces.cli.parsing.parser import build

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples() -> list[object]:
    found = []
    for name in ("README.md", "docs/api.md", "docs/requests.md"):
        for number, code in enumerate(EXAMPLE.findall((ROOT / name).read_text()), 1):
            found.append(pytest.param(code, id=f"{name}-{number}"))
    return found


@pytest.mark.parametrize("code", examples())
def test_an_example_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "TILLERMAN_HOME": str(tmp_path / "b"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip()


def commands() -> list[object]:
    text = "".join((ROOT / name).read_text() for name in ("docs/requests.md", "docs/hooks.md"))
    lines = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)).splitlines()
    last = [line.rpartition(" | ")[2] for line in lines]
    return [pytest.param(shlex.split(line)[1:], id=line) for line in last]


@pytest.mark.parametrize("words", commands())
def test_a_command_of_an_example_is_one(words: list[str]) -> None:
    assert parse(build(), words).command


def test_the_public_names_are_those_in_all() -> None:
    import tillerman

    assert sorted({*tillerman.__all__} - {"__version__"}) == sorted(tillerman._HOMES)
    for name in tillerman.__all__:
        assert getattr(tillerman, name) is not None
