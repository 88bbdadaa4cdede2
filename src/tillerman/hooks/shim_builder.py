"""Builds the shim program that hooks run, compiled or in Python, and its command line.

Both versions are built at first use and stored in the user's cache: agents can write to a project's
own environment, where this package may be installed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tillerman.core.errors import ConfigError
from tillerman.paths import private_folder
from tillerman.supervision.linux.which import find_program

SOURCE = Path(__file__).with_name("shim.c")
SCRIPT = Path(__file__).with_name("shim_client.py")
COMPILERS = ("cc", "gcc", "clang")
COMPILING = 30.0  # seconds
SHORTEST, LONGEST = 0.1, 86_400.0  # limits of a shim's deadline, in seconds
_SAYS = b"tillerman: usage: FOLDER AGENT EVENT DEADLINE_S\n"


class Shim(msgspec.Struct, frozen=True):
    kind: Literal["compiled", "python"]
    words: tuple[str, ...]

    def command(
        self, folder: Path, agent: str, event: str, deadline: float, *, observing: bool
    ) -> str:
        """The command for `sh`. Exits with 2 also if the shim is missing, killed or cannot run."""
        from shlex import join

        event = f"-{event}" if observing else event
        line = join([*self.words, str(folder), agent, event, f"{deadline:.1f}"])
        return f"{line} || exit {0 if observing else 2}"


def ready_shim(cache: Path, *, compiled: bool = True, path: str | None = None) -> Shim:
    """The compiled shim if a compiler on `path` builds one that runs, otherwise the Python one."""
    path = os.environ.get("PATH") if path is None else path
    return (compiled and compiled_shim(cache, path)) or python_shim(cache)


def compiled_shim(cache: Path, path: str | None) -> Shim | None:
    compiler = _compiler(path)
    if compiler is None:
        return None
    source = SOURCE.read_bytes()
    identity = Path(compiler).stat()
    system = os.uname()
    key = _hash(source, compiler, identity.st_mtime_ns, identity.st_size, *system[0::4])

    def build(draft: Path) -> None:
        subprocess.run(
            [compiler, "-O2", "-x", "c", "-o", str(draft), str(SOURCE)],
            env={"PATH": path or os.defpath, "LC_ALL": "C", "TMPDIR": str(draft.parent)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=COMPILING,
        )
        draft.chmod(0o500)

    made = _made(cache, f"compiled-{key}", lambda file: [str(file)], build)
    return Shim("compiled", (str(made),)) if made else None


def python_shim(cache: Path) -> Shim:
    """The Python shim, precompiled to byte code; runs without site-packages.

    Uses the real interpreter instead of the link in a virtual environment, which may be in the
    workspace.
    """
    start = (os.path.realpath(sys.executable), "-I", "-S")
    key = _hash(SCRIPT.read_bytes(), start[0], sys.version)

    def build(draft: Path) -> None:
        from py_compile import PycInvalidationMode, compile

        compile(
            str(SCRIPT),
            cfile=str(draft),
            dfile="tillerman hook",
            doraise=True,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )

    made = _made(cache, f"python-{key}.pyc", lambda file: [*start, str(file)], build)
    return Shim("python", (*start, str(made or SCRIPT)))


def _made(
    cache: Path,
    name: str,
    words: Callable[[Path], Sequence[str]],
    build: Callable[[Path], None],
) -> Path | None:
    """The file of that name, built if it is missing or does not run; None if that fails."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ConfigError, ValueError):
        folder = private_folder(cache / "shim")
        file = folder / name
        if _runs(words(file)):
            return file
        draft = folder / f".{os.getpid()}-{os.urandom(4).hex()}-{name}"
        try:
            build(draft)
            if _runs(words(draft)):
                return draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)
    return None


def _runs(words: Sequence[str]) -> bool:
    if not Path(words[-1]).is_file():
        return False
    try:
        output = subprocess.run(
            words,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=COMPILING,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return (output.returncode, output.stdout, output.stderr) == (2, b"", _SAYS)


def _compiler(path: str | None) -> str | None:
    if sys.platform == "darwin" and not _has_developer_tools():
        return None
    folders = [folder for folder in (path or os.defpath).split(os.pathsep) if folder[:1] == "/"]
    found = (find_program(name, os.pathsep.join(folders)) for name in COMPILERS)
    return next((program for program in found if program), None)


def _has_developer_tools() -> bool:
    """Without them macOS's `cc` opens a window that offers to install them."""
    asked = subprocess.run(["/usr/bin/xcode-select", "-p"], capture_output=True, check=False)
    return asked.returncode == 0


def _hash(*parts: object) -> str:
    from hashlib import sha256

    return sha256(repr(parts).encode()).hexdigest()[:24]
