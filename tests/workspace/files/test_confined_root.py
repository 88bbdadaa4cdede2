"""No path leads out of the workspace, and files are replaced as a whole."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tillerman.workspace.files.access import draft_files
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.open_beneath import open_outside
from tillerman.workspace.files.access.path_locks import TEMPORARY
from tillerman.workspace.files.moving import move
from tillerman.workspace.files.refusal import Refused

SECRET = b"secret"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture(params=["openat2", "walk"])
def confined(root: Path, outside: Path, request: pytest.FixtureRequest) -> Iterator[ConfinedRoot]:
    (root / "a").mkdir()
    (root / "a" / "b.txt").write_text("inside")
    with ConfinedRoot(root, walk=request.param == "walk") as opened:
        assert opened.walks == (request.param == "walk")
        yield opened


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def read(root: ConfinedRoot, path: str) -> bytes:
    file = root.open_file(path)
    try:
        return os.read(file, 100)
    finally:
        os.close(file)


def refusal(root: ConfinedRoot, path: str, *, write: bool = False) -> str:
    with pytest.raises(Refused) as caught:
        if write:
            root.write(path, [b"x"])
        else:
            read(root, path)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("path", ["a/b.txt", "./a//b.txt", "a/../a/b.txt", "a/./b.txt"])
def test_a_file_is_found_by_any_form_of_its_path(confined: ConfinedRoot, path: str) -> None:
    assert read(confined, path) == b"inside"
    confined.write(path, [b"new"])
    assert read(confined, "a/b.txt") == b"new"


def test_an_absolute_path_into_the_workspace_is_made_relative(
    confined: ConfinedRoot, root: Path
) -> None:
    assert read(confined, str(root / "a" / "b.txt")) == b"inside"
    assert confined.parts(str(root)) == ()


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../outside/secret", "a/../../outside/secret", "/etc/passwd", "/", "//etc/passwd"),
        *("/proc/self/cwd/../etc/passwd", "{root}x/file", "{root}/../outside/secret"),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_a_path_that_leads_out_by_its_text_is_refused(
    confined: ConfinedRoot, root: Path, path: str, write: bool
) -> None:
    reported = refusal(confined, path.format(root=root), write=write)
    assert "outside the workspace" in reported


@pytest.mark.parametrize(
    "path",
    [
        *("", "a\0b", "a/b.txt\0.md", "~", "~/x", "~root/x", "file:///etc/passwd", "\ud800"),
        *("n" * 256, "é" * 128, "d/" * 200 + "x", "d/" * 2500 + "x", ".", "a/", "a"),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_a_path_that_names_no_file_is_refused(
    confined: ConfinedRoot, path: str, write: bool
) -> None:
    assert refusal(confined, path, write=write)


@pytest.mark.parametrize("path", ["a\\b", "new\nline", "esc\x1b[m", "a/\udcff"])
def test_a_name_that_a_terminal_or_another_system_misreads_is_not_created(
    confined: ConfinedRoot, path: str
) -> None:
    assert refusal(confined, path, write=True)


def test_a_link_to_the_outside_is_refused(
    confined: ConfinedRoot, root: Path, outside: Path
) -> None:
    (root / "absolute").symlink_to(outside / "secret")
    (root / "relative").symlink_to("../outside/secret")
    (root / "folder").symlink_to(outside)
    (root / "deep").symlink_to("a/../../outside")
    (root / "proc").symlink_to("/proc/self/root")
    for path in ("absolute", "relative", "folder/secret", "deep/secret", "proc/etc/passwd"):
        assert refusal(confined, path)
        assert refusal(confined, path, write=True)
    assert refusal(confined, "folder/new", write=True)
    assert names(outside) == ["secret"] and (outside / "secret").read_bytes() == SECRET


def test_a_link_that_stays_inside_is_read_through_and_never_written_through(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "file").write_text("inside")
    (root / "to-file").symlink_to("a/file")
    (root / "to-folder").symlink_to("a")
    with ConfinedRoot(root) as confined:
        assert read(confined, "to-file") == read(confined, "to-folder/file") == b"inside"
        for path in ("to-file", "to-folder/file", "to-folder/new"):
            assert "is a link to a" in refusal(confined, path, write=True)
    assert names(root / "a") == ["file"] and (root / "to-file").is_symlink()
    with ConfinedRoot(root, walk=True) as confined:
        assert "is a link to a" in refusal(confined, "to-folder/file")


def test_pipes_sockets_and_devices_are_refused_at_once(confined: ConfinedRoot, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        for name in ("pipe", "socket"):
            assert refusal(confined, name)
            assert refusal(confined, name, write=True)
    if os.geteuid() == 0:
        os.mknod(root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        assert "a device" in refusal(confined, "device")
        assert "a device" in refusal(confined, "device", write=True)


def test_a_hard_link_is_not_written(confined: ConfinedRoot, root: Path, outside: Path) -> None:
    (root / "hard").hardlink_to(outside / "secret")
    assert "hard links" in refusal(confined, "hard", write=True)
    assert (outside / "secret").read_bytes() == SECRET


def test_a_file_is_replaced_whole_and_keeps_its_mode(confined: ConfinedRoot, root: Path) -> None:
    path = root / "a" / "b.txt"
    path.chmod(0o4750)
    before = path.open()
    written = confined.write("a/b.txt", [b"one", b"two"])
    assert not written.created and written.size == 6
    assert path.read_text() == "onetwo" and stat.S_IMODE(path.stat().st_mode) == 0o750
    assert before.read() == "inside"  # who has it open reads what it was
    before.close()


def test_folders_above_a_new_file_are_made_when_asked(confined: ConfinedRoot, root: Path) -> None:
    with pytest.raises(Refused):
        confined.write("x/y/z", [b"1"], create_parents=False)
    assert confined.write("x/y/z", [b"1"]).created
    assert (root / "x" / "y" / "z").read_bytes() == b"1"


def test_a_write_that_breaks_off_leaves_what_was_there(confined: ConfinedRoot, root: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "full")

    with pytest.raises(Refused, match="disk is full"):
        confined.write("a/b.txt", chunks())
    assert (root / "a" / "b.txt").read_text() == "inside"
    assert names(root / "a") == ["b.txt"]


def test_a_new_file_does_not_replace_one_created_meanwhile(
    confined: ConfinedRoot, root: Path
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"mine"
        (root / "new").write_text("theirs")

    with pytest.raises(Refused, match="already exists"):
        confined.write("new", chunks())
    assert (root / "new").read_text() == "theirs"
    assert not [name for name in names(root) if name.startswith(TEMPORARY)]


def test_a_change_while_a_file_is_written_is_not_lost(confined: ConfinedRoot, root: Path) -> None:
    path = root / "a" / "b.txt"

    def chunks() -> Iterator[bytes]:
        yield b"mine"
        (root / "a" / "c").write_text("theirs")
        (root / "a" / "c").rename(path)

    with pytest.raises(Refused, match="changed by another program"):
        confined.write("a/b.txt", chunks())
    assert path.read_text() == "theirs" and names(root / "a") == ["b.txt"]


def test_files_are_replaced_where_names_cannot_be_exchanged(
    confined: ConfinedRoot, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the C libraries of old systems."""
    monkeypatch.setattr(draft_files, "_rename", None)
    confined.write("a/b.txt", [b"new"])
    confined.write("a/c.txt", [b"other"])
    with pytest.raises(Refused, match="already"):
        move(confined, "a/b.txt", "a/c.txt")
    move(confined, "a/b.txt", "d/e.txt")
    with pytest.raises(Refused, match="changed by another program"):
        confined.write("a/c.txt", _chunks_beside(root / "a/c.txt"))
    assert (root / "d/e.txt").read_text() == "new" and (root / "a/c.txt").read_text() == "theirs"
    assert names(root / "a") == ["c.txt"]


def _chunks_beside(path: Path) -> Iterator[bytes]:
    yield b"mine"
    path.with_name("x").write_text("theirs")
    path.with_name("x").rename(path)


def test_a_workspace_that_is_replaced_is_not_followed(
    confined: ConfinedRoot, root: Path, outside: Path, tmp_path: Path
) -> None:
    root.rename(tmp_path / "moved")
    root.symlink_to(outside)
    assert refusal(confined, "secret")
    confined.write("new", [b"1"])
    assert (tmp_path / "moved" / "new").exists() and not (outside / "new").exists()


def test_a_missing_workspace_is_reported(root: Path) -> None:
    with ConfinedRoot(root) as confined:
        root.rmdir()
        assert "was removed" in refusal(confined, "x", write=True)
        assert "was removed" in refusal(confined, "x")


def test_a_file_from_outside_is_opened_through_no_link(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    os.close(open_outside(str(outside / "secret")))
    with pytest.raises(Refused, match="is a link"):
        open_outside(str(tmp_path / "link" / "secret"))
    with pytest.raises(Refused, match="is a folder"):
        open_outside(str(outside))


def test_descriptors_are_closed(confined: ConfinedRoot, root: Path) -> None:
    def count() -> int:
        return len(names(Path("/proc/self/fd")))

    def use() -> None:
        read(confined, "a/b.txt")
        confined.write("x/y/z", [b"1"])
        confined.status("x/y/none")
        for path in ("gone/x", "a", "link", "a/b.txt/x"):
            refusal(confined, path)
            refusal(confined, path, write=True) if path != "gone/x" else None

    (root / "link").symlink_to("..")
    use()
    before = count()
    use()
    assert count() == before
