"""Probes an isolation level: runs a command that attempts every forbidden escape."""

from __future__ import annotations

import marshal
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tillerman.supervision.isolation.confinement import ConfinedCommand, after
from tillerman.supervision.protocol.launch_warden import command

_WITHIN = 20.0  # seconds; a busy machine may be slow, but a hanging sandbox must end
_FINE = "fine"
_SECRET = "untold"
_KILLED = "killed"
_TURNED = "turned"

# Attempts everything and prints what it could read, kill and open. The rest is checked from
# outside.
_ACTS = """
import os, _socket as s
outside, workspace, victim, tcp, udp, name = {arguments!r}

def signal():
    if victim in (1, os.getpid(), os.getppid()):
        raise OSError("a process in here is called so")
    os.kill(victim, 9)
    print({killed!r})

def turn():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    print({turned!r})

def connect(family, kind, address):
    one = s.socket(family, kind)
    one.settimeout(2)
    one.connect(address)
    one.send(b"x")

for act in (
    lambda: os.write(os.open(outside + "/new", os.O_WRONLY | os.O_CREAT), b"x"),
    lambda: os.write(os.open(outside + "/secret", os.O_WRONLY | os.O_APPEND), b"x"),
    lambda: print(os.read(os.open(outside + "/secret", os.O_RDONLY), 99)),
    signal,
    turn,
    lambda: connect(s.AF_INET, s.SOCK_STREAM, ("127.0.0.1", tcp)),
    lambda: connect(s.AF_INET, s.SOCK_DGRAM, ("127.0.0.1", udp)),
    lambda: connect(s.AF_UNIX, s.SOCK_STREAM, outside + "/socket"),
    lambda: connect(s.AF_UNIX, s.SOCK_STREAM, chr(0) + name),
):
    try:
        act()
    except OSError:
        continue
os.write(os.open(workspace + "/made", os.O_WRONLY | os.O_CREAT | os.O_EXCL), b"x")
print({fine!r})
"""

Trial = Callable[[str, Path, list[str], dict[str, str], Sequence[Path]], ConfinedCommand]


def escapes(level: str, trial: Trial) -> tuple[str, str] | None:
    """Returns which escape worked and how to fix it; None when the level holds."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tillerman-canary-")).resolve()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        workspace, outside = folder / "workspace", folder / "outside"
        for each in (workspace, outside):
            each.mkdir()
        (outside / "secret").write_text(_SECRET)
        name = f"tillerman-canary-{secrets.token_hex(8)}"
        sockets = {
            "connect by TCP": _listen(socket.AF_INET, ("127.0.0.1", 0)),
            "send by UDP": _bind(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "connect to a socket outside": _listen(socket.AF_UNIX, str(outside / "socket")),
            "connect to an abstract socket": _listen(socket.AF_UNIX, f"\0{name}"),
        }
        for each_socket in sockets.values():
            stack.callback(each_socket.close)
        ports = [sockets[each].getsockname()[1] for each in ("connect by TCP", "send by UDP")]
        victim = _victim(stack)
        arguments = (str(outside), str(workspace), victim.pid, *ports, name)
        confined = trial(
            level,
            workspace,
            [
                *(str(Path(sys.executable).resolve()), "-I", "-S", "-c"),
                _ACTS.format(arguments=arguments, killed=_KILLED, turned=_TURNED, fine=_FINE),
            ],
            {"PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
            _own_python(),
        )
        stack.callback(after, confined)
        code, reported, complaint = _run(confined, workspace)
        succeeded = [word for word, each in sockets.items() if _received(each)]
        if (outside / "new").exists() or (outside / "secret").read_text() != _SECRET:
            succeeded.append("write outside the workspace")
        if _SECRET in reported:
            succeeded.append("read a secret outside")
        if _KILLED in reported or victim.poll() is not None:
            succeeded.append("signal a process outside")
        if _TURNED in reported:
            succeeded.append("change a kernel setting")
        if succeeded:
            return f"a confined command could still {', '.join(succeeded)}", _leak_fix(level)
        if code != 0 or reported != f"{_FINE}\n" or not (workspace / "made").exists():
            why = complaint.strip().splitlines()[-1:] or [f"the probe exited with {code}"]
            return why[0], _fix(level, why[0])
    return None


def _run(confined: ConfinedCommand, cwd: Path) -> tuple[int | None, str, str]:
    request = marshal.dumps((confined.argv, confined.env, str(cwd), confined.rules))
    process = subprocess.Popen(
        command("isolation.exec_confined"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name.startswith("LD_")},
        start_new_session=True,
    )
    try:
        reported, complaint = process.communicate(request, timeout=_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, "", f"the probe did not finish within {_WITHIN:.0f} s"
    return process.returncode, reported.decode(errors="replace"), complaint.decode(errors="replace")


def _listen(family: int, address: str | tuple[str, int]) -> socket.socket:
    made = _bind(family, socket.SOCK_STREAM, address)
    made.listen(1)
    return made


def _bind(family: int, kind: int, address: str | tuple[str, int]) -> socket.socket:
    made = socket.socket(family, kind)
    made.bind(address)
    made.setblocking(False)
    return made


def _received(one: socket.socket) -> bool:
    try:
        if one.type == socket.SOCK_DGRAM:
            one.recv(9)
        else:
            one.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _victim(stack: ExitStack) -> subprocess.Popen[bytes]:
    """Starts a process to be signalled; it ends with this one if it is not."""
    process = subprocess.Popen(
        ["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env={}
    )

    def end() -> None:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        process.wait()

    stack.callback(end)
    return process


def _own_python() -> list[Path]:
    """Returns the folders of the Python that runs the probe, wherever it is installed."""
    return sorted({Path(sys.base_prefix).resolve(), Path(sys.executable).resolve().parent})


def _leak_fix(level: str) -> str:
    if level == "medium":
        return "blocking signals and abstract sockets needs Linux 6.12; use high, or basic"
    return "the kernel's namespaces are not effective here; use medium"


def _fix(level: str, complaint: str) -> str:
    """Suggests the system setting that is known to block the level."""
    if level == "medium":
        return "`tillerman doctor` shows what the kernel supports; use high, or basic"
    if "Unknown option" in complaint:
        return "install bubblewrap 0.8 or newer; use medium"
    for name, bad, good in (
        ("user/max_user_namespaces", "0", "15000"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ):
        with suppress(OSError):
            if (Path("/proc/sys") / name).read_text().strip() == bad:
                return f"sysctl -w {name.replace('/', '.')}={good}"
    return "allow user namespaces to bubblewrap (in a container, its seccomp profile); use medium"
