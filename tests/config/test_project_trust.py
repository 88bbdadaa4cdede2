"""Trust in a project's files, by their content."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.config import find_paths
from tillerman.config.project_trust import ProjectFolder, read_folder, trust, trust_state, untrust
from tillerman.core.errors import ConfigError
from tillerman.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".tillerman/hooks").mkdir(parents=True)
    (project / ".tillerman/config.toml").write_text('agent = "mock"\n')
    (project / ".tillerman/hooks/start.sh").write_text("echo hello\n")
    (project / ".tillerman/link").symlink_to("config.toml")
    return project


def _read(project: Path) -> ProjectFolder:
    folder = read_folder(project)
    assert folder
    return folder


def test_nothing_is_trusted_until_the_user_confirms_it(paths: Paths, project: Path) -> None:
    assert trust_state(paths, _read(project)) == "untrusted"
    trust(paths, _read(project))
    assert trust_state(paths, _read(project)) == "trusted"
    assert untrust(paths, project)
    assert trust_state(paths, _read(project)) == "untrusted"
    assert not untrust(paths, project)


def test_without_a_folder_there_is_nothing_to_trust(paths: Paths, tmp_path: Path) -> None:
    assert trust_state(paths, read_folder(tmp_path)) == "absent"


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte": lambda at: (at / "hooks/start.sh").write_text("echo hellO\n"),
    "a byte more": lambda at: (at / "config.toml").write_text('agent = "mock"\n\n'),
    "a new file": lambda at: (at / "new").touch(),
    "a new file below": lambda at: (at / "hooks/new").touch(),
    "a file gone": lambda at: (at / "hooks/start.sh").unlink(),
    "a name": lambda at: (at / "hooks/start.sh").rename(at / "hooks/stop.sh"),
    "a move": lambda at: (at / "hooks/start.sh").rename(at / "start.sh"),
    "a file that can be run now": lambda at: (at / "hooks/start.sh").chmod(0o755),
    "where a link leads": lambda at: (
        (at / "link").unlink(),
        (at / "link").symlink_to("hooks/start.sh"),
    ),
    "a link in place of a file": lambda at: (
        (at / "hooks/start.sh").rename(at.parent / "start.sh"),
        (at / "hooks/start.sh").symlink_to("../../start.sh"),
    ),
    "a link in place of a folder": lambda at: (
        (at / "hooks").rename(at.parent / "hooks"),
        (at / "hooks").symlink_to("../hooks"),
    ),
    "a pipe": lambda at: os.mkfifo(at / "pipe"),
    "the whole folder by a link to the same": lambda at: (
        at.rename(at.parent / "moved"),
        at.symlink_to("moved"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_ends_the_trust(paths: Paths, project: Path, change: str) -> None:
    trust(paths, _read(project))
    CHANGES[change](project / ".tillerman")
    assert trust_state(paths, _read(project)) == "changed"


def test_two_files_cannot_share_one_record_of_trust() -> None:
    one = ProjectFolder(Path("/p"), files={"a": b"file 1 1\nbc", "d": b""})
    other = ProjectFolder(Path("/p"), files={"a": b"", "d": b"file 1 1\nbc"})
    assert len({one.hash, other.hash, ProjectFolder(Path("/p"), files={"ad": b""}).hash}) == 3


def test_trust_covers_what_was_shown_and_not_what_exists_by_now(
    paths: Paths, project: Path
) -> None:
    seen = _read(project)
    (project / ".tillerman/config.toml").write_text('agent = "swapped"\n')
    trust(paths, seen)
    assert trust_state(paths, _read(project)) == "changed"


def test_the_same_files_elsewhere_are_not_trusted(paths: Paths, project: Path) -> None:
    trust(paths, _read(project))
    copy = project.parent / "copy"
    project.rename(copy)
    assert trust_state(paths, _read(copy)) == "untrusted"


def test_a_project_cannot_supply_its_own_record(paths: Paths, project: Path) -> None:
    trust(paths, _read(project))
    records = list(paths.trust.iterdir())
    assert len(records) == 1
    assert not records[0].is_relative_to(project)
    assert paths.trust.stat().st_mode & 0o777 == 0o700


def test_a_link_in_place_of_the_folder_is_never_trusted(paths: Paths, project: Path) -> None:
    (project / ".tillerman").rename(project / "elsewhere")
    (project / ".tillerman").symlink_to("elsewhere")
    folder = _read(project)
    assert (folder.files, folder.is_real) == ({}, False)
    with pytest.raises(ConfigError, match="is not a folder"):
        trust(paths, folder)


def test_a_folder_too_large_to_be_read_is_refused(project: Path) -> None:
    with (project / ".tillerman/huge").open("wb") as huge:
        huge.truncate(17 << 20)
    with pytest.raises(ConfigError, match="too large to be trusted"):
        read_folder(project)


def test_endless_nested_folders_are_refused(project: Path) -> None:
    folder = project / ".tillerman"
    for _ in range(600):
        folder /= "d"
        folder.mkdir()
    with pytest.raises(ConfigError, match="too large to be trusted"):
        read_folder(project)


def test_empty_folders_count(project: Path) -> None:
    for number in range(2_001):
        (project / ".tillerman" / str(number)).mkdir()
    with pytest.raises(ConfigError, match="too large to be trusted"):
        read_folder(project)


def test_folders_of_any_practical_depth_are_read(project: Path) -> None:
    deep = project / ".tillerman" / "/".join("d" * 32)
    deep.mkdir(parents=True)
    (deep / "file").write_text("deep")
    assert _read(project).files["/".join("d" * 32) + "/file"] == b"deep"
