"""A minimal Debian in a folder: built once with debootstrap, stored in the cache, copied to use."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

PACKAGES = ("python3", "python3-venv", "git", "make", "ca-certificates")
ABSENT = ("cc", "ps", "tmux", "node", "bwrap", "strace")  # what tests must do without


class CannotBuild(Exception):
    """This machine lacks what building a root needs."""


@dataclass(frozen=True)
class MinimalRoot:
    """`suite`: the release of Debian, and with it the version of Python."""

    suite: str

    @property
    def folder(self) -> Path:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        key = sha256(" ".join((self.suite, *PACKAGES)).encode()).hexdigest()[:10]
        return cache / "tillerman/fresh" / f"{self.suite}-{key}"

    def build(self) -> Path:
        """The stored root, built if it is missing."""
        if self.folder.is_dir():
            return self.folder
        if missing := cannot_build():
            raise CannotBuild(missing)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{self.suite}-", dir=self.folder.parent))
        try:
            draft.chmod(0o755)
            include = f"--include={','.join(PACKAGES)}"
            # what it mounts there is gone with it, before anything is removed
            alone = ["unshare", "--mount"]
            words = [*alone, "debootstrap", "--variant=minbase", include, self.suite, str(draft)]
            built = subprocess.run(words, capture_output=True, text=True, timeout=1800)
            if built.returncode:
                last = (built.stdout + built.stderr).strip().splitlines()[-1:]
                raise CannotBuild(f"debootstrap failed: {' '.join(last)}")
            for program in ABSENT:
                if shutil.which(program, path=f"{draft}/usr/bin:{draft}/usr/sbin"):
                    raise CannotBuild(f"the root has {program}, and is not minimal")
            draft.rename(self.folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return self.folder


def cannot_build() -> str:
    """Why a root can neither be built nor entered here; empty if it can."""
    if os.geteuid() != 0:
        return "only root can build a root and enter it"
    for program in ("debootstrap", "unshare", "setpriv"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], stderr=-3).returncode:
        return "this machine gives no mount namespace"
    return ""
