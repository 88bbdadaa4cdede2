"""`!cmd`: a shell command of the user, beside the agent."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from tests.surfaces.tui.desk import desk
from tillerman.surfaces.tui.prompt.shell_command import MOST, ShellLine


async def _run(command: str, folder: Path) -> ShellLine:
    line = ShellLine(command, folder, lambda: None)
    await line.run(folder / "spawns")
    return line


async def test_a_line_runs_in_the_folder_and_reports_how_it_ended(tmp_path: Path) -> None:
    line = await _run("pwd; echo wrong >&2; exit 3", tmp_path)
    assert line.output == f"{tmp_path}\nwrong\n"
    assert line.how.startswith("exit code 3 · ")


async def test_other_lines_are_not_shell_lines(tmp_path: Path) -> None:
    line = await _run("if", tmp_path)
    assert line.exit is not None
    assert not line.exit.clean
    assert "syntax" in line.output.lower()


async def test_processes_it_leaves_running_end_with_it(tmp_path: Path) -> None:
    line = await _run("sleep 1000 & echo $!", tmp_path)
    await _gone(int(line.output))


async def test_a_cancelled_line_ends_with_all_that_it_started(tmp_path: Path) -> None:
    reported = asyncio.Event()
    line = ShellLine("sh -c 'echo $$; sleep 1000'; true", tmp_path, reported.set)
    running = asyncio.create_task(line.run(tmp_path / "spawns"))
    async with asyncio.timeout(10):
        await reported.wait()
        line.cancel()
        await running
    assert line.how.startswith("cancelled")
    await _gone(int(line.output))


async def _gone(pid: int) -> None:
    async with asyncio.timeout(10):
        with suppress(ProcessLookupError):
            while Path(f"/proc/{pid}").exists():
                os.kill(pid, 0)
                await asyncio.sleep(0.01)


async def test_the_end_of_a_flood_is_kept(tmp_path: Path) -> None:
    line = await _run("seq 1 400000; echo the end", tmp_path)
    assert line.output.endswith("400000\nthe end\n")
    assert len(line.output) < 2 * MOST
    assert line.left_out > 0
    assert "end of its output" in line.handed_over()


async def test_a_repeatedly_overwritten_line_is_sent_once(tmp_path: Path) -> None:
    line = await _run(r"printf '10%%\r100%%\n\033[31mred\033[0m\n'", tmp_path)
    assert "```\n100%\nred\n```" in line.handed_over()


async def test_a_fence_in_the_output_does_not_end_it(tmp_path: Path) -> None:
    line = await _run("echo '```'", tmp_path)
    assert "````\n```\n````" in line.handed_over()


async def test_a_shell_line_is_shown_with_its_output_and_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        await at.write("!echo hi; exit 3")
        assert at.box.has_class("-shell")
        await at.press("enter")
        await at.sees("exit code 3")
        assert "$ echo hi; exit 3" in at.seen()
        assert at.pane.transcript.turns == []
        await at.write("!!")
        await at.press("enter")
        await at.rests(1)
        prompt = at.pane.transcript.turns[0].prompt or ""
        assert "echo hi; exit 3" in prompt
        assert "exit code 3" in prompt


async def test_a_long_output_is_folded_and_can_be_unfolded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch, size=(80, 60)) as at:
        await at.write("!seq 1 40")
        await at.press("enter")
        await at.sees("exit code 0")
        assert "… 25 earlier lines" in at.seen()
        at.pane.conversation.focus()
        await at.press("up", "enter")
        await at.until(lambda: "lines before" not in at.seen())
        assert " 7 " in at.seen()


async def test_two_marks_send_the_output_to_the_agent_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        await at.write("!!echo one")
        await at.press("enter")
        await at.rests(1)
        assert "```\none\n```" in (at.pane.transcript.turns[0].prompt or "")


async def test_escape_ends_the_shell_line_before_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch, [[{"hang": True}]]) as at:
        await at.write("work")
        await at.press("enter")
        await at.until(lambda: at.pane.transcript.busy)
        await at.write("!sleep 1000")
        await at.press("enter")
        await at.sees("esc to stop")
        await at.press("escape")
        await at.sees("cancelled ·")
        assert at.pane.transcript.busy
        await at.press("escape")
        await at.rests(1)


async def test_escape_sequences_of_a_program_are_shown_and_not_interpreted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch) as at:
        at.box.text = r"!printf '\033]0;title\007'"
        await at.press("enter")
        await at.sees("exit code 0")
        assert "\x1b" not in at.seen()
