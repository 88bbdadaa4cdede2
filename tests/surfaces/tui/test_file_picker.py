"""`@` and a few letters find a file; files that git ignores are not listed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.surfaces.tui.desk import desk
from tillerman.surfaces.tui.prompt.file_picker import FilePicker, best, reference, written


def _tree(folder: Path, *paths: str) -> Path:
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
    return folder


async def _found(picker: FilePicker, query: str) -> list[str]:
    while True:
        paths = await picker.find(query)
        if not picker.searching:
            return list(await picker.find(query) or ())
        assert paths is not None
        await picker.more()


async def test_files_git_ignores_are_not_offered(tmp_path: Path) -> None:
    _tree(tmp_path, "src/app.py", "build/app.o", "docs/app.log", ".git/app")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    assert await _found(FilePicker(tmp_path), "app") == ["src/app.py"]


async def test_a_folder_is_offered_too(tmp_path: Path) -> None:
    _tree(tmp_path, "source/one.py")
    assert await _found(FilePicker(tmp_path), "sour") == ["source/", "source/one.py"]


async def test_a_name_that_would_move_the_cursor_is_left_out(tmp_path: Path) -> None:
    _tree(tmp_path, "good.txt", "bad\x1b[2J.txt", "bad\nname.txt", "bad\u202egpj.txt")
    (tmp_path / b"bad\xff.txt".decode(errors="surrogateescape")).touch()
    assert await _found(FilePicker(tmp_path), "") == ["good.txt"]


async def test_a_new_file_is_found_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tree(tmp_path, "old.py")
    picker = FilePicker(tmp_path)
    assert await _found(picker, "py") == ["old.py"]
    _tree(tmp_path, "new.py")
    assert await _found(picker, "py") == ["old.py"]
    monkeypatch.setattr("tillerman.surfaces.tui.prompt.file_picker.FRESH", 0.0)
    async with asyncio.timeout(10):
        while await picker.find("py") != ["new.py", "old.py"]:
            await picker.more()


async def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert await _found(FilePicker(tmp_path / "gone"), "a") == []


def _ranked(query: str, *paths: str) -> list[str]:
    compared = [(path.lower(), path.lower().rstrip("/").rfind("/") + 1) for path in paths]
    return list(best(paths, compared, query) or ())


def test_a_file_name_ranks_above_the_folders() -> None:
    assert _ranked("app", "app/deep/other.py", "src/app.py")[0] == "src/app.py"


def test_the_whole_name_comes_first() -> None:
    paths = ("src/application.py", "src/app.py", "src/my_app.py")
    assert _ranked("app.py", *paths)[:2] == ["src/app.py", "src/my_app.py"]


def test_letters_may_be_left_out() -> None:
    paths = (
        "src/tillerman/surfaces/tui/prompt/file_picker.py",
        "README.md",
        "src/tillerman/paths.py",
    )
    assert _ranked("tuipick", *paths) == ["src/tillerman/surfaces/tui/prompt/file_picker.py"]
    assert _ranked("zzz", *paths) == []


def test_fifty_thousand_files_are_searched_off_the_loop_and_can_be_cancelled() -> None:
    paths = [f"package{n % 50}/module{n % 700}/file_{n}.py" for n in range(50_000)]
    compared = [(path, path.rfind("/") + 1) for path in paths]
    began = time.monotonic()
    assert best(paths, compared, "file_499")
    assert time.monotonic() - began < 2  # some 0.1 s; the machine may have other work
    assert best(paths, compared, "file", lambda: True) is None


@pytest.mark.parametrize(
    ("before", "query"),
    [
        ("@", ""),
        ("see @src/a", "src/a"),
        ("(@x", "x"),
        ('see @"with blank', "with blank"),
    ],
)
def test_a_reference_is_seen_at_the_cursor(before: str, query: str) -> None:
    found = reference(before)
    assert found is not None
    assert found.query == query
    assert before[found.start] == "@"


@pytest.mark.parametrize("before", ["", "me@example.org", "@done ", "@@", 'see @"done"'])
def test_other_text_is_no_reference(before: str) -> None:
    assert reference(before) is None


def test_a_path_with_blanks_is_written_in_quotes() -> None:
    assert written("a.py") == "@a.py"
    assert written("a b.py") == '@"a b.py"'


async def test_a_file_name_is_completed_after_an_at_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = _tree(tmp_path / "project", "src/app.py", "docs/my guide.md", "README.md")
    async with desk(tmp_path / "home", project, monkeypatch) as at:
        await at.write("look at @ap")
        await at.sees("src/app.py")
        await at.press("enter")
        assert at.box.text == "look at @src/app.py "
        await at.write("and @guide")
        await at.sees("docs/my guide.md")
        await at.press("tab")
        assert at.box.text == 'look at @src/app.py and @"docs/my guide.md" '
        assert not at.box.completions.open


async def test_the_tab_key_continues_inside_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = _tree(tmp_path / "project", "source/one.py", "source/two.py", "other.py")
    async with desk(tmp_path / "home", project, monkeypatch) as at:
        await at.write("@sour")
        await at.until(lambda: len(at.box.completions.choices) == 3)
        await at.press("tab")
        assert at.box.text == "@source/"
        await at.write("tw")
        await at.until(
            lambda: [one.word for one in at.box.completions.choices][:1] == ["source/two.py"]
        )
        await at.press("enter")
        assert at.box.text == "@source/two.py "


async def test_escape_closes_the_list_and_leaves_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = _tree(tmp_path / "project", "src/app.py")
    async with desk(tmp_path / "home", project, monkeypatch) as at:
        await at.write("@a")
        await at.until(lambda: at.box.completions.current)
        await at.press("escape")
        await at.write("pp")
        assert at.box.text == "@app"
        assert not at.box.completions.open
