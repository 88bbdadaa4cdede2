"""A folder in which real shells run a line and `rm` creates a marker; decisions on the line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path, PurePosixPath

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule

HERE = DecisionContext(PurePosixPath("/ws"), home=PurePosixPath("/home/me"))
DENYING = Policy.preset("auto", rules=[Rule("no-rm", "deny", "no", commands=("rm *",))])
HARMLESS = ("echo *", "cat *", "env *", "xargs *", "sh *", "bash *", "x *", "a=b", ": *", "true *")
ALLOWING = Policy.preset("ask", rules=[Rule("some", "allow", "", commands=HARMLESS)])


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.work = folder / "work"
        self.mark = folder / "mark"
        self.bin.mkdir()
        for name in ("sh", "bash", "env", "xargs", "cat"):
            if path := shutil.which(name):
                (self.bin / name).symlink_to(path)
        rm = self.bin / "rm"
        rm.write_text(f"#!/bin/sh\n: > '{self.mark}'\n")
        rm.chmod(0o755)

    def runs_rm(self, shell: str, line: str) -> bool:
        self.mark.unlink(missing_ok=True)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        child = subprocess.Popen(
            [shutil.which(shell) or shell, "-c", line],
            cwd=self.work,
            env={"PATH": str(self.bin), "HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            child.wait(2)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return self.mark.exists()


def verdict(policy: Policy, line: str) -> str:
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    return policy.decide(request, HERE).verdict
