"""A fresh machine: a copy of a minimal root in separate namespaces, removed when it is closed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fresh.checkout import copy_checkout
from tests.fresh.package_index import PackageIndex

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class FreshMachine:
    """Its files are in `root`, with a copy of this checkout in the user's home."""

    root: Path
    user: str
    index: PackageIndex

    @classmethod
    @contextmanager
    def start(cls, built: Path, user: str, index: PackageIndex) -> Iterator[FreshMachine]:
        folder = Path(tempfile.mkdtemp(prefix="tillerman-fresh-"))
        try:
            subprocess.run(
                ["cp", "--archive", "--reflink=auto", built, folder / "root"], check=True
            )
            machine = cls(folder / "root", user, index)
            machine._prepare()
            yield machine
        finally:
            shutil.rmtree(folder)

    @property
    def home(self) -> str:
        return "/root" if self.user == "root" else f"/home/{self.user}"

    def packages(self) -> list[str]:
        """The system's packages with their versions."""
        words = ["dpkg-query", f"--admindir={self.root}/var/lib/dpkg", "--show"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    def run(self, *words: str, within: float) -> int:
        """The exit code of a program that the user runs in the checkout. Of this machine it has
        only the package index; all processes it starts end with it."""
        variables = {"PATH": _PATH, "HOME": self.home, "USER": self.user, **self.index.variables}
        if options := os.environ.get("PYTEST_ADDOPTS"):
            variables["PYTEST_ADDOPTS"] = options
        inside = [
            *(
                "/usr/sbin/chroot",
                str(self.root),
                "setpriv",
                f"--reuid={self.user}",
                f"--regid={self.user}",
            ),
            *("--init-groups", "env", "--chdir", f"{self.home}/tillerman", *words),
        ]
        namespaces = [
            "setpriv",
            "--pdeathsig=KILL",
            "unshare",
            "--mount",
            "--pid",
            "--ipc",
            "--fork",
            "--kill-child",
        ]
        # The shell stays as the first process: it reaps what others leave, as an init does.
        script = f"set -e\n{self._mounts()}\n{shlex.join(inside)}\nexit"
        entered = [*namespaces, "sh", "-c", script]
        nothing = subprocess.DEVNULL
        return subprocess.run(entered, env=variables, stdin=nothing, timeout=within).returncode

    def _prepare(self) -> None:
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        if self.user != "root":
            words = ["useradd", "--create-home", "--user-group", "--shell", "/bin/sh", self.user]
            subprocess.run(["chroot", self.root, *words], check=True)
        copy_checkout(self._inside(f"{self.home}/tillerman"))
        owner = ["chown", "-R", f"{self.user}:{self.user}", f"{self.home}/tillerman"]
        subprocess.run(["chroot", self.root, *owner], check=True)
        for path in self.index.files:
            place = self._inside(str(path))
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                place.mkdir(exist_ok=True)
            else:
                place.touch()
        for device in _DEVICES:
            (self.root / "dev" / device).touch()

    def _mounts(self) -> str:
        def mount(*words: str | Path) -> str:
            return shlex.join(["mount", *map(str, words)])

        root = self.root
        bound = [(path, self._inside(str(path))) for path in self.index.files]
        return "\n".join(
            [
                mount("--make-rprivate", "/"),
                mount("-t", "proc", "proc", root / "proc"),
                mount("-t", "sysfs", "-o", "ro", "sysfs", root / "sys"),
                *(mount("--bind", f"/dev/{name}", root / "dev" / name) for name in _DEVICES),
                mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666", "pts", root / "dev/pts"),
                shlex.join(["ln", "-sf", "pts/ptmx", str(root / "dev/ptmx")]),
                mount("-t", "tmpfs", "-o", "mode=1777", "shm", root / "dev/shm"),
                *(mount("--bind", "-o", "ro", source, place) for source, place in bound),
            ]
        )

    def _inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")
