"""Workspaces with protected names, their content, and what programs of `writer_program` did."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.sessions.writer_program import FILES, FOLDERS, SETTINGS, SILENT

GOOD, EVIL = "[core]\n\tpager = as the user wrote it\n", "[core] hooksPath = evil"
ONCE = ("git_template",)  # its name is never used again: gone at once, it is never seen
NEAR = 4  # lines of the log: four programs write at the same time
PRESENCE = ("present", "absent", "tracked")
PROGRAM = Path(__file__).with_name("writer_program.py")


def writer_command(seed: object, count: int, seconds: float, log: Path) -> str:
    """A shell line that runs `count` writers, and a daemon for some `seconds`."""
    words = (sys.executable, PROGRAM, seed, count, seconds, log)
    return shlex.join(map(str, words))


class WriterLog:
    """What writers logged."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[dict[str, object]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    @property
    def ended(self) -> list[object]:
        return sorted(str(line["end"]) for line in self.lines if "end" in line)

    @property
    def writes(self) -> list[dict[str, object]]:
        return [line for line in self.lines if "way" in line]

    def unreported(self, texts: Iterable[str]) -> list[dict[str, object]]:
        """Writes that succeeded without a report about their path."""
        reported = {text.split(" was ", 1)[0].split(": removed", 1)[0] for text in texts}
        writes = self.writes
        return [
            line
            for at, line in enumerate(writes)
            if line["ok"] and line["way"] not in SILENT and not _is_among(line["path"], reported)
            if not (line["way"] in ONCE and _hooks_moved(writes[max(0, at - NEAR) : at + NEAR + 1]))
        ]


def _hooks_moved(writes: Iterable[dict[str, object]]) -> bool:
    """Whether another writer moved the folder away, with its new files, before it was checked."""
    return any(one["ok"] and one["way"] in ("git_hooks_moved", "git_moved") for one in writes)


def _is_among(path: object, reported: set[str]) -> bool:
    return any(f"{path}/".startswith(f"{one}/") or one.startswith(f"{path}/") for one in reported)


def prepare(root: Path, rng: random.Random) -> None:
    """Creates a repository with some of the names, some tracked and some not."""
    root.mkdir(parents=True, exist_ok=True)
    _git(root, "init", "-q")
    tracked = ["main.py", "pkg/app/main.py"]
    for name in tracked:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("pass\n")
    for name in (*FILES, *FOLDERS):
        presence = rng.choice(PRESENCE)
        path = root / name if name in FILES else root / name / SETTINGS
        if presence != "absent":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(GOOD)
        if presence == "tracked":
            tracked.append(str(path.relative_to(root)))
    _git(root, "add", "-f", *tracked)
    _git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
    _git(root, "branch", "-M", "main")


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True)


def protected(root: Path) -> dict[str, tuple[int, bytes]]:
    """The content of every protected name, with its mode; of the git config, what git would run."""
    from tillerman.core.permission.protected_names import is_protected, plain

    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        inner = "/".join(parts)
        if parts[0] == ".git" and (len(parts) < 3 or parts[1] != "hooks"):
            continue
        if parts[0].startswith(("gone", "draft")):
            continue  # of the writer's own, with what it moved there: reported, and left
        if not is_protected([plain(part) for part in parts]) or path.name.endswith(".sample"):
            continue
        with suppress(FileNotFoundError):  # just taken away
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[inner] = (status.st_mode, content)
    done = subprocess.run(
        ["git", "config", "--local", "--list"], cwd=root, capture_output=True, check=False
    )
    ordinary = (b"core.repositoryformat", b"core.filemode", b"core.bare", b"core.logall")
    lines = [line for line in done.stdout.splitlines() if not line.startswith(ordinary)]
    # a writer's broken file counts as changed until it is restored
    found[".git/config"] = (done.returncode, b"\n".join(lines))
    return found
