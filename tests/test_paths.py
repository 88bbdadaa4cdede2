"""Every kind of file has its folder, private to the user."""

import os
import socket
from pathlib import Path

import pytest

from tillerman.core.errors import ConfigError
from tillerman.paths import LONGEST_SOCKET, Paths, find_paths, make_private, private_folder


def test_the_xdg_folders_are_used(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    given = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    assert find_paths(given | {"XDG_CACHE_HOME": str(tmp_path / "c")}) == Paths(
        config=tmp_path / ".config/tillerman",
        state=tmp_path / ".local/state/tillerman",
        cache=tmp_path / "c/tillerman",
        sockets=tmp_path / "run/tillerman",
    )


def test_tillerman_home_puts_all_into_one_folder(tmp_path: Path) -> None:
    given = {
        "TILLERMAN_HOME": str(tmp_path / "b"),
        "XDG_STATE_HOME": "/elsewhere",
        "HOME": "/nobody",
    }
    paths = find_paths(given)
    for path in (paths.config_file, paths.store, paths.cache, paths.sockets, paths.trust):
        assert path.is_relative_to(tmp_path / "b")


@pytest.mark.parametrize("runtime", ["relative", "/nonexistent", "shared"])
def test_a_runtime_folder_that_others_can_enter_is_not_used(tmp_path: Path, runtime: str) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    folder = str(tmp_path / "shared") if runtime == "shared" else runtime
    paths = find_paths({"HOME": str(tmp_path), "XDG_RUNTIME_DIR": folder})
    assert paths.sockets == paths.state / "sockets"


def test_a_relative_xdg_folder_is_ignored(tmp_path: Path) -> None:
    paths = find_paths({"HOME": str(tmp_path), "XDG_STATE_HOME": "here"})
    assert paths.state == tmp_path / ".local/state/tillerman"


def test_folders_are_private_to_the_user(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o777)
    for folder in (private_folder(tmp_path / "new/deep"), private_folder(open_to_all)):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_missing_parents_are_created_for_the_user_alone_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private(tmp_path / "a/b/c")
    make_private(tmp_path / "a/b/c")
    created = [tmp_path / name for name in ("a", "a/b", "a/b/c")]
    assert {folder.stat().st_mode & 0o777 for folder in created} == {0o700}
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_link_or_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(ConfigError, match="not a folder that you own"):
            private_folder(tmp_path / name)


@pytest.mark.parametrize("depth", [0, 12])
def test_a_socket_can_be_bound_however_long_the_folders_are(tmp_path: Path, depth: int) -> None:
    home = tmp_path.joinpath(*["a-rather-long-name"] * depth)
    paths = find_paths({"TILLERMAN_HOME": str(home)})
    path = paths.socket("0197a1b2c3d4")
    assert len(os.fsencode(path)) <= LONGEST_SOCKET
    assert path == find_paths({"TILLERMAN_HOME": str(home)}).socket("0197a1b2c3d4")
    assert path != paths.socket("another")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(str(path))
        finally:
            path.unlink()
