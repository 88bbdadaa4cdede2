"""Bad pipeline files: each gives one error with its line and what to do, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.bad_files import BESIDE, BadFile, bad_files
from tillerman.config import load
from tillerman.core.errors import ConfigError
from tillerman.paths import Paths, find_paths
from tillerman.pipelines.library import Library

CASES = bad_files()


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"HOME": str(tmp_path), "TILLERMAN_HOME": str(tmp_path / "home")})


def test_there_are_many_kinds_and_each_is_named_once() -> None:
    assert len({case.title for case in CASES}) == len(CASES) > 120


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_bad_file_gives_one_error_with_its_line(case: BadFile, paths: Paths) -> None:
    folder = paths.config / "pipelines"
    folder.mkdir(parents=True)
    for name, text in BESIDE.items():
        (folder / name).write_text(text)
    file = folder / f"case.{case.suffix}"
    file.write_text(case.text)
    library = Library(load(paths.config, paths=paths, environment={}), paths.config)
    with pytest.raises(ConfigError) as caught:
        library.load("case")
    message, hint = caught.value.message, caught.value.hint
    blamed = folder / "back.yaml" if "back → case" in case.problem else file
    assert message.startswith(f"{blamed}:{1 if blamed != file else case.line}: "), message
    assert case.problem in message
    assert case.hint in hint
    assert hint.strip()
    assert "\n" not in message
    assert caught.value.exit_code == 2
    assert (library.looked_at("case").problem, library.looked_at("called").problem) == (message, "")
