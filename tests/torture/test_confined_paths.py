"""A million opens and 20,000 calls of each file tool while names are swapped; 10,000 archives."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.workspace.hostile_archives import zipped
from tests.workspace.path_attacks import SECRET, Stage
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.refusal import Refused

pytestmark = pytest.mark.torture

OPENS = int(os.environ.get("TILLERMAN_TORTURE_OPENS", "1000000"))
CALLS = int(os.environ.get("TILLERMAN_TORTURE_CALLS", "20000"))
ARCHIVES = int(os.environ.get("TILLERMAN_TORTURE_ARCHIVES", "10000"))
NAMES = (*Stage.PATHS, "box/other", "kept/inner/other")


def raced(stage: Stage, count: int, call: Callable[[int], object]) -> str:
    """Calls while names are swapped; no result may contain the secret.

    A refusal is fast: while the swapper waits for a core there are thousands in a row. So it runs
    until a quarter of the calls succeeded.
    """
    done = refused = 0
    start = time.monotonic()
    with stage.swapping(3_600):
        while done + refused < count or done < count // 4:
            turn = done + refused
            try:
                result = call(turn)
            except Refused as refusal:
                refused += 1
                assert SECRET not in refusal.message
                continue
            done += 1
            assert SECRET not in str(result)
    assert stage.escapes() == []
    assert refused, "the swapper did nothing"
    return f"{done} done, {refused} refused, 0 escapes in {time.monotonic() - start:.0f} s"


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("walk", [False, True], ids=["openat2", "walk"])
def test_a_million_opens(tmp_path: Path, walk: bool) -> None:
    stage = Stage(tmp_path)
    with ConfinedRoot(stage.work, walk=walk) as root:

        def take(turn: int) -> bytes:
            file = root.open_file(NAMES[turn % len(NAMES)])
            try:
                return os.read(file, 100)
            finally:
                os.close(file)

        print("opens", "walk" if walk else "openat2", raced(stage, OPENS // 2, take))


def tool(files: Files, name: str, archive: Path) -> Callable[[int], object]:
    def writes(turn: int) -> object:
        path = NAMES[turn % len(NAMES)]
        if turn % 3 == 0:
            path = f"{path}-new/{turn}"
        return files.write_file(path, f"mine {turn}\n")

    def replaces(turn: int) -> object:
        path = NAMES[turn % len(NAMES)]
        try:
            return files.replace_lines_in_file(path, 1, 1, "mine", "mine")
        except Refused as refusal:
            assert SECRET not in refusal.message
            raise

    def imports(turn: int) -> object:
        path = f"{NAMES[turn % len(NAMES)]}-import-{turn}"
        source = archive.parent / "plain" if turn % 2 else archive
        return files.import_file(str(source), path, unpack=not turn % 2)

    def exports(turn: int) -> object:
        done = files.export_file(NAMES[turn % len(NAMES)])
        copy = Path(done.path)
        assert SECRET not in copy.read_text()
        copy.unlink()
        return done

    def zips(turn: int) -> object:
        done = files.export_zip([("box", "kept", "box/inner", "kept/inner")[turn % 4]], "x")
        copy = Path(done.path)
        shutil.unpack_archive(copy, copy.parent / "out", "zip")
        for path in (copy.parent / "out").rglob("*"):
            assert path.is_dir() or SECRET not in path.read_text()
        shutil.rmtree(copy.parent / "out")
        copy.unlink()
        return done

    def lists(turn: int) -> object:
        listing = files.list_directory(
            ("box", "kept", "box/inner", "kept/inner")[turn % 4], depth=3
        )
        # seen from inside only: the folder outside has one more
        assert not any("only-outside" in entry.path for entry in listing.entries)
        return listing

    def searches(turn: int) -> object:
        path = (".", "box", "kept/inner", "kept/file")[turn % 4]
        kind = "regex" if turn % 500 == 0 else "text"
        return files.search_files("THE-" if turn % 2 else "e", path, kind, limit=50)  # type: ignore[arg-type]

    def reads(turn: int) -> object:
        return files.read_file(NAMES[turn % len(NAMES)])

    def edits(turn: int) -> object:
        return files.replace_text_in_file(NAMES[turn % len(NAMES)], "mine", "mine")

    def moves(turn: int) -> object:
        path = NAMES[turn // 2 % len(NAMES)]
        both = (path, f"{path}-moved")
        return files.move_file(*(reversed(both) if turn % 2 else both))

    def deletes(turn: int) -> object:
        path = f"{NAMES[turn % len(NAMES)]}-new"
        files.create_directory(f"{path}/inner")
        return files.delete_file(path, recursive=True)

    return {
        "replace_text_in_file": edits, "move_file": moves, "delete_file": deletes,
        "read_file": reads, "write_file": writes, "list_directory": lists,
        "replace_lines_in_file": replaces, "import_file": imports, "export_file": exports,
        "export_zip": zips, "search_files": searches,
    }[name]  # fmt: skip


TOOLS = (
    "read_file", "write_file", "list_directory", "replace_lines_in_file", "import_file",
    "export_file", "export_zip", "search_files", "replace_text_in_file", "move_file",
    "delete_file",
)  # fmt: skip


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_while_names_are_swapped(tmp_path: Path, name: str) -> None:
    stage = Stage(tmp_path, listed="only-outside")
    archive = tmp_path / "archive"
    archive.write_bytes(zipped([("a", b"mine"), ("b/c", b"mine"), ("../d", b"evil")]))
    (tmp_path / "plain").write_text("mine")
    with ConfinedRoot(stage.work) as root:
        files = Files(root, tmp_path / "exports")
        print(name, raced(stage, CALLS, tool(files, name, archive)))


_UNPACKER = """
import random, re, shutil, sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from hostile_archives import corpus, mutated, resummed
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.refusal import Refused
base, first, count = Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
chance = random.Random(first)
whole = [data for data in corpus() if len(data) < 200_000]
def memory(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here: bombs were just made
idle = memory("VmRSS")
files = stopped = refused = 0
with ConfinedRoot(base / "work") as root:
    tools = Files(root, base / "exports")
    for number in range(count):
        data = mutated(chance.choice(whole), chance)
        data = resummed(data) if chance.random() < 0.5 else data
        (base / "archive").write_bytes(data)
        try:
            done = tools.import_file(str(base / "archive"), f"in{number}", unpack=True)
            files += done.files
            stopped += bool(done.stopped)
        except Refused:
            refused += 1
        for path in (base / "work").rglob("*"):
            assert not path.is_symlink() and (path.is_dir() or path.is_file()), path
        shutil.rmtree(base / "work" / f"in{number}", ignore_errors=True)
grown = memory("VmHWM") - idle
print(files, stopped, refused, grown)
"""


@pytest.mark.timeout(3_600)
def test_corrupted_archives_write_nothing_outside_and_stay_small(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    start = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-c", _UNPACKER, str(CHECKOUT), str(CHECKOUT / "src")),
            *(str(tmp_path), "1", str(ARCHIVES)),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    files, stopped, refused, grown = map(int, done.stdout.split())
    assert {path.name for path in tmp_path.iterdir()} == {"work", "outside", "archive"}
    assert [path.read_text() for path in (tmp_path / "outside").iterdir()] == [SECRET]
    assert not list((tmp_path / "work").iterdir()) and not Path("/tmp/evil-absolute").exists()
    assert files and stopped and refused
    assert grown < 64 << 10, f"{grown} KiB"
    print(
        f"{ARCHIVES} archives in {time.monotonic() - start:.0f} s: {files} files inside, "
        f"{stopped} stopped, {refused} refused, 0 outside, {grown >> 10} MiB more memory"
    )
