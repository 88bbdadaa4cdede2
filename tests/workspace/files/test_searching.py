"""Files are found by text, name and expression, and no pattern can block the search."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from tests.workspace.repositories import Git
from tillerman.workspace.files import searching
from tillerman.workspace.files.access import walk
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.files.searching import FileMatch, FileMatches


def search(root: Path, pattern: str, **how: object) -> FileMatches:
    with ConfinedRoot(root) as confined:
        return searching.search_files(confined, pattern, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["text", "regex"])
def test_lines_are_found_with_their_context(repository: Path, kind: str) -> None:
    found = search(repository, "gamma", kind=kind, context=1)
    assert found.matches == (FileMatch("lib/b.py", 3, "gamma", ("beta",), ("delta",)),)
    assert found.files == 3
    assert search(repository, "alpha", kind=kind, context=9).matches[0].before == ()
    assert search(repository, "nothing", kind=kind).matches == ()
    assert search(repository, "e", path="a.py", kind=kind).files == 1


@pytest.mark.parametrize("kind", ["text", "regex"])
def test_skipped_files_are_reported(repository: Path, kind: str) -> None:
    (repository / "binary").write_bytes(b"one\0")
    (repository / "big").write_bytes(b"one\n" * (2 << 20))
    (repository / "x.log").write_text("one")
    (repository / "link").symlink_to("/etc/passwd")
    found = search(repository, "one", kind=kind)
    assert [match.path for match in found.matches] == ["a.py"]
    message = " ".join(found.notes)
    assert (
        "1 left out: binary" in message and "larger than 4 MiB" in message and "ignored" in message
    )


@pytest.mark.parametrize("kind", ["text", "regex"])
def test_the_number_of_results_is_limited(root: Path, kind: str) -> None:
    (root / "a").write_text("one\n" * 500)
    (root / "b").write_text("one\n" * 500)
    found = search(root, "one", kind=kind, limit=7)
    assert len(found.matches) == 7 and "more than 7" in found.notes[0]
    assert len(search(root, "one", kind=kind, limit=1000).matches) == 1000
    assert search(root, "one", kind=kind, limit=1000).notes == ()


def test_long_lines_are_cut(root: Path) -> None:
    (root / "a").write_text("x" * 1_000_000 + "one" + "\n")
    assert len(search(root, "one").matches[0].text) == 501


def test_a_regex_has_python_syntax(root: Path) -> None:
    (root / "a").write_bytes("def f(x):\r\n    return ünî\r\n".encode())
    found = search(root, r"^def (\w+)\(.*\):$", kind="regex")
    assert found.matches[0].text == "def f(x):"
    assert search(root, r"\bünî$", kind="regex").matches[0].line == 2
    with pytest.raises(Refused, match="unterminated"):
        search(root, "(a", kind="regex")


def test_a_hostile_regex_is_stopped(root: Path) -> None:
    (root / "a").write_text("first\n")
    (root / "b").write_text("a" * 200 + "!\n")
    found = search(root, r"first|^(a|aa)+$", kind="regex", seconds=1.0)
    assert [match.path for match in found.matches] == ["a"]
    assert "stopped after 1 s at b" in found.notes[-1]


def test_names_are_found_by_part_or_glob(repository: Path) -> None:
    assert [m.path for m in search(repository, "LIB/", kind="name").matches] == ["lib/b.py"]
    assert [m.path for m in search(repository, "*.PY", kind="name").matches] == ["a.py", "lib/b.py"]
    assert [m.path for m in search(repository, "[ab].p?", kind="name").matches] != []


def test_names_are_found_by_a_glob_of_the_path(repository: Path) -> None:
    (repository / "lib/deep").mkdir()
    (repository / "lib/deep/c.PY").touch()
    for pattern, found in (
        ("**/*.py", ["a.py", "lib/b.py", "lib/deep/c.PY"]),
        ("lib/**/*.py", ["lib/b.py", "lib/deep/c.PY"]),
        ("lib/*.py", ["lib/b.py"]),
        ("./lib/*", ["lib/b.py", "lib/deep"]),
        ("*/deep/**", ["lib/deep/c.PY"]),
        ("deep/*.py", []),
    ):
        assert [m.path for m in search(repository, pattern, kind="name").matches] == found, pattern
    below = search(repository, "deep/*.py", path="lib", kind="name")
    assert [m.path for m in below.matches] == ["lib/deep/c.PY"]


def test_any_glob_of_a_path_is_read_as_git_reads_it(repository: Path, git: Git) -> None:
    chance = random.Random(4)
    paths = {"/".join(chance.choices("abAB", k=chance.randint(1, 4))) for _ in range(60)}
    for path in sorted(paths):
        with contextlib.suppress(OSError):
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).touch()
    found = 0
    for _ in range(150):
        words = chance.choices(
            ("*", "**", "a", "B", "[ab]", "?", "a*", "*b*"), k=chance.randint(2, 4)
        )
        pattern = "/".join(words)
        if not set("*?[") & set(pattern):
            continue
        reported = git("ls-files", "-z", "--cached", "--others", f":(glob,icase){pattern}")
        wanted = sorted({one for one in reported.split("\0") if one})
        matches = search(repository, pattern, kind="name", limit=1000).matches
        ours = sorted(m.path for m in matches if (repository / m.path).is_file())
        assert ours == wanted, pattern
        found += len(ours)
    assert found > 40


def test_all_that_a_crowded_folder_leaves_out_is_counted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "CROWDED", 10)
    for number in range(97):
        (root / f"{number:03}").touch()
    found = search(root, "0", kind="name", limit=1000)
    assert found.notes == ("87 left out: in a folder with too many entries",) and found.files == 10


@pytest.mark.parametrize(
    "how",
    [
        {"pattern": ""}, {"pattern": "a\nb"}, {"pattern": "x" * 2000}, {"pattern": "\ud800"},
        {"pattern": "a\0", "kind": "regex"}, {"pattern": "a", "kind": "other"},
        {"pattern": "a", "limit": 0}, {"pattern": "a", "context": 99},
        {"pattern": "a", "path": "../"}, {"pattern": "a", "path": "gone"},
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused(root: Path, how: dict[str, object]) -> None:
    with pytest.raises(Refused):
        search(root, **how)  # type: ignore[arg-type]
