"""Imported and exported files: no write outside, and no read out of bounds."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import random
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workspace.hostile_archives import corpus, mutated, resummed, tarred, zipped
from tillerman.workspace.files import import_export, unpacking
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.import_export import Imported
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.files.unpacking import Unpacked


@pytest.fixture
def files(root: Path, tmp_path: Path) -> Iterator[Files]:
    with ConfinedRoot(root) as confined:
        yield Files(confined, tmp_path / "exports")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


def unpacked(files: Files, outside: Path, data: bytes, path: str = "in") -> Unpacked:
    (outside / "archive").write_bytes(data)
    found = files.import_file(str(outside / "archive"), path, unpack=True)
    assert isinstance(found, Unpacked)
    return found


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# bringing in


def test_a_file_is_copied(files: Files, root: Path, outside: Path) -> None:
    done = files.import_file(str(outside / "secret"), "sub/copy")
    assert isinstance(done, Imported) and done.size == 6
    assert (root / "sub" / "copy").read_text() == "secret"
    with pytest.raises(Refused, match="already"):
        files.import_file(str(outside / "secret"), "sub/copy")
    assert files.read_file("sub/copy").hash == done.hash


def test_only_a_regular_file_by_its_whole_path_is_copied(
    files: Files, root: Path, outside: Path
) -> None:
    (outside / "link").symlink_to("secret")
    os.mkfifo(outside / "pipe")
    for name in ("link", "pipe", "gone", "."):
        with pytest.raises(Refused):
            files.import_file(str(outside / name), "copy")
    with pytest.raises(Refused, match=f"(?m)^{outside}/link is a link to secret$"):
        files.import_file(str(outside / "link"), "copy")
    for source in ("outside/secret", "", "a\0b", "~/x"):
        with pytest.raises(Refused):
            files.import_file(source, "copy")
    for path in ("../copy", ".env", ".git/hooks/x"):
        with pytest.raises(Refused):
            files.import_file(str(outside / "secret"), path)
    assert everything(root) == set()


def _zip(tree: dict[str, bytes]) -> bytes:
    return zipped(list(tree.items()))


def _tar(compression: str, kind: int) -> Callable[[dict[str, bytes]], bytes]:
    def make(tree: dict[str, bytes]) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=f"w:{compression}", format=kind) as archive:  # type: ignore[call-overload]
            for name, data in tree.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return out.getvalue()

    return make


@pytest.mark.parametrize(
    "pack",
    [_zip]
    + [_tar(how, tarfile.PAX_FORMAT) for how in ("", "gz", "bz2", "xz")]
    + [_tar("", kind) for kind in (tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)],
)
def test_archives_are_unpacked(
    files: Files, root: Path, outside: Path, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    tree = {
        "a": b"", "b/c": b"x", "b/ö": b"1" * 512, "d/e/f/g": os.urandom(200_000), "b/d": b"2" * 513,
        "long/" + "n" * 90 + "/" + "m" * 90: b"3",
    }  # fmt: skip
    done = unpacked(files, outside, pack(tree))
    assert (done.files, done.size) == (len(tree), sum(map(len, tree.values())))
    assert (done.skipped, done.stopped) == ((), "")
    assert {name: (root / "in" / name).read_bytes() for name in tree} == tree


def test_xz_in_several_streams_is_one_archive(files: Files, outside: Path) -> None:
    data = _tar("", tarfile.PAX_FORMAT)({"a": b"1" * 5_000, "b": b"2" * 5_000})
    halves = data[:3_000], data[3_000:]
    for compress in (lzma.compress, bz2.compress):
        assert (
            unpacked(files, outside, b"".join(map(compress, halves)), compress.__module__).files
            == 2
        )


def test_xz_does_not_get_the_memory_that_it_asks_for(files: Files, outside: Path) -> None:
    data = bytearray(lzma.compress(_tar("", tarfile.PAX_FORMAT)({"a": b"1"})))
    end = 12 + data[12] * 4  # of the block's header, before its checksum
    assert data[14:16] == b"\x21\x01"
    data[16] = 40  # a dictionary of 4 GiB
    data[end : end + 4] = zlib.crc32(data[12:end]).to_bytes(4, "little")
    assert "emory" in unpacked(files, outside, bytes(data)).stopped


def test_modes_are_kept_as_far_as_they_are_harmless(
    files: Files, root: Path, outside: Path
) -> None:
    unpacked(files, outside, tarred(tarfile.PAX_FORMAT))
    assert stat.S_IMODE((root / "in" / "fine").stat().st_mode) & 0o7100 == 0o100


def test_hostile_archives_stay_inside_and_report_what_was_left_out(
    files: Files, root: Path, outside: Path, tmp_path: Path
) -> None:
    for number, data in enumerate(corpus()):
        done = unpacked(files, outside, data, f"in/{number}")
        assert done.files <= len(everything(root))
        if b"evil" in data and number == 0:
            why = {skipped.name: skipped.why for skipped in done.skipped}
            assert why["../evil"] == "a path that contains `..`"
            assert why["/tmp/evil-absolute"] == "an absolute path"
            assert done.more_skipped > 0
    assert {path.name for path in tmp_path.iterdir()} == {"work", "outside", "home"}
    assert not Path("/tmp/evil-absolute").exists()
    assert everything(outside) == {"secret", "archive"}
    for path in root.rglob("*"):
        assert not path.is_symlink() and (path.is_file() or path.is_dir())
        assert not any(
            part.lower().startswith((".git", ".env", ".mcp")) for part in path.parts[-3:]
        )


def test_existing_links_are_not_followed(files: Files, root: Path, outside: Path) -> None:
    (root / "in").mkdir()
    (root / "in" / "sub").symlink_to(outside)
    (root / "in" / "file").symlink_to(outside / "secret")
    done = unpacked(files, outside, zipped([("sub/evil", b"evil"), ("file", b"evil"), ("ok", b"")]))
    assert done.files == 1 and len(done.skipped) == 2
    assert everything(outside) == {"secret", "archive"}
    assert (outside / "secret").read_text() == "secret"


def test_existing_files_stay(files: Files, root: Path, outside: Path) -> None:
    (root / "in").mkdir()
    (root / "in" / "a").write_text("mine")
    done = unpacked(files, outside, zipped([("a", b"theirs"), ("b", b"1"), ("b", b"2")]))
    assert (root / "in" / "a").read_text() == "mine" and (root / "in" / "b").read_text() == "1"
    assert [skipped.name for skipped in done.skipped] == ["a", "b"]


def test_an_oversized_archive_is_stopped_and_reported(
    files: Files, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MOST_FILES", 200)
    bomb = unpacked(files, outside, zipped([("first", b"1"), ("bomb", bytes(40 << 20))]))
    assert bomb.files == 1 and "bytes come out of" in bomb.stopped
    many = [(str(number), b"") for number in range(unpacking.MOST_FILES + 5)]
    done = unpacked(files, outside, _tar("gz", tarfile.USTAR_FORMAT)(dict(many)), "many")
    assert done.files == unpacking.MOST_FILES and "more than 200" in done.stopped
    half = _tar("", tarfile.PAX_FORMAT)({"a": b"1" * 5_000, "b": b"2" * 5_000})
    cut = unpacked(files, outside, half[:9_000], "half")
    assert cut.files == 1 and "damaged" in cut.stopped


def test_other_files_are_refused_as_archives(files: Files, root: Path, outside: Path) -> None:
    with pytest.raises(Refused, match="unknown archive format"):
        files.import_file(str(outside / "secret"), "in", unpack=True)
    assert everything(root) == set()


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04garbage", b"\x1f\x8bgarbage", b"BZhgarbage",
        zipped([("deep/one", b"1")]).replace(zlib.crc32(b"1").to_bytes(4, "little"), b"1234"),
        _tar("", tarfile.PAX_FORMAT)({"deep/one": b"1" * 5_000})[:3_000],
        zipped([("deep/bomb", bytes(40 << 20))]),
    ],
    ids=["zip", "gz", "bz2", "checksum", "cut", "bomb"],
)  # fmt: skip
@pytest.mark.parametrize("there", [(), ("in",), ("in", "in/empty")])
def test_an_archive_of_which_nothing_can_be_unpacked_leaves_no_folder(
    files: Files, root: Path, outside: Path, data: bytes, there: tuple[str, ...]
) -> None:
    for name in there:
        (root / name).mkdir()
    assert unpacked(files, outside, data, "in/empty").stopped
    assert everything(root) == set(there)


def test_a_program_stays_executable_when_it_is_copied_in_or_out(
    files: Files, root: Path, outside: Path
) -> None:
    (outside / "run").write_text("#!/bin/sh\n")
    for mode in (0o644, 0o755, 0o6711):
        (outside / "run").chmod(mode)
        files.import_file(str(outside / "run"), f"run{mode}")
        copies = (root / f"run{mode}", Path(files.export_file(f"run{mode}").path))
        assert {copy.stat().st_mode & 0o7100 for copy in copies} == {mode & 0o100}


def test_corrupted_archives_stay_inside(files: Files, outside: Path, tmp_path: Path) -> None:
    """The short form; the long one is tests/torture/test_confined_paths.py."""
    chance = random.Random(1)
    whole = [data for data in corpus() if len(data) < 100_000]
    for number in range(30):
        data = mutated(chance.choice(whole), chance)
        data = resummed(data) if chance.random() < 0.5 else data
        try:
            unpacked(files, outside, data, f"in/{number}")
        except Refused:
            continue
    assert everything(outside) == {"secret", "archive"}
    assert {path.name for path in tmp_path.iterdir()} <= {"work", "outside", "home", "exports"}


# taking out


def test_a_file_is_exported_under_a_free_name(files: Files, root: Path, tmp_path: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "a.txt").write_text("1")
    first, second = files.export_file("sub/a.txt"), files.export_file("sub/a.txt")
    assert first.path == str(tmp_path / "exports" / "a.txt")
    assert second.path == str(tmp_path / "exports" / "a-2.txt") and second.size == 1
    assert Path(files.export_file("sub/a.txt", "other").path).read_text() == "1"
    for name in ("../x", "a/b", "..", "."):
        with pytest.raises(Refused):
            files.export_file("sub/a.txt", name)
    with pytest.raises(Refused):
        files.export_file("sub")


def test_a_zip_holds_the_requested_files_and_no_links(
    files: Files, repository: Path, tmp_path: Path
) -> None:
    (repository / "x.log").write_text("ignored")
    (repository / "run").write_text("1")
    (repository / "run").chmod(0o755)
    (repository / "big").write_bytes(os.urandom(1 << 20))
    (repository / "link").symlink_to("/etc/passwd")
    (repository / "folder").symlink_to("/etc")
    done = files.export_zip([".", "lib"], "all")
    assert done.path == str(tmp_path / "exports" / "all.zip") and done.files == 5
    with zipfile.ZipFile(done.path) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == [".gitignore", "a.py", "big", "lib/b.py", "run"]
        assert archive.read("big") == (repository / "big").read_bytes()
        assert archive.getinfo("run").external_attr >> 16 == 0o100755
    assert "2 left out: links" in " ".join(done.notes) and "ignored" in " ".join(done.notes)
    assert unpacked_names(files, done.path) == {
        ".gitignore",
        "a.py",
        "big",
        "lib",
        "lib/b.py",
        "run",
    }


def unpacked_names(files: Files, source: str) -> set[str]:
    files.import_file(source, "back", unpack=True)
    return everything(files.root.path / "back")


def test_a_zip_holds_every_file_even_if_names_look_alike(files: Files, root: Path) -> None:
    for name in (b"a\xff", b"a\xfe", "a\N{REPLACEMENT CHARACTER}".encode(), b"plain"):
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(name)
    done = files.export_zip([".", "plain"], "all")
    assert done.files == 4 and "not UTF-8" in done.notes[0]
    with zipfile.ZipFile(done.path) as archive:
        held = {archive.read(name) for name in archive.namelist()}
    assert held == {path.read_bytes() for path in root.iterdir()}


def test_a_zip_that_fails_leaves_nothing(
    files: Files, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_bytes(bytes(3_000))
    monkeypatch.setattr(import_export, "MOST_BYTES", 2_000)
    for export in (lambda: files.export_zip(["."], "x"), lambda: files.export_file("a")):
        with pytest.raises(Refused):
            export()
    with pytest.raises(Refused):
        files.export_zip([], "x")
    assert not list((tmp_path / "exports").iterdir())
