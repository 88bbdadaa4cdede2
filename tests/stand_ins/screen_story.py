"""A story for any agent on a real terminal: prompt, stream, permission, diff, cancel, resume."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tillerman.surfaces.tui.dialogs.request_prompt import GRACE
from tillerman.testing.terminal import Tmux

OLD, NEW = 'name = "world"\n', 'name = "moon"\n'
FILE = "greet.py"


def report(
    folder: Path,
    project: Path,
    agent: str,
    environment: Mapping[str, str],
    prompts: tuple[str, str, str],
) -> None:
    """The agent answers the first prompt with text, a write of NEW to FILE, and `All is written.`;
    the second with a long command; the third with `You are back.`"""
    (project / FILE).write_text(OLD)
    first, second, third = prompts
    words = [sys.executable, "-m", "tillerman"]
    with Tmux(folder) as terminal:
        terminal.run([*words, "tui", "-a", agent, "--approve", "ask"], environment, project)
        terminal.until("What should I work on?")
        terminal.until("works in")
        terminal.type(first)
        terminal.press("Enter")
        terminal.until("Here it comes.")
        asked = terminal.until("[y] allow")
        time.sleep(GRACE)
        assert "moon" in asked
        assert (project / FILE).read_text() == OLD
        terminal.press("y")
        done = terminal.until("completed")
        assert "All is written." in done
        assert re.search(r'- name = "world"', done), done
        assert re.search(r'\+ name = "moon"', done), done
        assert (project / FILE).read_text() == NEW
        terminal.type(second)
        terminal.press("Enter")
        terminal.until("[y] allow")
        time.sleep(GRACE)
        terminal.press("y")
        terminal.until(lambda screen: "[y] allow" not in screen and "working" in screen)
        terminal.press("Escape")
        terminal.until("⊘ cancelled ·")
        terminal.press("C-q")
        assert terminal.ended() == 0
    with Tmux(folder) as terminal:
        terminal.run([*words, "tui", "last"], environment, project)
        terminal.until("cancelled")
        terminal.type(third)
        terminal.press("Enter")
        back = "You are back."
        terminal.until(lambda screen: "starting" in screen or back in screen)  # as it is quick
        # Gemini is not resumed within a minute of its file.
        terminal.until(lambda screen: "completed" in screen.partition(back)[2], seconds=90)
        terminal.resize(80, 24)
        terminal.until("You are back.")
        terminal.press("C-q")
        assert terminal.ended() == 0
