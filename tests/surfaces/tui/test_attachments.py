"""Files and images attached to a prompt."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from textual import events

from tests.surfaces.tui.desk import Desk, desk
from tillerman.surfaces.tui.prompt.attachments import clipboard_image, dropped

PROGRAM = Path(__file__).parents[2] / "agents/acp/acp_program.py"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "a picture.png"
    path.write_bytes(PNG)
    return path


def _notes(at: Desk) -> list[str]:
    return [notification.message for notification in at.app._notifications]


def _paste(at: Desk, text: str) -> None:
    at.app.post_message(events.Paste(text))


@pytest.mark.parametrize("how", ["plain", "quoted", "escaped", "url", "padded"])
def test_a_dropped_file_is_recognized_however_the_terminal_writes_it(image: Path, how: str) -> None:
    pasted = {
        "plain": str(image),
        "quoted": f"'{image}'",
        "escaped": str(image).replace(" ", "\\ "),
        "url": image.as_uri(),
        "padded": f" {image} \n",
    }[how]
    assert dropped(pasted) == [image]


def test_several_files_are_recognized(image: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.txt"
    other.touch()
    assert dropped(f"{image}\n{other}") == [image, other]
    assert dropped(f"'{image}' {other}") == [image, other]


def test_other_text_is_no_file(image: Path, tmp_path: Path) -> None:
    for text in ("", "hello", "a picture.png", f"see {image}", str(tmp_path), "/no/such", "it's"):
        assert dropped(text) == []
    assert dropped(f"file://elsewhere{image}") == []


async def test_a_pasted_image_becomes_a_chip_and_goes_with_the_prompt(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [[{"say": "files: {files}"}]]
    async with desk(tmp_path / "home", tmp_path, monkeypatch, script) as at:
        _paste(at, str(image))
        await at.until(lambda: at.box.attachments.files)
        await at.sees("a\u00a0picture.png")
        assert at.box.text == ""
        await at.write("look")
        await at.press("enter")
        await at.rests(1)
        (stored,) = at.pane.transcript.turns[0].attachments
        assert (stored.name, stored.mime) == ("a picture.png", "image/png")
        assert at.box.attachments.files == ()


async def test_enter_waits_for_a_file_that_is_being_read(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        await at.write("look")
        _paste(at, str(image))
        await at.press("enter")
        await at.rests(1)
        assert len(at.pane.transcript.turns[0].attachments) == 1


async def test_backspace_at_the_beginning_takes_the_last_one_away(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        _paste(at, str(image))
        await at.until(lambda: at.box.attachments.files)
        await at.write("x")
        await at.press("backspace")
        assert len(at.box.attachments.files) == 1
        await at.press("backspace")
        assert at.box.attachments.files == ()
        await at.until(lambda: "picture" not in at.seen())


async def test_a_shell_line_leaves_the_attachments_for_the_prompt(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        _paste(at, str(image))
        await at.until(lambda: at.box.attachments.files)
        await at.write("!true")
        await at.press("enter")
        await at.sees("exit code 0")
        assert len(at.box.attachments.files) == 1


async def test_a_click_takes_one_away(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        _paste(at, str(image))
        await at.sees("picture.png")
        await at.pilot.click(at.box.attachments, offset=(4, 0))
        await at.until(lambda: not at.box.attachments.files)


async def test_a_file_that_is_too_large_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        os.truncate(file.fileno(), (32 << 20) + 1)
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        _paste(at, str(large))
        await at.sees("larger than 32 MB")
        assert at.box.attachments.files == ()


async def test_a_long_paste_goes_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        _paste(at, "line\n" * 10_000)
        await at.until(lambda: at.box.attachments.files)
        (file,) = at.box.attachments.files
        assert (file.name, file.mime, len(file.data)) == ("pasted-1.txt", "text/plain", 50_000)


async def test_a_pasted_escape_sequence_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        _paste(at, "a\x1b]0;title\x07b\r\nc")
        await at.until(lambda: at.box.text)
        assert at.box.text == "ab\nc"


async def test_attachments_the_agent_cannot_read_are_reported_and_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"\xff\xfe\0")
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = {"agent": f"acp:{sys.executable} {PROGRAM} --acp", "options": {}}
    async with desk(tmp_path / "home", tmp_path, monkeypatch, **agent, accept_advisory=True) as at:
        await at.write("look")
        _paste(at, str(data))
        await at.until(lambda: at.box.attachments.files)
        await at.press("enter")
        await at.sees("(data.bin)")
        await at.until(lambda: at.box.text == "look")
        assert len(at.box.attachments.files) == 1


# -- the clipboard ---------------------------------------------------------------------------------


def _program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def desktop(tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A desktop with an image on its clipboard."""
    bin = tmp_path / "bin"
    _program(
        bin,
        "wl-paste",
        f'case "$1" in --list-types) echo text/html; echo image/png;; *) cat "{image}";; esac',
    )
    monkeypatch.setenv("PATH", f"{bin}:/usr/bin:/bin")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    return bin


async def test_an_image_is_taken_from_the_clipboard(desktop: Path, tmp_path: Path) -> None:
    found = await clipboard_image(tmp_path)
    assert found is not None
    assert (found.mime, found.data) == ("image/png", PNG)


async def test_text_on_the_clipboard_is_no_image(desktop: Path, tmp_path: Path) -> None:
    _program(desktop, "wl-paste", "echo text/plain")
    assert await clipboard_image(tmp_path) is None


async def test_without_a_desktop_no_clipboard_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert await clipboard_image(tmp_path) is None


async def test_control_v_attaches_the_image(
    tmp_path: Path, desktop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        await at.press("ctrl+v")
        await at.until(lambda: at.box.attachments.files)
        assert at.box.attachments.files[0].name == "clipboard.png"


async def test_enter_with_an_attachment_alone_reports_that_the_text_is_missing(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch, [[{"say": "x"}]]) as at:
        _paste(at, str(image))
        await at.until(lambda: at.box.attachments.files)
        await at.press("enter")
        await at.until(lambda: "write what to do with the attachment" in _notes(at))
        assert at.box.attachments.files
        assert not at.pane.transcript.turns


async def test_ctrl_c_without_a_selection_shows_how_to_quit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch, [[{"say": "x"}]]) as at:
        await at.press("ctrl+c")
        await at.until(lambda: "ctrl+q quits, escape cancels a turn" in _notes(at))
