"""Draws docs/demo.svg and docs/screens from `tillerman demo` and the terminal interface.

The screens are those of real runs with the embedded agent, in a project of their own.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

WIDTH = 100
LARGE, SMALL = (100, 36), (96, 18)
DOCS = Path(__file__).parent
RECORDED = DOCS.parent / "tests" / "recordings" / "github"
ELSEWHERE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # fonts that would be fetched
MAX_WAIT = 20.0

OLD = """\
import json


def read_lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]
"""
NEW = """\
import json
from collections.abc import Iterator


def read_lines(path: str) -> Iterator[dict]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
"""
EDITS = [
    {"think": "A generator reads one line at a time, and nobody needs the length of the list."},
    {"say": "The parser keeps **every line** in memory. I make `read_lines` a generator.\n"},
    {"edit": "parser.py", "old": OLD, "new": NEW},
    {"say": "Now the tests, and then it can go out.\n"},
    {"run": "git push origin lazy-parser", "reason": "the branch is not published yet"},
]
ASKED = {
    "Why does the cache forget its keys?": "There is a race condition between two writers.",
    "Port the writer, and keep its tests": "All 214 tests pass; the race is gone as well.",
    "Make the command line start faster": "It starts in 90 ms: imports are lazy now.",
    "Which race is worth a lock, and which a queue?": "A queue: readers would wait for a lock.",
    "Write down what a release needs": "Four steps, in docs/release.md.",
}


def demo() -> None:
    with tempfile.TemporaryDirectory() as home:
        shown = subprocess.run(
            [sys.executable, "-m", "tillerman", "--color", "always", "demo"],
            env={"PATH": os.environ["PATH"], "HOME": home, "TILLERMAN_HOME": home},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    turn = shown.split("\n\x1b[1m3. ")[0].rstrip()
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(turn))
    (DOCS / "demo.svg").write_text(ELSEWHERE.sub("", console.export_svg(title="tillerman demo")))


class Sitting:
    """The terminal interface in a project, and somebody who presses keys."""

    def __init__(self, folder: Path, app: Any, pilot: Any) -> None:
        self.folder = folder
        self.app = app
        self.pilot = pilot

    async def plays(self, steps: list[dict[str, Any]], prompt: str) -> None:
        """In a session of its own."""
        (self.folder / "script.json").write_text(json.dumps([steps]))
        self.app.pane.prompt(prompt)
        await self.until(lambda: self.app.pane.transcript.turns)

    async def until(self, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + MAX_WAIT
        while not holds():
            if time.monotonic() > end:
                raise SystemExit(f"the picture never came about:\n{self.seen()}")
            await self.pilot.pause(0.02)

    def seen(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def sees(self, words: str) -> None:
        await self.until(lambda: words in self.seen())

    async def take(self, name: str) -> None:
        await self.pilot.pause(0.2)
        svg = ELSEWHERE.sub("", self.app.export_screenshot(title="tillerman", simplify=True))
        svg = svg.replace(str(self.folder), "/home/ada/models"[: len(str(self.folder))])
        (DOCS / "screens").mkdir(exist_ok=True)
        (DOCS / "screens" / f"{name}.svg").write_text(svg)


@asynccontextmanager
async def sitting(
    size: tuple[int, int], prepare: Callable[[Path], None] | None = None
) -> AsyncIterator[Sitting]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        project = folder / "parser"
        project.mkdir()
        (project / "parser.py").write_text(OLD)
        for variable in ("XDG_CONFIG_HOME", "NO_COLOR"):
            os.environ.pop(variable, None)
        os.environ |= {
            "HOME": name,
            "TILLERMAN_HOME": f"{name}/tillerman",
            "TILLERMAN_MOCK_STATE": name,
        }
        if prepare:
            prepare(folder)
        from tillerman.surfaces.tui.app import TillermanApp

        script = {"script": f"{name}/script.json"}
        requested = {"agent": "mock", "approve": "edits", "options": script}
        app = TillermanApp(project, requested=requested)
        async with app.run_test(size=size) as pilot:
            await app.opened()
            yield Sitting(folder, app, pilot)
            for pane in app.panes:
                pane.cancel()
            await pilot.pause(0.2)
            await pilot.press("ctrl+q")


async def conversation() -> None:
    async with sitting(LARGE) as who:
        await who.plays(EDITS, "Two million lines take 2 GB. Fix that, and publish it.")
        await who.sees("[y] allow")
        await who.take("conversation")


async def sessions() -> None:
    async with sitting(SMALL) as who:
        for prompt, answer in ASKED.items():
            used = {"input_tokens": 4_000 + 97 * len(answer), "output_tokens": 800}
            cost = {"cost_usd": round(len(prompt) * 0.0021, 4)}
            await who.plays([{"say": answer}, {"usage": used | cost}], prompt)
            await who.until(lambda: not who.app.pane.transcript.busy)
            await who.pilot.press("ctrl+w")
            await who.until(lambda: who.app.pane.blank)
        await who.pilot.press("ctrl+l")
        await who.sees("TURNS")
        await who.pilot.press("slash", *"race")
        await who.until(lambda: "Make the command line" not in who.seen())
        await who.take("sessions")
        await who.pilot.press("escape", "escape", "escape")


async def breadcrumb() -> None:
    async with sitting(SMALL, _branch) as who:
        await who.plays([{"say": "Yes: the reviewer agreed, and all checks pass."}], "Is it ready?")
        await who.sees("completed")
        await who.sees("APPROVED")
        await who.pilot.press("f2")
        await who.sees("y  run")
        await who.take("breadcrumb")
        await who.pilot.press("n")


def _branch(folder: Path) -> None:
    """With a pull request, as a `gh` tells that answers what GitHub said once."""

    def git(*words: str, cwd: Path = folder / "parser") -> None:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *who, *words], cwd=cwd, check=True, capture_output=True)

    programs = folder / "bin"
    programs.mkdir()
    gh = programs / "gh"
    gh.write_text(
        f'#!/bin/sh\ncase "$1" in\nrepo) cat {RECORDED}/repo_view.json;;\n'
        f"*) cat {RECORDED}/pr_approved.json;;\nesac\n"
    )
    gh.chmod(0o755)
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    (folder / ".gitconfig").write_text('[protocol "file"]\n\tallow = always\n')
    git("init", "--quiet", "--initial-branch=main")
    git("add", "-A")
    git("commit", "--quiet", "-m", "start")
    git("init", "--quiet", "--bare", "--initial-branch=main", str(folder / "hub.git"))
    git("remote", "add", "origin", str(folder / "hub.git"))
    git("push", "--quiet", "origin", "main")
    git("switch", "--quiet", "-c", "lazy-parser")
    (folder / "parser" / "parser.py").write_text(NEW)
    git("commit", "--quiet", "-am", "Read the log lazily")
    git("push", "--quiet", "--set-upstream", "origin", "lazy-parser")


def main() -> None:
    demo()
    if shutil.which("git"):
        for screen in (conversation, sessions, breadcrumb):
            asyncio.run(screen())


if __name__ == "__main__":
    main()
