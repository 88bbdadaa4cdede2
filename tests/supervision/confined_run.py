"""Runs commands under an isolation level as a keeper's child would, without a keeper.

In this process by `Place.run`, or as another user: the same file, run as a script, reads requests
as lines of JSON from its standard input and prints the result of each.
"""

from __future__ import annotations

import atexit
import json
import marshal
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tillerman.core.errors import IsolationUnavailable
from tillerman.supervision.isolation import ConfinedCommand, after, confine, landlock, refusal
from tillerman.supervision.protocol.launch_warden import command

if TYPE_CHECKING:
    from tests.supervision import kills


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Refused(NamedTuple):
    message: str
    hint: str
    exit_code: int


# What a machine may lack. Anything else that has a level refused is a fault of ours.
_LACKING = (
    "only available on Linux",
    "filter for",
    "no Landlock",
    "is disabled",
    "not installed",
    "bwrap: ",
)


def skip_if_missing(level: Any) -> None:
    if (refused := refusal(level)) is None:
        return
    import pytest

    old = level == "medium" and refused.reason.endswith("signal a process outside")
    if any(word in refused.reason for word in _LACKING) or (old and landlock.version() < 6):
        pytest.skip(f"{refused.message}; {refused.hint}")
    pytest.fail(refused.message)


def run_here(
    level: Any,
    workspace: Path,
    argv: Sequence[str],
    env: Mapping[str, str],
    protected: Sequence[Path] = (),
) -> Ran:
    with _harness_with(env):
        confined = confine(
            level, workspace=workspace, argv=argv, env=env, cwd=workspace, protected=protected
        )
    return run_confined(confined, workspace)


def run_confined(confined: ConfinedCommand, cwd: Path) -> Ran:
    door = os.open("/", os.O_RDONLY)  # left open by a parent: no program may inherit it
    try:
        ran = subprocess.run(
            command("isolation.exec_confined"),
            pass_fds=(door,),
            input=marshal.dumps((confined.argv, confined.env, str(cwd), confined.rules)),
            capture_output=True,
            timeout=60,
        )
    finally:
        os.close(door)
        after(confined)
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@contextmanager
def _harness_with(env: Mapping[str, str]) -> Iterator[None]:
    """Toolchains are those of the harness's own home and PATH."""
    before = {name: os.environ[name] for name in ("HOME", "PATH")}
    os.environ.update({name: env[name] for name in before})
    try:
        yield
    finally:
        os.environ.update(before)


class Place(NamedTuple):
    """The user who runs commands, and the folders: `workspace` and `outside` belong to that
    user."""

    stage: kills.Stage
    folder: Path

    @classmethod
    def make(cls, stage: kills.Stage) -> Place:
        place = cls(stage, Path(tempfile.mkdtemp(prefix="tillerman-isolation-")).resolve())
        for folder in (place.workspace, place.outside, place.home):
            folder.mkdir()
        place.folder.chmod(0o755)
        place.give()
        return place

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def env(self) -> dict[str, str]:
        python = Path(self.stage.python).resolve().parent
        return {"PATH": f"{python}:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}

    @property
    def python(self) -> str:
        return str(Path(self.stage.python).resolve())

    def give(self) -> None:
        """Makes the user the owner of the folder's content."""
        if self.stage.user is not None:
            owner = f"{self.stage.user}:{self.stage.user}"
            subprocess.run(["chown", "-R", owner, self.folder], check=True)

    def run(
        self,
        level: str,
        *argv: str,
        env: Mapping[str, str] = {},
        protected: Sequence[Path] = (),
    ) -> Ran:
        if self.stage.user is None:
            return run_here(level, self.workspace, argv, {**self.env, **env}, protected)
        reported = self.ask(level, *argv, env=env, protected=protected)
        assert isinstance(reported, Ran), reported
        return reported

    def ask(
        self,
        level: str,
        *argv: str,
        env: Mapping[str, str] = {},
        protected: Sequence[Path] = (),
        around: Sequence[str] = (),
    ) -> Ran | Refused:
        """Runs it in the process of the user, or in one started by the command `around`."""
        request = [level, str(self.workspace), argv, {**self.env, **env}, [*map(str, protected)]]
        if not around:
            reported = _asked(self.stage, json.dumps(request))
        else:
            process = _start(self.stage, around, self.env)
            reported, _ = process.communicate(json.dumps(request), timeout=90)
            assert process.returncode == 0, reported
        word, *rest = json.loads(reported)
        return Refused(*rest) if word == "refused" else Ran(*rest)

    def script(self, level: str, lines: str, *arguments: object) -> Ran:
        return self.run(level, self.python, "-I", "-S", "-c", lines, *map(str, arguments))

    def remove(self) -> None:
        shutil.rmtree(self.folder)


def _start(
    stage: kills.Stage, around: Sequence[str], env: Mapping[str, str]
) -> subprocess.Popen[str]:
    script = stage.source.parent / "tests/supervision/confined_run.py"
    return subprocess.Popen(
        [*around, stage.python, "-P", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PYTHONPATH": str(stage.source), **env},
        user=stage.user,
        group=stage.user,
        extra_groups=None if stage.user is None else [],
    )


@cache
def _of_the_user(stage: kills.Stage) -> subprocess.Popen[str]:
    """One for all tests, like this process for all that run in it."""
    process = _start(stage, (), {"PATH": os.defpath, "HOME": "/nowhere"})
    atexit.register(process.communicate)
    return process


def _asked(stage: kills.Stage, request: str) -> str:
    process = _of_the_user(stage)
    assert process.stdin and process.stdout
    process.stdin.write(request + "\n")
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], 90)
    message = process.stdout.readline() if ready else ""
    if not message:
        _of_the_user.cache_clear()
    return message


def _main() -> None:
    os.umask(0o077)
    for line in sys.stdin:
        _answer(*json.loads(line))


def _answer(
    level: str, workspace: str, argv: list[str], env: dict[str, str], protected: list[str]
) -> None:
    try:
        ran = run_here(level, Path(workspace), argv, env, [*map(Path, protected)])
    except IsolationUnavailable as error:
        print(json.dumps(["refused", error.message, error.hint, error.exit_code]), flush=True)
    else:
        print(json.dumps(["ran", *ran]), flush=True)


if __name__ == "__main__":
    _main()
