"""What a command under each level can reach: tried with real sockets, processes and files."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervision.confined_run import Place, run_confined
from tillerman.core.errors import IsolationUnavailable, UsageError
from tillerman.supervision.isolation import after, confine

# Says each act that came off.
TRY = """
import os, sys
outside, word, *acts = sys.argv[1:]
for act in acts:
    try:
        exec(act)
    except OSError:
        continue
    print(act)
print("tried")
"""
ACTS = {
    "write": "os.write(os.open(outside + '/new', os.O_WRONLY | os.O_CREAT), b'x')",
    "append": "os.write(os.open(outside + '/secret', os.O_WRONLY | os.O_APPEND), b'x')",
    "truncate": "os.truncate(outside + '/secret', 0)",
    "remove": "os.unlink(outside + '/secret')",
    "rename": "os.rename(outside + '/secret', outside + '/other')",
    "take in": "os.rename(outside + '/secret', 'taken')",
    "link": "os.link(outside + '/secret', 'linked'); os.open('linked', os.O_RDONLY)",
    "read": "os.open(outside + '/secret', os.O_RDONLY)",
    "list": "os.listdir(outside)",
    "symlink": "os.symlink(outside, 'way'); os.open('way/secret', os.O_RDONLY)",
    "root of self": "os.open('/proc/self/root' + outside + '/secret', os.O_RDONLY)",
    "root of another": "os.open('/proc/' + word + '/root' + outside + '/secret', os.O_RDONLY)",
    "folder of another": "os.open('/proc/' + word + '/cwd/secret', os.O_RDONLY)",
    "variables of another": "os.read(os.open('/proc/' + word + '/environ', os.O_RDONLY), 9)",
    "memory of another": "os.open('/proc/' + word + '/mem', os.O_RDWR)",
    "signal": "os.kill(int(word), 9)",
    "device": "os.mknod('disk', 0o60600, os.makedev(8, 0)); os.open('disk', os.O_RDONLY)",
}


@pytest.fixture
def victim(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user, in the folder outside."""
    with subprocess.Popen(
        ["/bin/cat"],
        stdin=subprocess.PIPE,
        cwd=place.outside,
        env={"SECRET": "untold"},
        user=place.stage.user,
        group=place.stage.user,
        extra_groups=None if place.stage.user is None else [],
    ) as process:
        yield process


def test_paths_outside_are_unreachable(
    place: Place, isolation: str, victim: subprocess.Popen[bytes]
) -> None:
    (place.outside / "secret").write_text("untold")
    place.give()
    ran = place.script(isolation, TRY, place.outside, victim.pid, *ACTS.values())
    assert (ran.out, ran.err) == ("tried\n", "")
    assert [each.name for each in place.outside.iterdir()] == ["secret"]
    assert (place.outside / "secret").read_text() == "untold"
    assert victim.poll() is None


def test_the_same_attempts_succeed_at_basic(place: Place, victim: subprocess.Popen[bytes]) -> None:
    (place.outside / "secret").write_text("untold")
    place.give()
    names = (
        "write",
        "append",
        "read",
        "list",
        "symlink",
        "variables of another",
        "rename",
        "signal",
    )
    acts = [ACTS[name] for name in names]
    ran = place.script("basic", TRY, place.outside, victim.pid, *acts)
    assert ran.out.splitlines() == [*acts, "tried"]


CONNECT = """
import sys, _socket as s

def connect():
    one = s.socket(getattr(s, family), getattr(s, kind))
    one.settimeout(5)
    one.connect(where)
    one.send(b"x")

def send():
    s.socket(getattr(s, family), s.SOCK_DGRAM).sendto(b"x", where)

def send_from_a_pair():
    s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)[0].sendto(b"x", where)

for called in sys.argv[1:]:
    family, kind, *address = called.split()
    where = (address[0], int(address[1])) if len(address) == 2 else address[0].replace("@", chr(0))
    for act in (connect, *((send, send_from_a_pair) if kind == "SOCK_DGRAM" else ())):
        try:
            act()
        except (OSError, TypeError):  # an address that is none of a pair's kind
            pass
"""


def received(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(9)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def listeners(place: Place) -> dict[str, socket.socket]:
    """Each kind of socket, bound outside, by how it is called."""
    found = {}
    path, name = str(place.outside / "socket"), uuid.uuid4().hex
    for family, kind, address in (
        ("AF_INET", "SOCK_STREAM", ("127.0.0.1", 0)),
        ("AF_INET", "SOCK_DGRAM", ("127.0.0.1", 0)),
        ("AF_INET6", "SOCK_STREAM", ("::1", 0)),
        ("AF_UNIX", "SOCK_STREAM", path),
        ("AF_UNIX", "SOCK_DGRAM", f"{path}.dgram"),
        ("AF_UNIX", "SOCK_STREAM", f"\0{name}"),
        ("AF_UNIX", "SOCK_DGRAM", f"\0{name}.dgram"),
    ):
        made = socket.socket(getattr(socket, family), getattr(socket, kind))
        try:
            made.bind(address)
        except OSError:  # no IPv6 here
            made.close()
            continue
        if kind == "SOCK_STREAM":
            made.listen(1)
        if family == "AF_UNIX":
            where = [str(address).replace("\0", "@")]
        else:
            where = [str(part) for part in made.getsockname()[:2]]
        found[" ".join([family, kind, *where])] = made
    for made in place.outside.iterdir():
        made.chmod(0o777)
    return found


def test_no_socket_outside_is_reached_though_it_is_at_basic(place: Place, isolation: str) -> None:
    """By TCP, by UDP, and by those with a path and without, connected or not."""
    found = listeners(place)
    try:
        ran = place.script(isolation, CONNECT, *found)
        assert (ran.code, ran.err) == (0, "")
        assert [called for called, listener in found.items() if received(listener)] == []
        assert place.script("basic", CONNECT, *found).code == 0
        assert [called for called, listener in found.items() if received(listener)] == [*found]
    finally:
        for listener in found.values():
            listener.close()


TRICKS = {
    "in a session of its own": "setsid sh -c '{}'",
    "by an orphan": "(setsid sh -c '{}' & ) & wait; sleep 0.3",
    "in a user namespace": "unshare -r sh -c '{}'",
    "by another loader": "$(ls /lib64/ld-linux-*.so.* | head -1) /bin/sh -c '{}'",
    "without variables": "env -i /bin/sh -c '{}'",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_known_escape_succeeds(place: Place, isolation: str, trick: str) -> None:
    (place.outside / "secret").write_text("untold")
    place.give()
    act = f"cat {place.outside}/secret; echo x > {place.outside}/new; echo tried > tried"
    ran = place.run(isolation, "/bin/sh", "-c", TRICKS[trick].format(act))
    assert "untold" not in ran.out + ran.err
    assert [each.name for each in place.outside.iterdir()] == ["secret"]
    if "namespace" in trick:
        assert "Operation not permitted" in ran.err
        assert not (place.workspace / "tried").exists()
    else:
        assert (place.workspace / "tried").exists(), ran


MEMFD = """
import os, sys
made = os.memfd_create("program")
os.write(made, open("/bin/cat", "rb").read())
os.execve(made, ["cat", sys.argv[1]], {})
"""


def test_a_program_without_a_file_is_confined_too(place: Place, isolation: str) -> None:
    (place.outside / "secret").write_text("untold")
    (place.workspace / "mine").write_text("told")
    place.give()
    assert place.script(isolation, MEMFD, place.workspace / "mine").out == "told"
    ran = place.script(isolation, MEMFD, place.outside / "secret")
    assert (ran.out, ran.code) == ("", 1)


CALLS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in sys.argv[1:]:
    libc.syscall(int(number), 0, 0, 0, 0, 0)
    print(os.strerror(ctypes.get_errno()))
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="its numbers of calls")
def test_the_filter_answers_instead_of_the_kernel(place: Place, isolation: str) -> None:
    """bpf, keyctl, io_uring_setup, unshare, mount, clone3, and getpid of another ABI."""
    calls = ["321", "250", "425", "272", "165", "435", str(0x40000000 + 39)]
    messages = place.script(isolation, CALLS, *calls).out.splitlines()
    refused = "Operation not permitted"
    assert messages == [refused] * 5 + ["Function not implemented", refused]


OLD_CALL = """
int main(void) {
    int said;
    __asm__ volatile("int $0x80" : "=a"(said) : "a"(20)); /* getpid, as 32-bit programs ask */
    return said > 0 ? 0 : 1;
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="another machine's way")
def test_a_call_in_the_old_way_ends_the_program(place: Place, isolation: str) -> None:
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    (place.workspace / "old.c").write_text(OLD_CALL)
    place.give()
    build = place.run(isolation, "sh", "-c", "cc old.c -o old")
    assert build.code == 0, build.err
    if place.run("basic", "./old").code != 0:
        pytest.skip("the kernel has no 32-bit calls")
    assert place.run(isolation, "./old").code in (-31, 128 + 31)  # SIGSYS


SWITCHES = """
import os
for top in ("/proc", "/sys", "/dev"):
    for folder, inner, files in os.walk(top):
        if folder == "/proc":
            inner[:] = [name for name in inner if name.isalpha() and name != "self"]
        for path in ("/dev/null", *(f"{folder}/{name}" for name in files)):
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
            except OSError:
                continue
            print(path)
"""


def test_no_kernel_setting_can_be_changed_not_even_by_root(place: Place, isolation: str) -> None:
    """Opened to write, never written: one file in there is enough to run anything outside."""
    found = set(place.script(isolation, SWITCHES).out.splitlines())
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "ptmx")}
    assert found <= devices | {"/dev/console", "/dev/pts/ptmx"}
    assert "/dev/null" in found


@pytest.mark.skipif(os.geteuid() != 0, reason="root's alone")
def test_root_does_not_keep_extra_capabilities(place: Place, isolation: str) -> None:
    closed = next((path for path in ("/etc/shadow", "/etc/sudoers") if Path(path).exists()), None)
    if closed is None:
        pytest.skip("nothing here is root's alone")
    ran = place.run(
        isolation, "sh", "-c", f"cat {closed}; date -s 2001-01-01; reboot -f; ulimit -c 1"
    )
    assert ran.out.splitlines()[:1] in ([], ["Mon Jan  1 00:00:00 UTC 2001"])
    assert "Permission denied" in ran.err
    assert "cannot set date" in ran.err


def test_root_keeps_only_its_capabilities_over_files_and_children(
    place: Place, isolation: str
) -> None:
    show = ["grep", "-E", "Cap(Inh|Prm|Eff|Bnd|Amb)", "/proc/self/status"]
    before = capabilities(place.run("basic", *show).out)
    held = capabilities(place.run(isolation, *show).out)
    left = 0xFB if isolation == "medium" else 0
    assert held["CapInh"] == held["CapAmb"] == 0
    assert held["CapEff"] == held["CapPrm"] == before["CapPrm"] & left
    if before["CapPrm"]:
        assert held["CapBnd"] == before["CapBnd"] & left


def capabilities(status: str) -> dict[str, int]:
    return {name[:-1]: int(mask, 16) for name, mask in map(str.split, status.splitlines())}


def test_root_may_not_raise_its_limits_again(place: Place, isolation: str) -> None:
    ran = place.run(isolation, "sh", "-c", "ulimit -c; ulimit -n 1000000 || ulimit -Hn")
    assert ran.out.split() in (["0", "8192"], ["0", "4096"])


def test_none_of_our_open_files_is_inherited(place: Place, isolation: str) -> None:
    ran = place.run(isolation, "ls", "/proc/self/fd")
    assert ran.out.split() == ["0", "1", "2", "3"]  # the last is the folder that is listed


@pytest.mark.parametrize(
    "command",
    [
        "echo one | sort | cat > sorted && test -s sorted",
        "cat <<end > here\ntext\nend\ntest -s here",
        "git init -q . && echo x > file && git add file && git -c user.name=A -c user.email=a@b"
        " commit -qm First && git log --oneline",
        "python3 -c 'import json, subprocess; subprocess.run([\"true\"], check=True)'",
        "python3 -c 'import tempfile; tempfile.TemporaryFile().write(b\"x\")'",
        "printf 'all:\\n\\techo made > made\\n' > Makefile && make -s && test -s made",
        "echo 'int main(void) { return 0; }' > a.c && cc a.c -o a && ./a",
        "mkdir -p a/b && mv a c && ln c/../sorted.txt hard 2>/dev/null; test -d c/b",
        "touch ~/.cache && test -e ~/.cache && test -w \"${TMPDIR:-/tmp}\"",
        "node --version",
        "npm --version",
        "trap 'exit 0' TERM; kill $$; exit 1",
        "sleep 100 & kill $! && wait $! ; test $? = 143",
    ],
)  # fmt: skip
def test_developer_tasks_in_the_workspace_work(place: Place, isolation: str, command: str) -> None:
    program = command.split(maxsplit=1)[0]
    for word in (program, "cc" if " cc " in command else program):
        if word in ("git", "make", "cc", "node", "npm") and not shutil.which(word, path="/usr/bin"):
            pytest.skip(f"no {word} here")
    ran = place.run(isolation, "/bin/sh", "-c", command)
    assert ran.code == 0, ran


def test_the_users_name_in_git_is_known_and_nothing_else_of_the_file(
    place: Place, isolation: str
) -> None:
    config = '[user]\n\tname = A "B" \\\\C\n\temail = a@b\n[http]\n\textraheader = untold\n'
    (place.home / ".gitconfig").write_text(config)
    place.give()
    ran = place.run(isolation, "git", "config", "--global", "--list")
    assert ran.out == "user.name=A B \\C\nuser.email=a@b\n"


def test_the_home_is_empty_and_the_real_one_unreachable(place: Place, isolation: str) -> None:
    (place.home / ".ssh").mkdir()
    (place.home / ".ssh/key").write_text("untold")
    place.give()
    ran = place.run(isolation, "sh", "-c", f"ls -A ~; cat {place.home}/.ssh/key; echo new > ~/made")
    assert "untold" not in ran.out
    assert ".ssh" not in ran.out
    assert ran.code == 0
    assert [each.name for each in place.home.iterdir()] == [".ssh"]


def test_a_toolchain_of_the_home_works(place: Place, isolation: str) -> None:
    tool = place.home / ".pyenv/shims/tool"
    tool.parent.mkdir(parents=True)
    (place.home / ".pyenv/version").write_text("three")
    tool.write_text(f"#!/bin/sh\ncat {place.home}/.pyenv/version\n")
    tool.chmod(0o755)
    place.give()
    path = f"{tool.parent}:/usr/bin:/bin"
    ran = place.run(isolation, "tool", env={"PATH": path})
    assert (ran.out, ran.err) == ("three", "")
    ran = place.run(isolation, "sh", "-c", f"echo evil > {tool}", env={"PATH": path})
    assert ran.code != 0
    assert "evil" not in tool.read_text()


def test_a_command_does_not_open_a_folder_by_its_own_path_or_home(
    place: Place, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bin", ".pyenv"):
        (place.outside / folder).mkdir()
        (place.outside / folder / "secret").write_text("untold")
    (place.outside / ".gitconfig").write_text("[user]\n\tname = untold\n")
    monkeypatch.setenv("HOME", str(place.home))
    confined = confine(
        isolation,  # type: ignore[arg-type]
        workspace=place.workspace,
        argv=["sh", "-c", "cat $PLACE/bin/secret $PLACE/.pyenv/secret; git config user.name"],
        env={
            "PATH": f"{place.outside}/bin:/usr/bin:/bin",
            "HOME": str(place.outside),
            "PLACE": str(place.outside),
        },
        cwd=place.workspace,
    )
    ran = run_confined(confined, place.workspace)
    assert "untold" not in ran.out
    assert ran.err.count("cat: ") == 2


def test_variables_that_point_outside_are_not_passed_on(place: Place, isolation: str) -> None:
    outward = {"SSH_AUTH_SOCK": "/a", "XDG_RUNTIME_DIR": "/b", "DBUS_SESSION_BUS_ADDRESS": "c"}
    messages = place.run(isolation, "env", env={**outward, "KEPT": "yes"}).out.splitlines()
    assert "KEPT=yes" in messages
    assert [line for line in messages if line.partition("=")[0] in outward] == []


def test_a_library_that_the_command_names_is_not_loaded_before_it_is_confined(
    place: Place, isolation: str
) -> None:
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    outside = place.outside / "mark"
    marks = "".join(f'open("{mark}", O_CREAT | O_WRONLY, 0600);' for mark in (outside, "loaded"))
    attribute = "__attribute__((constructor)) static void"
    source = f"#include <fcntl.h>\n{attribute} load(void) {{ {marks} }}"
    (place.workspace / "a.c").write_text(source)
    library = place.workspace / "a.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, place.workspace / "a.c"], check=True)
    place.give()
    ran = place.run(isolation, "true", env={"LD_PRELOAD": str(library)})
    assert ran.code == 0, ran
    assert (place.workspace / "loaded").exists()
    assert not outside.exists()


def test_a_command_leaves_nothing_behind(place: Place, isolation: str, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    confined = confine(
        isolation,  # type: ignore[arg-type]
        workspace=tmp_path,
        argv=["true"],
        env={},
        cwd=tmp_path,
        protected=[tmp_path / ".mcp.json"],
        scratch=scratch,
    )
    if isolation == "medium":
        closed = scratch / "tmp/closed"
        (closed / "deeper").mkdir(parents=True)
        closed.chmod(0)
    after(confined)
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_that_holds_the_home_is_refused(
    place: Place, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place.home))
    for workspace in (place.home, place.folder, Path("/")):
        with pytest.raises(IsolationUnavailable, match="contains") as refused:
            confine(isolation, workspace=workspace, argv=["true"], env=place.env, cwd=workspace)  # type: ignore[arg-type]
        assert refused.value.exit_code == 4


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown isolation level 'total'"):
        confine("total", workspace=tmp_path, argv=["true"], env={}, cwd=tmp_path)  # type: ignore[arg-type]


def test_the_child_side_loads_little() -> None:
    from tillerman.supervision.protocol.launch_warden import command

    boot = command("isolation.exec_confined")
    boot[4] = boot[4].replace("main(*sys.argv[1:])", "print(*sys.modules)")
    loaded = subprocess.run(boot, capture_output=True, text=True, check=True).stdout.split()
    heavy = {"asyncio", "contextlib", "enum", "json", "pathlib", "re", "signal", "socket", "typing"}
    assert "tillerman.supervision.isolation.enforcement" in loaded
    assert heavy.intersection(loaded) == set()
