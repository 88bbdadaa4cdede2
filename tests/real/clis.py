"""The pinned agent CLIs: installs them into the user's cache folder and prints their paths.

python tests/real/clis.py install [AGENT…]        LATEST=1 installs the newest instead of the pins
python tests/real/clis.py path claude 2.1.325
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_PINS = Path(__file__).with_name("clis.toml")
_EXACT_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[+-][\w.+-]*\w)?")


class CliError(Exception):
    """A CLI that is missing or cannot be installed, with a hint."""


@dataclass(frozen=True)
class Cli:
    """One agent CLI at one version, installed or not."""

    agent: str
    version: str
    package: str
    program: str
    node: bool = False
    says_version: bool = True
    unpacks: str = ""  # where in a home it unpacks itself

    @property
    def folder(self) -> Path:
        return cache() / f"{self.agent}-{self.version}"

    def path(self) -> Path:
        """The program; if it is missing, raises an error with the command that installs it."""
        found = sorted(self.folder.glob(self.program))
        if not found:
            latest = "LATEST=1 " if _wants_latest() else ""
            raise CliError(
                f"{self.agent} {self.version} is not installed; run: "
                f"{latest}python tests/real/clis.py install {self.agent}"
            )
        return found[0]

    def search_path(self) -> str:
        """The PATH it runs with: the system's, after the Node.js it needs."""
        return f"{node_folder()}:{os.defpath}" if self.node else os.defpath

    def environment(self) -> dict[str, str]:
        """What it compiles at its start is stored for the next start."""
        return {"NODE_COMPILE_CACHE": str(cache() / ".compiled")} if self.node else {}

    def lend(self, home: Path) -> None:
        """Copies into a home what it would unpack there, which takes most of the time of a
        start."""
        place, stored = home / self.unpacks, self.folder / "unpacked"
        if not self.unpacks or place.exists():
            return
        if not stored.exists() and os.access(self.folder, os.W_OK):
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".unpacking-") as scratch:
                environment = {"HOME": scratch, "PATH": self.search_path()}
                _run([str(self.path()), "--version"], env=environment)
                with contextlib.suppress(OSError):  # another was faster, with the same content
                    Path(scratch, self.unpacks).rename(stored)
        if os.access(stored, os.W_OK):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(stored)

    def install(self) -> Path:
        """Installs it unless it exists; an incomplete download is never visible."""
        if self.node and not _system_node():
            _own_node().install()
        with contextlib.suppress(CliError):
            return self.path()
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=".installing-") as scratch:
            staged = Path(scratch, "staged")
            staged.mkdir()
            _npm("install", f"--prefix={staged}", f"{self.package}@{self.version}")
            found = sorted(staged.glob(self.program))
            if not found:
                raise CliError(
                    f"{self.package}@{self.version} brought no {self.program}; "
                    f"does it support this platform?"
                )
            if self.says_version:
                environment = {"HOME": scratch, "PATH": self.search_path()}
                reported = _run([str(found[0]), "--version"], env=environment)
                if self.version not in _EXACT_VERSION.findall(reported):
                    raise CliError(
                        f"{self.package}@{self.version} calls itself {reported.strip()!r}"
                    )
            self._publish(staged)
        return self.path()

    def _publish(self, staged: Path) -> None:
        for _ in range(2):
            try:
                staged.rename(self.folder)
            except OSError:
                with contextlib.suppress(CliError):
                    self.path()  # another installer was faster, with the same content
                    return
                shutil.rmtree(self.folder)
            else:
                return
        raise CliError(f"{self.folder} cannot be replaced; remove it and try again")


def pinned(agent: str) -> list[Cli]:
    """The versions of an agent that tests run against; with LATEST=1 only the newest."""
    pins = _pins()["agents"]
    if agent not in pins:
        raise CliError(f"no pin for {agent!r} in {_PINS.name}; there are: {', '.join(pins)}")
    known = [Cli(agent=agent, **pin) for pin in pins[agent]]
    if not _wants_latest():
        return known
    return [replace(known[0], version=_newest(known[0].package), says_version=True)]


def agents() -> list[str]:
    return list(_pins()["agents"])


def node_folder() -> Path:
    """The folder of the Node.js that runs the CLIs that are scripts."""
    return _system_node() or _own_node().path().parent


def _system_node() -> Path | None:
    program = shutil.which("node")
    if program is None:
        return None
    have = _run([program, "--version"], env=None).strip().removeprefix("v")
    wanted: str = _pins()["node"]["version"]
    return Path(program).parent if _major(have) >= _major(wanted) else None


def _own_node() -> Cli:
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"node-{platform.system().lower()}-{machine}"
    version = _pins()["node"]["version"]
    return Cli("node", version, package, f"node_modules/{package}/bin/node")


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def _pins() -> dict[str, Any]:
    return tomllib.loads(_PINS.read_text())


def _wants_latest() -> bool:
    return os.environ.get("LATEST") == "1"


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "tillerman", "clis")


def _newest(package: str) -> str:
    version = _npm("view", package, "version").strip()
    if not _EXACT_VERSION.fullmatch(version):
        raise CliError(f"npm gave no version for {package}: {version!r}")
    return version


def _npm(*arguments: str) -> str:
    program = shutil.which("npm")
    if program is None:
        raise CliError("npm is needed to install agent CLIs; install Node.js with npm")
    # Install scripts only copy the program and check for Node: it is used in its folder.
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    return _run([program, *arguments, *quiet], env=None)


def _run(command: list[str], env: dict[str, str] | None) -> str:
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise CliError(f"{' '.join(command)} exited {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="install the pinned versions")
    install.add_argument("agents", nargs="*", help="all agents unless named")
    path = commands.add_parser("path", help="print where a pinned version is")
    path.add_argument("agent")
    path.add_argument("version")
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "install":
            for agent in arguments.agents or agents():
                for cli in pinned(agent):
                    print(cli.install())
        else:
            print(_named(arguments.agent, arguments.version).path())
    except CliError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _named(agent: str, version: str) -> Cli:
    known = pinned(agent)
    for cli in known:
        if cli.version == version:
            return cli
    versions = ", ".join(cli.version for cli in known)
    raise CliError(f"{agent} {version} is not pinned; there are: {versions}")


if __name__ == "__main__":
    sys.exit(main())
