"""Programs that change a protected name in one of many ways, made at random."""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GOOD, EVIL = "[core]\n\tpager = as the user wrote it\n", "[core] hooksPath = evil"
FILES = (".mcp.json", ".env", ".envrc", "lefthook.yml", ".gitlab-ci.yml", ".aider.conf.yml")
FOLDERS = (".claude", ".vscode", ".husky", ".github/workflows", ".codex")
PRESENCE = ("present", "absent", "tracked")

_PYTHON = shlex.quote(sys.executable)
_OPEN = "import sys; open(sys.argv[1], 'w').write('evil')"
_MMAP = """
import mmap, os, sys
number = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(number, 64)
mmap.mmap(number, 64)[:4] = b"evil"
"""
_LINKAT = """
import os, sys
folder = os.path.dirname(sys.argv[1]) or "."
number = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o644)
os.write(number, b"evil")
if os.path.lexists(sys.argv[1]): os.unlink(sys.argv[1])
os.link(f"/proc/self/fd/{number}", sys.argv[1], follow_symlinks=True)
"""
_HELD = """
import os, sys, time
number = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
for _ in range(3):
    time.sleep(0.05)
    os.pwrite(number, b"evil", 0)
"""
_WAYS = {
    "redirect": "mkdir -p {folder}; echo {evil} > {file}",
    "append": "mkdir -p {folder}; echo {evil} >> {file}",
    "python": 'mkdir -p {folder}; {python} -c \'import sys; open(sys.argv[1], "w").write("evil")\''
    " {file}",
    "rename": "mkdir -p {folder}; echo {evil} > x; mv -f x {file}",
    "copy": "mkdir -p {folder}; echo {evil} > x; cp x {file}",
    "hard link": "mkdir -p {folder}; echo {evil} > x; ln -f x {file}",
    "symbolic link": "rm -rf {name}; echo {evil} > x; ln -s x {name}",
    "move away": "mv {name} gone; mkdir -p {folder}; echo {evil} > {file}",
    "remove": "rm -rf {name}",
    "mode": "chmod 777 {file}",
    "memory map": "mkdir -p {folder}; {python} -c {mmap} {file}",
    "unnamed file": "mkdir -p {folder}; {python} -c {linkat} {file}",
    "open file": "mkdir -p {folder}; {python} -c {held} {file}",
    "other case": "mkdir -p $(dirname {upper}); echo {evil} > {upper}",
    "in background": "mkdir -p {folder}; (sleep 0.3; echo {evil} > {file}) > /dev/null 2>&1 &",
    "detached": (
        "mkdir -p {folder}; setsid sh -c 'sleep 0.3; echo evil > '{file} > /dev/null 2>&1 &"
    ),
    "pipe": "rm -rf {name}; mkfifo {name}",
}
_OF_GIT = {
    "hook": "echo evil > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    "hooks moved": "mv .git/hooks .git/h; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
    "git moved": "mv .git .git2; mkdir -p .git/hooks; echo evil > .git/hooks/x; cp .git2/HEAD .git",
    "hooksPath": "git config core.hooksPath evil",
    "fsmonitor": "git config core.fsmonitor evil",
    "alias": "git config alias.st '!evil'",
    "include": "git config include.path ../evil",
    "filter": "git config filter.x.clean evil",
    "ssh": "printf '[core]\\n\\tsshCommand = evil\\n' >> .git/config",
    "config by rename": "cp .git/config x; echo '[core] editor = evil' >> x; mv x .git/config",
}


@dataclass(frozen=True)
class Writer:
    name: str
    presence: str
    way: str
    script: str

    def __str__(self) -> str:
        return f"{self.name} {self.presence} {self.way}"


def writers(rng: random.Random, count: int) -> list[Writer]:
    found = []
    for _ in range(count):
        if rng.random() < 0.25:
            way = rng.choice(list(_OF_GIT))
            found.append(Writer(".git", "present", way, _OF_GIT[way]))
            continue
        name = rng.choice((*FILES, *FOLDERS))
        way = rng.choice(list(_WAYS))
        file = name if name in FILES else f"{name}/settings.json"
        words = {
            "name": name,
            "file": file,
            "folder": str(Path(file).parent),
            "upper": file.upper().replace("SETTINGS.JSON", "settings.json"),
            "evil": shlex.quote(EVIL),
            "mmap": shlex.quote(_MMAP),
            "linkat": shlex.quote(_LINKAT),
            "held": shlex.quote(_HELD),
            "python": _PYTHON,
            "open": shlex.quote(_OPEN),
        }
        found.append(Writer(name, "", way, _WAYS[way].format(**words)))
    return found


def prepare(root: Path, rng: random.Random) -> None:
    """A repository with some of the names there, some tracked and some not."""
    root.mkdir(parents=True, exist_ok=True)
    _git(root, "init", "-q")
    (root / "main.py").write_text("pass\n")
    tracked = ["main.py"]
    for name in (*FILES, *FOLDERS):
        presence = rng.choice(PRESENCE)
        path = root / name if name in FILES else root / name / "settings.json"
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
    """What lies at every protected name, with its mode; of the git config, what git would run."""
    from bridle.core.protected_names import is_protected, plain

    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        inner = "/".join(parts)
        if parts[0] == ".git" and (len(parts) < 3 or parts[1] != "hooks"):
            continue
        if parts[0] == "gone":
            continue  # a folder of the writer's own, into which it moved some: reported, and left
        if not is_protected([plain(part) for part in parts]) or path.name.endswith(".sample"):
            continue
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[inner] = (status.st_mode, content)
    said = subprocess.run(
        ["git", "config", "--local", "--list"], cwd=root, capture_output=True, check=True
    ).stdout
    ordinary = (b"core.repositoryformat", b"core.filemode", b"core.bare", b"core.logall")
    lines = [line for line in said.splitlines() if not line.startswith(ordinary)]
    found[".git/config"] = (0, b"\n".join(lines))
    return found
