"""A program that writes to protected names in many ways at random times, and logs its writes.

    python writer_program.py SEED COUNT SECONDS LOG

It runs in the workspace. After COUNT writes it leaves a daemon that continues for SECONDS. A line
of the log is JSON: the way, the path, and whether every system call succeeded.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FILES = (
    ".mcp.json", ".env", ".env.local", ".envrc", "lefthook.yml", ".gitlab-ci.yml",
    ".aider.conf.yml", ".pre-commit-config.yaml", "pkg/app/.env", "pkg/app/.mcp.json",
)  # fmt: skip
FOLDERS = (
    ".claude", ".vscode", ".husky", ".github/workflows", ".codex", ".gemini", ".idea",
    "pkg/app/.claude",
)  # fmt: skip
SETTINGS = "settings.json"
EVIL = b"[core] hooksPath = evil\n"
_LONGEST = 5  # seconds of one write: the pipe of another writer may have the name
_EXCHANGE = 2
_AT_FDCWD = -100
_libc = ctypes.CDLL(None, use_errno=True)


class Target:
    """One protected name; `file` has the content: the name itself, or a file in it."""

    def __init__(self, name: str, draft: str) -> None:
        self.name = Path(name)
        self.file = self.name / SETTINGS if name in FOLDERS else self.name
        self.draft = Path(draft)  # a free name of no importance

    def prepare(self) -> Path:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        return self.file

    def evil_draft(self) -> Path:
        """Malicious content of the kind that the name may hold."""
        if self.name == self.file:
            self.draft.write_bytes(EVIL)
        else:
            self.draft.mkdir()
            (self.draft / SETTINGS).write_bytes(EVIL)
        return self.draft


def truncate(target: Target) -> None:
    target.prepare().write_bytes(EVIL)


def append(target: Target) -> None:
    with target.prepare().open("ab") as file:
        file.write(EVIL)


def overwrite_and_restore_times(target: Target) -> None:
    status = target.file.stat()
    with target.file.open("r+b") as file:
        file.write(EVIL[: status.st_size])
    os.utime(target.file, ns=(status.st_atime_ns, status.st_mtime_ns))


def shell(target: Target) -> None:
    target.prepare()
    subprocess.run(["sh", "-c", 'echo evil > "$1"', "sh", str(target.file)], check=True)


def rename_over(target: Target) -> None:
    target.draft.write_bytes(EVIL)
    target.draft.rename(target.prepare())


def unlink(target: Target) -> None:
    target.file.unlink()


def remove(target: Target) -> None:
    shutil.rmtree(target.name) if target.name != target.file else target.name.unlink()


def folder_instead(target: Target) -> None:
    if target.file.is_file():
        target.file.unlink()
    target.file.mkdir(parents=True)
    (target.file / "x").write_bytes(EVIL)


def symlink(target: Target) -> None:
    evil = target.evil_draft()
    link = Path(f"{target.draft}-link")
    link.symlink_to(evil.absolute())
    if target.name.is_dir():
        exchange(link, target.name)
    else:
        link.rename(target.name)


def hard_link(target: Target) -> None:
    target.draft.write_bytes(EVIL)
    target.prepare().unlink(missing_ok=True)
    target.file.hardlink_to(target.draft)


def write_second_name(target: Target) -> None:
    target.draft.hardlink_to(target.file)
    target.draft.write_bytes(EVIL)
    if not target.draft.samefile(target.file):
        raise OSError("a file with two names was replaced before the write")


def mode(target: Target) -> None:
    target.file.chmod(0o777)


def times(target: Target) -> None:
    os.utime(target.file, (1, 1))


def memory_map(target: Target) -> None:
    number = os.open(target.prepare(), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.ftruncate(number, 64)
        with mmap.mmap(number, 64) as mapped:
            mapped[:4] = b"evil"
    finally:
        os.close(number)


def unnamed_file(target: Target) -> None:
    target.prepare()
    number = os.open(target.file.parent, os.O_TMPFILE | os.O_RDWR, 0o644)
    try:
        os.write(number, EVIL)
        target.file.unlink(missing_ok=True)
        os.link(f"/proc/self/fd/{number}", target.file, follow_symlinks=True)
    finally:
        os.close(number)


def exchanged(target: Target) -> None:
    exchange(target.evil_draft(), target.name)


def parent_moved(target: Target) -> None:
    """Moves the parent folder of the name, and creates it again with malicious content."""
    if target.file.parent == Path():
        raise OSError("the workspace itself")
    target.file.parent.rename(f"gone-{target.draft}")
    target.prepare().write_bytes(EVIL)


def named_pipe(target: Target) -> None:
    target.prepare().unlink(missing_ok=True)
    os.mkfifo(target.file)


def file_held_open(target: Target) -> None:
    number = os.open(target.prepare(), os.O_RDWR | os.O_CREAT, 0o644)
    if os.fork() == 0:
        try:
            for _ in range(3):
                time.sleep(0.05)
                os.pwrite(number, b"evil", 0)
        finally:
            os._exit(0)
    os.pwrite(number, EVIL, 0)
    os.close(number)


def tar_over(target: Target) -> None:
    there = _copy_elsewhere(target)
    archive = f"{there}.tar"
    run("tar", "-cf", archive, "-C", str(there), ".")
    run("tar", "-xf", archive)


def copy_over(target: Target) -> None:
    run("cp", "-a", f"{_copy_elsewhere(target)}/.", ".")


def rsync_over(target: Target) -> None:
    run("rsync", "-a", f"{_copy_elsewhere(target)}/", "./")


def _copy_elsewhere(target: Target) -> Path:
    there = target.draft
    (there / target.file).parent.mkdir(parents=True)
    (there / target.file).write_bytes(EVIL)
    return there


def exchange(one: Path, other: Path) -> None:
    names = os.fsencode(one), os.fsencode(other)
    if _libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)


WAYS: tuple[Callable[[Target], None], ...] = (
    truncate, append, overwrite_and_restore_times, shell, rename_over, unlink, remove,
    folder_instead, symlink, hard_link, write_second_name, mode, times, memory_map, unnamed_file,
    exchanged, parent_moved, named_pipe, file_held_open, tar_over, copy_over, rsync_over,
)  # fmt: skip
SILENT = frozenset({"times"})  # restored, and not reported

SETTINGS_OF_GIT = (
    ("core.hooksPath", "evil"), ("core.fsmonitor", "evil"), ("alias.st", "!evil"),
    ("include.path", "../evil"), ("filter.x.clean", "evil"), ("core.sshCommand", "evil"),
    ("diff.x.textconv", "evil"), ("credential.helper", "!evil"), ("remote.e.url", "ext::evil"),
    ("core.pager", "evil"), ("uploadpack.packObjectsHook", "evil"),
)  # fmt: skip


def git_setting(rng: random.Random, draft: str) -> str:
    run("git", "config", *rng.choice(SETTINGS_OF_GIT))
    return ".git/config"


def git_config_appended(rng: random.Random, draft: str) -> str:
    with Path(".git/config").open("ab") as file:
        file.write(b"[core]\n\teditor = evil\n")
    return ".git/config"


def git_config_renamed_over(rng: random.Random, draft: str) -> str:
    Path(draft).write_bytes(Path(".git/config").read_bytes() + b"[core]\n\taskPass = evil\n")
    Path(draft).rename(".git/config")
    return ".git/config"


def git_hook(rng: random.Random, draft: str) -> str:
    path = Path(f".git/hooks/{rng.choice(('post-commit', 'pre-push', 'post-checkout'))}")
    path.write_bytes(EVIL)
    path.chmod(0o755)
    return str(path)


def git_hooks_moved(rng: random.Random, draft: str) -> str:
    Path(".git/hooks").rename(f".git/{draft}")
    Path(".git/hooks").mkdir()
    Path(".git/hooks/pre-commit").write_bytes(EVIL)
    return ".git/hooks/pre-commit"


def git_moved(rng: random.Random, draft: str) -> str:
    Path(".git").rename(f"gone-{draft}")
    Path(".git/hooks").mkdir(parents=True)
    Path(".git/hooks/pre-commit").write_bytes(EVIL)
    return ".git"


def git_template(rng: random.Random, draft: str) -> str:
    hook = f"evil-{draft}"
    (Path(draft) / "hooks").mkdir(parents=True)
    (Path(draft) / "hooks" / hook).write_bytes(EVIL)
    run("git", "init", "-q", f"--template={Path(draft).absolute()}")
    return f".git/hooks/{hook}"


WAYS_OF_GIT = (
    git_setting, git_setting, git_config_appended, git_config_renamed_over, git_hook,
    git_hooks_moved, git_moved, git_template,
)  # fmt: skip


def give_up(*_: object) -> None:
    raise TimeoutError("it took too long")


class Writer:
    def __init__(self, seed: str, log: str) -> None:
        signal.signal(signal.SIGALRM, give_up)
        self._rng = random.Random(seed)
        self._log = log
        self._prefix = f"draft-{os.getpid()}"
        self._count = 0

    def write(self) -> None:
        self._count += 1
        draft = f"{self._prefix}-{self._count}"
        rng = self._rng
        if rng.random() < 0.25:
            way = rng.choice(WAYS_OF_GIT)
            name, path, act = way.__name__, ".git", lambda: way(rng, draft)
        else:
            ordinary = rng.choice(WAYS)
            target = Target(rng.choice((*FILES, *FOLDERS)), draft)
            name, path = ordinary.__name__, str(target.file)
            act = lambda: ordinary(target) or path  # noqa: E731
        done = {"way": name, "path": path, "ok": True, "error": ""}
        signal.alarm(_LONGEST)
        try:
            done["path"] = act()
        except (OSError, subprocess.SubprocessError) as error:
            done |= {"ok": False, "error": str(error)}
        finally:
            signal.alarm(0)
        self._append(done)

    def write_for(self, seconds: float, gap: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.write()
            time.sleep(self._rng.uniform(0, gap))

    def write_times(self, count: int) -> None:
        for _ in range(count):
            self.write()
            time.sleep(self._rng.choice((0, 0, 0.005, 0.02, 0.1)))

    def end(self, what: str) -> None:
        self._append({"end": what})

    def _append(self, line: dict[str, object]) -> None:
        number = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(number, json.dumps(line).encode() + b"\n")
        os.close(number)


def leave_daemon(seed: str, seconds: float, log: str) -> None:
    """Starts a daemon: two forks and a separate session."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    daemon = Writer(f"{seed}-daemon", log)
    daemon.write_for(seconds, 0.3 if seconds < 10 else 1.5)
    daemon.end("daemon")
    os._exit(0)


def main(seed: str, count: str, seconds: str, log: str) -> None:
    os.environ.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
    if float(seconds):
        leave_daemon(seed, float(seconds), log)
    writer = Writer(seed, log)
    writer.write_times(int(count))
    writer.end("program")


if __name__ == "__main__":
    main(*sys.argv[1:])
