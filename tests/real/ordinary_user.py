"""A temporary user without privileges, and the checkout as that user would have cloned it."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.fresh.checkout import copy_checkout


@dataclass(frozen=True)
class OrdinaryUser:
    """Created by `create`, with a home for all its files; only root can create one and run as
    one."""

    name: str
    uid: int
    home: Path

    @classmethod
    def create(cls) -> OrdinaryUser:
        name = f"tillerman-{secrets.token_hex(4)}"
        _change_accounts("useradd", "--create-home", "--user-group", "--shell", "/bin/sh", name)
        entry = pwd.getpwnam(name)
        user = cls(name, entry.pw_uid, Path(entry.pw_dir))
        user.own(user.scratch)
        return user

    @property
    def scratch(self) -> Path:
        """Its TMPDIR: in its home, so that leftovers are removed with it."""
        return self.home / "tmp"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "USER": self.name,
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.scratch),
        }

    def own(self, folder: Path) -> Path:
        """Makes it the owner of a folder and its content."""
        folder.mkdir(exist_ok=True)
        as_root("chown", "-R", f"{self.name}:{self.name}", str(folder))
        return folder

    def link(self, folder: Path, name: str) -> None:
        """Lets it read files of root's: by hard links, which are removed with its home."""
        if (self.home / name).exists():
            return  # to own a folder above it again would give those files away
        place = self.home
        for part in Path(name).parts[:-1]:
            place = self.own(place / part)
        as_root("cp", "--archive", "--link", str(folder), str(self.home / name))

    def run(
        self,
        *words: str | Path,
        cwd: Path | None = None,
        within: float = 60,
        group: Path | None = None,
        variables: Mapping[str, str] = {},
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program as this user, without root's environment; in a control group if given."""
        return subprocess.run(
            self._becoming(group, words),
            cwd=cwd or self.home,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within,
            start_new_session=True,
        )

    def start(
        self, *words: str | Path, log: IO[bytes], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Starts a program that keeps running; it ends by its pid, or with the user."""
        return subprocess.Popen(
            self._becoming(None, words),
            cwd=self.home,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def must_run(self, *words: str | Path, cwd: Path | None = None) -> str:
        done = self.run(*words, cwd=cwd)
        assert done.returncode == 0, f"{words} exited {done.returncode}: {done.stderr}"
        return done.stdout

    def processes(self) -> dict[int, str]:
        """Command lines by pid. A process that hides its files from others is included."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                status = (folder / "status").read_text()
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue  # ended in between
            uids = next(line for line in status.splitlines() if line.startswith("Uid:"))
            if str(self.uid) in uids.split()[1:] and "State:\tZ" not in status:
                found[int(folder.name)] = words.replace(b"\0", b" ").decode(errors="replace")
        return found

    def remove(self) -> None:
        """Removes its processes, its files and the user."""
        until(self._ended, within=10, told=lambda: f"would not end: {self.processes()}")
        shutil.rmtree(self.home)  # by us: userdel would lock the accounts for all that time
        _change_accounts("userdel", self.name)

    def _ended(self) -> bool:
        running = self.processes()
        for pid in running:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not running

    def _becoming(self, group: Path | None, words: tuple[str | Path, ...]) -> list[str]:
        ids = [f"--reuid={self.uid}", f"--regid={self.uid}", "--init-groups"]
        # setpriv finds its program with root's eyes; env finds the next one with the user's.
        become = ["setpriv", *ids, "--", "env", *map(str, words)]
        if group is None:
            return become
        # Only root may move a process into a group from one that is not the user's.
        return ["sh", "-c", f'echo 0 > {group}/cgroup.procs; exec "$@"', "sh", *become]


@dataclass(frozen=True)
class Clone:
    """A copy of this checkout, changes included, owned by the user."""

    user: OrdinaryUser
    folder: Path
    python: str

    @classmethod
    def make(cls, user: OrdinaryUser, python: str) -> Clone:
        folder = user.home / "tillerman"
        copy_checkout(folder)
        return cls(user, user.own(folder), python)

    def make_demo(self) -> subprocess.CompletedProcess[str]:
        """Runs the demo first in a new clone, which sets up what it needs."""
        return self.user.run("make", "demo", f"PYTHON={self.python}", cwd=self.folder, within=500)

    def tillerman(
        self,
        *words: str,
        cwd: Path | None = None,
        group: Path | None = None,
        variables: Mapping[str, str] = {},
    ) -> subprocess.CompletedProcess[str]:
        program = self.folder / ".venv/bin/tillerman"
        return self.user.run(program, *words, cwd=cwd, group=group, variables=variables)

    def pytest(self, *words: str) -> subprocess.CompletedProcess[str]:
        quiet = ("-q", "-rfE", "-n", "3", "--timeout", "120", "-m", "not real and not torture")
        base = f"--basetemp={self.user.home}/t"  # short, for sockets lie in there
        program = self.folder / ".venv/bin/pytest"
        return self.user.run(program, *quiet, base, *words, cwd=self.folder, within=500)


def python_for(user: OrdinaryUser) -> str | None:
    """An interpreter that this user can run, who cannot read root's folders."""
    asked = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    for python in (sys._base_executable, "/usr/local/bin/python3", "/usr/bin/python3"):  # type: ignore[attr-defined]
        if Path(python).exists() and user.run(python, "-c", asked).returncode == 0:
            return str(python)
    return None


def _change_accounts(*words: str) -> None:
    for max_wait in (2, 1, 0):  # each waits 15 seconds for the lock
        try:
            as_root(*words)
        except AssertionError as error:
            if not max_wait or "cannot lock" not in str(error):
                raise
        else:
            return


def as_root(*words: str, cwd: Path | None = None, within: float = 120) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=within)
    assert done.returncode == 0, f"{' '.join(words)} exited {done.returncode}: {done.stderr}"
    return done.stdout


def until(condition: Callable[[], bool], *, within: float, told: Callable[[], str]) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)
