"""A PostgreSQL server of the test's own: a new cluster, an ordinary user, a private port."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = Path("/usr/lib/postgresql/15/bin")


def why_not() -> str:
    """Why there is none; empty if there is."""
    if not (PROGRAMS / "initdb").exists():
        return f"PostgreSQL 15 is not installed: no {PROGRAMS}/initdb"
    if os.getuid() == 0 and not _user():
        return "PostgreSQL does not run as root, and there is no user `nobody`"
    return ""


class PostgresServer:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._as: dict[str, object] = {}
        if os.getuid() == 0:
            user = _user()
            assert user
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._run(
            "initdb",
            "-D",
            str(self.folder / "data"),
            "-U",
            "tester",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        words = [
            str(PROGRAMS / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-k", str(self.folder), "-c", "fsync=off",
        ]  # fmt: skip
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            words, stdout=log, stderr=log, cwd=self.folder, env=_plain(), **self._as
        )  # type: ignore[call-overload]
        log.close()
        deadline = time.monotonic() + 60
        while True:
            try:
                self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port))
                return
            except subprocess.CalledProcessError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.1)

    def stop(self) -> None:
        if self._process:
            self._process.send_signal(2)  # fast shutdown
            self._process.wait(timeout=60)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(PROGRAMS / program), *words], check=True, capture_output=True, cwd=self.folder,
            env=_plain(), **self._as,
        )  # type: ignore[call-overload]  # fmt: skip


def _user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        return None


def _plain() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C"}
