"""An ssh server of an ordinary user, on loopback, known to ssh by a system file."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real.ordinary_user import OrdinaryUser, as_root, until

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config.d")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
UNPACKED = CACHE / "tillerman/sshd"  # by .ci/packages: installed, it would start a service


@dataclass(frozen=True)
class Program:
    """sshd, with the settings and libraries of its installation."""

    path: Path
    settings: tuple[str, ...] = ()
    libraries: str = ""


@dataclass(frozen=True)
class Server:
    """`host` is only in a file of root's: a client that resolves it has read that file."""

    pid: int
    host: str
    system_file: Path


def missing() -> str:
    """What is missing for a server and its client; empty if nothing is."""
    if not shutil.which("ssh"):
        return "ssh is not installed"
    if not _installed() and not (UNPACKED / "usr/sbin/sshd").exists():
        return "sshd is neither installed nor unpacked by .ci/packages"
    if not SYSTEM_CONFIG.is_dir():
        return f"the system's ssh_config does not include {SYSTEM_CONFIG}"
    return ""


def sshd_for(user: OrdinaryUser) -> Program:
    """The system's sshd, or Debian's package unpacked."""
    if installed := _installed():
        return Program(installed)
    folder = user.home / "sshd"
    as_root("cp", "--recursive", str(UNPACKED), str(folder))
    user.own(folder)
    library = next(folder.glob("usr/lib/*/libwrap.so.0")).parent
    helpers = {"SshdSessionPath": "sshd-session", "SshdAuthPath": "sshd-auth"}  # of newer ones
    settings = (
        f"{setting} {folder}/usr/lib/openssh/{helper}"
        for setting, helper in helpers.items()
        if (folder / "usr/lib/openssh" / helper).exists()
    )
    return Program(folder / "usr/sbin/sshd", tuple(settings), str(library))


@contextmanager
def serving(user: OrdinaryUser, program: Program) -> Iterator[Server]:
    """Accepts the user's key; its strict check of file owners stays enabled."""
    server_key = user.home / "host_key"
    ssh = user.home / ".ssh"
    user.must_run("mkdir", "-m", "700", ssh)
    for key in (server_key, ssh / "id_ed25519"):
        user.must_run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    user.must_run("cp", ssh / "id_ed25519.pub", ssh / "authorized_keys")
    process, port = _listening(user, program, server_key)
    system_file = SYSTEM_CONFIG / f"{user.name}.conf"
    try:
        public = server_key.with_suffix(".pub").read_text()
        (ssh / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}")
        user.own(ssh)
        system_file.write_text(f"Host {user.name}\n  HostName 127.0.0.1\n  Port {port}\n")
        system_file.chmod(0o644)
        yield Server(process.pid, user.name, system_file)
    finally:
        system_file.unlink(missing_ok=True)
        process.kill()
        process.wait()


def _installed() -> Path | None:
    found = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    return None if found is None else Path(found)


def _listening(
    user: OrdinaryUser, program: Program, key: Path
) -> tuple[subprocess.Popen[bytes], int]:
    config, log = user.home / "sshd_config", user.home / "sshd.log"
    port = 0

    def received() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return process.poll() is not None

    for _ in range(3):  # another process may take the port before sshd does
        port = _free_port()
        settings = (
            "ListenAddress 127.0.0.1", f"Port {port}", f"HostKey {key}", "PidFile none",
            "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
            *program.settings,
        )  # fmt: skip
        config.write_text("\n".join(settings) + "\n")
        with log.open("ab") as out:
            libraries = {"LD_LIBRARY_PATH": program.libraries} if program.libraries else {}
            words = (program.path, "-D", "-e", "-f", config)
            process = user.start(*words, log=out, variables=libraries)
        until(received, within=10, told=log.read_text)
        if process.poll() is None:
            return process, port
    raise AssertionError(f"sshd does not listen:\n{log.read_text()}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
