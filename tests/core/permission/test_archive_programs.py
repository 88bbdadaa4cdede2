"""Generated calls of archive programs: every file that the real program changes is named."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.permission.changed_files import tree_state, unnamed_changes
from tillerman.core.permission.shell.programs import StdinSource, describe

_PATH = os.environ.get("TILLERMAN_ARCHIVE_PROGRAMS", "") + ":/usr/local/bin:/usr/bin:/bin"
_CALLS = 40  # of each program; `make torture` runs more
_PLAIN = ("p", "q.json", "empty.txt", "d", "d/f", "missing", "only", ".rc")
_SUFFIXES = ("-S .x", "--suffix=.x", "-dS .x", "-S .json", "--suf .x")
_CALLED = {
    "gzip|gunzip|zcat|uncompress": (
        "-d -c -k -f -r -n -N -dN -t -l -9 -v --decompress --stdout --name --test --dec --keep",
        (".gz", ".z", ".Z", "-z", "-gz", "_z", ".tgz", ".taz", ".x", ".GZ"),
        _SUFFIXES,
    ),
    "bzip2|bunzip2|bzcat": (
        "-d -z -c -k -f -t -9 -v --decompress --stdout --test --keep -td -tz -ct",
        (".bz2", ".bz", ".tbz", ".tbz2", ".x"),
        (),
    ),
    "xz|unxz|xzcat|lzma|unlzma|lzcat": (
        "-d -z -c -k -f -t -l -0 -v --decompress --stdout --test -td -tz -lz --files=names --files",
        (".xz", ".lzma", ".txz", ".tlz", ".x", ".lz"),
        (*_SUFFIXES, "-F lzma", "-Flzma", "-T 1", "-F auto"),
    ),
    "zstd|unzstd|zstdcat|zstdmt": (
        "-d -z -c -k -f -t -l -1 -q -r --rm --decompress --test -td -tz -lz --filelist=names "
        "--format=gzip --format=xz --no-progress",
        (".zst", ".tzst", ".gz", ".xz", ".x"),
        ("-o out", "-oout", "--output-dir-flat=d", "--output-dir-flat e", "--trace log", "-D p"),
    ),
    "lz4|unlz4|lz4cat|lz4c": (
        "-d -z -c -k -f -t -m -r -1 --rm -dm -zm --decompress",
        (".lz4", ".x"),
        (),
    ),
    "tar": (
        "c x t r u -c -x -t -r --create --extract --delete -O -k -z -J -v --remove-files --get "
        "xO cz --one-top-level --one-top-level=e",
        (".tar", ".tgz"),
        ("-f t.tar", "-f new.tar", "--file=t.tar", "-C d", "f t.tar", "-T names", "-g snap",
         "--index-file=log -v", "cf new.tar", "xf t.tar", "xfC t.tar d", "rf t.tar",
         "--transform s/p/e/"),
    ),
    "zip": (
        "-r -m -d -u -f -q -j -T -rm -FS -g -o -A -@ -ll -y",
        (".zip",),
        ("-lf log", "-qlf log", "-tt 2020-01-01", "-t 2020-01-01", "-O out.zip", "--out out",
         "-x p q.json @", "-i p @", "-b d", "-n .gz", "-s 64k", "-UN utf8", "-ds 1m"),
    ),
    "unzip": (
        "-l -t -p -c -o -n -j -q -T -z -v -u -f -a -Z -l--l -tq -B",
        (".zip",),
        ("-d d", "-dd", "-d new", "-x p"),
    ),
    "ar": (
        "r rc rcs d x t p q s m xo rb ra -rc -x -t -rcs rcT",
        (".a",),
        ("--output d", "--output=d", "l.a p", "-x l.a", "rb p l.a q.json", "-rcs new.a p"),
    ),
    "cpio": (
        "-i -o -p -t -d -u -v -it -id -idu -od -pd -ivt --extract --create --to-stdout",
        (".cpio",),
        ("-F c.cpio", "-I c.cpio", "-O new.cpio", "--file=new.cpio", "-A -O c.cpio", "-D d",
         "-H newc", "-p d", "-pdl e"),
    ),
    "7zz": (
        "a u d x e t l -y -sdel -so -spf -tzip -ssc -r -bd",
        (".zip", ".7z"),
        ("-od", "-o./new", "a new", "a new.7z", "x z.zip", "-y x", "-y e", "-sdel a new.zip",
         "u z.zip -u- -up1q1r2x1y2z1w2!other.zip", "-v1k", "-wd"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("archives") / "workspace"
    (root / "d").mkdir(parents=True)
    for name in ("p", "q.json", "d/f", ".rc"):
        (root / name).write_text(f"text of {name}\n" * 9)
    (root / "empty.txt").write_text("")
    (root / "names").write_text("q.json\nz.xz\nz.zst\n")
    with (
        (root / "z.gz").open("wb") as target,
        gzip.GzipFile("original", "wb", fileobj=target) as packed,
    ):
        packed.write(b"with its name\n")
    packings = {
        (root / "z.gz").read_bytes(): _CALLED["gzip|gunzip|zcat|uncompress"][1],
        bz2.compress(b"bz2\n"): (".bz2", ".bz", ".tbz", ".tbz2"),
        lzma.compress(b"xz\n"): (".xz", ".txz", ".odd"),
        lzma.compress(b"lzma\n", lzma.FORMAT_ALONE): (".lzma", ".tlz"),
    }
    for content, endings in packings.items():
        for ending in endings:
            (root / f"z{ending}").write_bytes(content)
            (root / f"d/z{ending}").write_bytes(content)
    shutil.copy(root / "z.gz", root / "only.gz")
    with tarfile.open(root / "t.tar", "w") as tar:
        tar.add(root / "p", "p")
        tar.add(root / "p", "new/p")
    with zipfile.ZipFile(root / "z.zip", "w") as archive:
        archive.writestr("p", "other")
        archive.writestr("new/p", "other")
    for line in ("zstd -q p -o z.zst", "lz4 -q p z.lz4", "ar rc l.a p q.json",
                 "cpio -o --quiet -F c.cpio"):  # fmt: skip
        if shutil.which(line.split()[0], path=_PATH):
            subprocess.run(
                line.split(), cwd=root, input=b"p\nd/f\n", check=True, env={"PATH": _PATH},
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
    return root


def _calls(family: str, seed: int) -> Iterator[list[str]]:
    """Random calls of the programs of a family; options and operands in any order."""
    flags, endings, valued = _CALLED[family]
    draw = random.Random(f"{family} {seed}")
    operands = (*_PLAIN, *(f"z{ending}" for ending in endings), "t.tar", "l.a", "c.cpio")
    options = (*flags.split(), *valued)
    while True:
        words = [draw.choice(family.split("|"))]
        parts = [draw.choice(options).split() for _ in range(draw.randint(0, 3))]
        near = [name for name in operands if name.startswith("z")] * 3 + list(operands)
        parts += [[draw.choice(near)] for _ in range(draw.randint(1, 3))]
        if draw.random() < 0.3:
            draw.shuffle(parts)
        yield [*words, *(word for part in parts for word in part)]


def _unnamed(words: list[str], template: Path, folder: Path) -> list[str]:
    root = folder / "workspace"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(template, root, symlinks=True)
    before = tree_state(root)
    environment = {"PATH": _PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        words, cwd=root, input=b"p\nz.xz\n", capture_output=True, timeout=20, env=environment
    )
    after = tree_state(root)
    found = describe(words, StdinSource())
    missed = unnamed_changes(found, root, before, after)
    if before != after and found.effect not in ("writes", "runs"):
        missed.append(f"effect: {found.effect}")
    return [f"{' '.join(words)}: {name} {done.stderr[-80:]!r}" for name in missed]


def _check(family: str, template: Path, tmp_path: Path, seed: int, count: int) -> None:
    installed = [one for one in family.split("|") if shutil.which(one, path=_PATH)]
    if not installed:
        pytest.skip(f"{family.partition('|')[0]} is not installed")
    calls = (words for words in _calls(family, seed) if words[0] in installed)
    missed = [
        line
        for words, _ in zip(calls, range(count), strict=False)
        for line in _unnamed(words, template, tmp_path)
    ]
    assert missed == []


@pytest.mark.parametrize("family", _CALLED, ids=lambda family: family.partition("|")[0])
def test_every_file_that_an_archive_program_changes_is_named(
    family: str, template: Path, tmp_path: Path
) -> None:
    _check(family, template, tmp_path, 0, _CALLS)


@pytest.mark.torture
@pytest.mark.parametrize("family", _CALLED, ids=lambda family: family.partition("|")[0])
def test_every_file_that_thousands_of_archive_calls_change_is_named(
    family: str, template: Path, tmp_path: Path
) -> None:
    _check(family, template, tmp_path, random.randrange(10**6), 2_000)
