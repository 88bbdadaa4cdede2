"""Denied commands at execve, with the real kernel: what is refused, what runs, and the cost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.supervision import kills
from tests.supervision.gated import LOADER, PATH, Gated, Ran, build, deny, run_as
from tillerman.core.permission import Rule
from tillerman.supervision.client.child_processes import ChildProcess
from tillerman.supervision.client.supervision_levels import Level
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.exec_gate import seccomp
from tillerman.supervision.exec_gate.settings import (
    ExecRefused,
    GateState,
    gate_settings,
    probe,
)

pytestmark = pytest.mark.skipif(
    seccomp.unsupported() is not None, reason=str(seccomp.unsupported())
)


@pytest.fixture
async def gated(tmp_path: Path, tools: Path) -> AsyncIterator[Gated]:
    rules = (deny("forbidden *"), deny("git push*"))
    async with Gated.open(tmp_path / "records", *rules, path=f"{tools}:{PATH}") as opened:
        yield opened


async def ran(gated: Gated, text: str, folder: Path) -> Ran:
    """Asserts that the denied program did not run; returns the result."""
    mark = folder / "ran"
    done = await gated.run(text, folder, {"RAN": str(mark)})
    assert not mark.exists(), done
    return done


async def test_every_level_of_supervision_has_it(level: Level, tmp_path: Path, tools: Path) -> None:
    path = f"{tools}:{PATH}"
    async with Gated.open(tmp_path / "r", deny("forbidden"), level=level, path=path) as gated:
        done = await gated.run("forbidden; permitted; echo $?", tmp_path, {"RAN": "/dev/null"})
    assert (done.out, done.refused) == ("0\n", ["forbidden"])


async def test_the_programs_inside_of_busybox_are_denied_as_well(tmp_path: Path) -> None:
    if not (busybox := shutil.which("busybox")):
        pytest.skip("no busybox")
    (tmp_path / "kept").touch()
    for name in ("rm", "ash", "innocent"):
        (tmp_path / name).symlink_to(busybox)
    text = (
        "./rm kept; ./ash -c 'rm kept'; busybox rm kept; busybox sh -c 'rm kept';"
        " bash -c 'exec -a rm ./innocent kept'; ./ash -c 'echo fine'"
    )
    async with Gated.open(tmp_path / "r", deny("rm *")) as gated:
        done = await gated.run(text, tmp_path)
    assert (done.out, len(done.refused), (tmp_path / "kept").exists()) == ("fine\n", 5, True), done


async def test_a_changed_copy_is_not_known_again(gated: Gated, tools: Path, tmp_path: Path) -> None:
    """This is a guard rail, not a security boundary."""
    text = f"cp {tools}/forbidden copy; printf x >> copy; ./copy a"
    done = await gated.run(text, tmp_path, {"RAN": str(tmp_path / "ran")})
    assert (done.code, done.refused, (tmp_path / "ran").exists()) == (0, [], True)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="of this machine alone")
@pytest.mark.parametrize("kind", ["a 32-bit program", "int 0x80 of a 64-bit program"])
async def test_calls_of_the_other_abi_are_decided(
    kind: str, gated: Gated, tools: Path, tmp_path: Path
) -> None:
    caller = tmp_path / "caller"
    caller.write_bytes(i386_program(f"{tools}/forbidden".encode()))
    if kind != "a 32-bit program":
        source = INT80.replace("@tool", f"{tools}/forbidden")
        build(caller, source, "-static", "-nostdlib", "-nostartfiles", "-Wl,-z,noexecstack")
    caller.chmod(0o755)
    try:
        subprocess.run([caller], check=False)  # noqa: ASYNC221
    except OSError:
        pytest.skip("this kernel runs no 32-bit programs")
    done = await ran(gated, "./caller; echo $?", tmp_path)
    assert done.refused == ["forbidden a"]


# execve("@tool", {"x", "a", 0}, 0) by int 0x80, whose pointers are 4 bytes: low memory is mapped
INT80 = """
static long call(long n, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d; register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f; long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                     "r"(r9) : "rcx", "r11", "memory");
    return result;
}
void _start(void) {
    char *low = (char *)call(9, 0x200000, 4096, 3, 0x32, -1, 0);
    const char path[] = "@tool";
    for (unsigned i = 0; i < sizeof path; i++) low[i] = path[i];
    low[1000] = 'x'; low[1001] = 0; low[1002] = 'a'; low[1003] = 0;
    unsigned *argv = (unsigned *)(low + 2000);
    argv[0] = 0x200000 + 1000; argv[1] = 0x200000 + 1002; argv[2] = 0;
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(11), "b"(0x200000), "c"(0x200000 + 2000),
                     "d"(0) : "memory", "r8", "r9", "r10", "r11");
    call(60, -result, 0, 0, 0, 0, 0);
}
"""


def i386_program(path: bytes) -> bytes:
    """A hand-made 32-bit ELF file that calls execve(path, {"x", "a", 0}, 0)."""
    base, start = 0x08048000, 52 + 32
    code = bytearray(
        b"\xb8\x0b\0\0\0"  # mov eax, 11
        b"\xbb\0\0\0\0"  # mov ebx, path
        b"\xb9\0\0\0\0"  # mov ecx, argv
        b"\x31\xd2"  # xor edx, edx
        b"\xcd\x80"  # int 0x80
        b"\xf7\xd8\x89\xc3\xb8\x01\0\0\0\xcd\x80"  # exit(-eax)
    )
    words = base + start + len(code)
    argv = struct.pack("<III", words + 12, words + 14, 0)
    struct.pack_into("<I", code, 6, words + 16)
    struct.pack_into("<I", code, 11, words)
    body = bytes(code) + argv + b"x\0a\0" + path + b"\0"
    size = start + len(body)
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    header = ident + struct.pack(
        "<HHIIIIIHHHHHH", 2, 3, 1, base + start, 52, 0, 0, 52, 32, 1, 0, 0, 0
    )
    segment = struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 7, 4096)
    return header + segment + body


# -- which rule ----------------------------------------------------------------------------------


async def test_arguments_count_after_every_expansion(gated: Gated, tmp_path: Path) -> None:
    text = (
        "git init -q .; x=pu; git ${x}sh origin; git -C . push; git -c a.b=c push --force;"
        " git -c alias.p='push --force' p; $(git --exec-path)/git-push; git status -s -uno; echo $?"
    )
    done = await gated.run(text, tmp_path)
    assert done.out == "0\n"
    assert done.refused == [
        "git push origin",
        "git -C . push",
        "git -c a.b=c push --force",
        "git push --force",
        "git-push",
    ]


RULES: dict[str, tuple[list[Rule], list[str]]] = {
    "the first rule that matches decides": (
        [Rule("a", "allow", commands=("echo fine *",)), deny("echo *")],
        ["echo bad"],
    ),
    "a rule that asks comes first as well": (
        [Rule("a", "ask", commands=("echo fine *",)), deny("echo *")],
        ["echo bad"],
    ),
    "a later allow does not count": (
        [deny("echo *"), Rule("a", "allow", commands=("echo *",))],
        ["echo fine", "echo bad"],
    ),
    "everything was allowed before": (
        [Rule("a", "allow", tools=frozenset({"shell"})), deny("echo *")],
        [],
    ),
    "an allow for files alone says nothing of a command": (
        [Rule("a", "allow", commands=("echo *",), paths=("src/",)), deny("echo *")],
        ["echo fine", "echo bad"],
    ),
    "a rule for another agent": (
        [deny("echo *", agents=("codex",)), deny("echo bad")],
        ["echo bad"],
    ),
    "a rule for a place is not judged here": (
        [deny("echo *", paths=("src/",)), deny("echo bad")],
        ["echo bad"],
    ),
    "an exact command": ([deny("echo bad")], ["echo bad"]),
    "the end of a line": ([deny("*bad")], ["echo bad"]),
    "a path of a program": ([deny("/bin/echo bad")], ["echo bad"]),
}


@pytest.mark.parametrize("case", RULES)
async def test_rules_count_in_their_order(case: str, tmp_path: Path) -> None:
    rules, refused = RULES[case]
    async with Gated.open(tmp_path / "r", *rules) as gated:
        done = await gated.run("env echo fine; env echo bad; true")
        seen = [one.removeprefix("env ") for one in done.refused]
    assert [one.removeprefix("/bin/") for one in seen] == refused


async def test_rules_that_change_reach_a_program_that_runs(
    gated: Gated, tools: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    text = "permitted; echo $?; read line < go; permitted; echo $?"
    child = await gated.start(["/bin/sh", "-c", text], tmp_path, {"RAN": str(tmp_path / "ran")})
    assert await next_line(child) == "0\n"
    settings = gate_settings("on", rules=[deny("permitted")], path=gated.path)
    assert settings
    gated.warden.update_exec_policy(settings["policy"])
    while (await gated.run("forbidden a", tmp_path, {"RAN": "/dev/null"})).refused:
        pass  # the gate has read the update once it no longer denies this
    await go(tmp_path)
    assert await next_line(child) == "126\n"
    await child.wait()


async def go(folder: Path) -> None:
    """Lets a program continue that reads a line from the pipe `go`."""
    async with asyncio.timeout(10):
        while True:
            try:
                number = os.open(folder / "go", os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # it does not read yet
                await asyncio.sleep(0.005)
                continue
            os.write(number, b"\n")
            os.close(number)
            return


async def next_line(child: ChildProcess) -> str:
    """The next line that it writes."""
    os.set_blocking(child.stdout, True)
    async with asyncio.timeout(10):
        return (await asyncio.to_thread(os.read, child.stdout, 1000)).decode()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  # there is no notification
            await asyncio.sleep(0.005)


async def test_without_a_rule_that_denies_commands_there_is_no_gate(tmp_path: Path) -> None:
    rules = [Rule("a", "deny", paths=(".env",)), Rule("b", "ask", commands=("rm *",))]
    async with Gated.open(tmp_path / "r", *rules) as gated:
        assert gated.enforcement == {}
        assert (await gated.run("env true; echo $?")).out == "0\n"
        with pytest.raises(LookupError):
            gated.gate_pid()


# -- the gate itself -----------------------------------------------------------------------------


async def test_when_the_gate_is_killed_nothing_more_runs(gated: Gated, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    text = "echo ready; read line < go; env true; echo $?"
    child = await gated.start(["/bin/sh", "-c", text], tmp_path)
    assert await next_line(child) == "ready\n"
    os.kill(gated.gate_pid(), signal.SIGKILL)
    await until(lambda: gated.states == [True, False])
    await go(tmp_path)
    assert await next_line(child) == "126\n"
    await child.wait()
    again = await gated.run("env true; forbidden a; echo $?", tmp_path)
    assert (again.out, again.refused) == ("126\n", ["forbidden a"])


async def test_while_the_gate_is_stopped_programs_wait(gated: Gated, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    text = "env true; echo ready; read line < go; env true; echo end"
    child = await gated.start(["/bin/sh", "-c", text], tmp_path)
    assert await next_line(child) == "ready\n"
    gate = gated.gate_pid()
    os.kill(gate, signal.SIGSTOP)
    await go(tmp_path)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await child.wait()
    os.kill(gate, signal.SIGCONT)
    assert await next_line(child) == "end\n"
    await child.wait()


async def test_a_program_that_waits_for_the_gate_can_be_killed(
    gated: Gated, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    child = await gated.start(["/bin/sh", "-c", "read line < go; env true"], tmp_path)
    gate = gated.gate_pid()
    os.kill(gate, signal.SIGSTOP)
    try:
        await go(tmp_path)
        async with asyncio.timeout(10):
            await child.kill()
    finally:
        os.kill(gate, signal.SIGCONT)


async def test_the_gate_ends_with_its_warden(tmp_path: Path, level: Level) -> None:
    async with Gated.open(tmp_path / "r", deny("forbidden"), level=level) as other:
        child = await other.start(["/bin/sh", "-c", "env sleep 60; echo $?"], tmp_path)
        gate = other.gate_pid()
        os.kill(other.warden.pid, signal.SIGKILL)
        await until(lambda: not Path(f"/proc/{gate}").exists())
        await until(lambda: not Path(f"/proc/{child.pid}").exists())


async def test_a_returning_harness_brings_its_own_rules(tmp_path: Path, tools: Path) -> None:
    """Processes that outlive a harness are still checked."""
    path = f"{tools}:{PATH}"
    first, second = (
        gate_settings("on", rules=[deny(name)], path=path) for name in ("forbidden", "permitted")
    )
    assert first and second
    warden = await WardenClient.start(records=tmp_path / "r", marker="lingers", linger=20.0)
    os.mkfifo(tmp_path / "go")
    (tmp_path / "job").mkdir()
    once = "forbidden; echo $?; permitted; echo $?"
    await warden.run(
        ["/bin/sh", "-c", f"{once}; read line < go; {once}"],
        cwd=tmp_path,
        env={"PATH": path, "RAN": "/dev/null"},
        name="job",
        folder=tmp_path / "job",
        cap=1000,
        lasting=True,
        enforcement={"exec": first},
    )
    output = tmp_path / "job/stdout"
    await until(lambda: output.read_text() == "126\n0\n")
    warden.release()
    again = await WardenClient.rejoin(warden.folder)
    assert again
    try:
        await until(lambda: again.exec_gate.enforced)
        refused: list[object] = []
        again.watch_execs(refused.append)
        again.update_exec_policy(second["policy"])
        await asyncio.sleep(0.2)
        await go(tmp_path)
        await again.running["job"].wait()
    finally:
        await again.close()
    assert output.read_text() == "126\n0\n0\n126\n"
    commands = [one.command for one in refused if isinstance(one, ExecRefused)]
    assert commands == ["permitted"]


async def test_twenty_thousand_arguments_are_read(
    gated: Gated, tools: Path, tmp_path: Path
) -> None:
    text = "forbidden $(seq 20000); permitted $(seq 20000); echo $?"
    done = await gated.run(text, tmp_path, {"RAN": "/dev/null"})
    assert done.out == "0\n"
    assert [one[:16] for one in done.refused] == ["forbidden 1 2 3 "]


async def test_an_overlong_line_is_denied_where_it_may_reach_a_denied_command(
    tmp_path: Path, tools: Path
) -> None:
    rules = [deny("permitted * --force")]
    async with Gated.open(tmp_path / "r", *rules, path=f"{tools}:{PATH}") as gated:
        code = "import os; os.execvp('NAME', ['NAME'] + ['x' * 100_000] * 50 + ['y'])"
        outcomes = []
        for name in ("permitted", "forbidden"):
            argv = ["/bin/sh", "-c", 'ulimit -s unlimited; exec "$0" -c "$1"', sys.executable]
            done = await gated.run(
                [*argv, code.replace("NAME", name)], tmp_path, {"RAN": "/dev/null"}
            )
            outcomes.append((done.code, bool(done.refused)))
    assert outcomes == [(1, True), (0, False)]


async def test_concurrent_spawns_work(gated: Gated, tmp_path: Path) -> None:
    text = (
        "for n in 1 2 3 4 5 6; do"
        " (for m in 1 2 3 4 5 6 7 8 9 10; do env true && echo ok; forbidden $n 2>/dev/null; done) &"
        " done; wait"
    )
    done = await gated.run(text, tmp_path)
    assert done.out == "ok\n" * 60
    assert sorted(done.refused) == sorted(f"forbidden {n}" for n in range(1, 7) for _ in range(10))


async def test_ordinary_work_continues(gated: Gated, tmp_path: Path) -> None:
    text = """
        set -e
        git init -q . && git config user.email a@b && git config user.name a
        printf 'all: a b c\\n%%:\\n\\t@echo $@ > $@\\n' > Makefile && make -s -j4
        git add . && git commit -qm x && git log --oneline | wc -l
        printf 'int main(void) { return 0; }\\n' > m.c && gcc m.c -o m && ./m
        gcc -static m.c -o s && ./s
        python3 -c 'import subprocess; subprocess.run(["true"], check=True)'
        perl -e 'print "perl\\n"'
    """
    done = await gated.run(text, tmp_path)
    assert (done.code, done.out, done.refused) == (0, "1\nperl\n", [])


async def test_signals_do_not_interrupt_an_exec(gated: Gated, tmp_path: Path) -> None:
    """As Go's runtime does: a process gets signals while its exec waits for the answer."""
    code = """
import os, signal
signal.signal(signal.SIGURG, lambda *_: None)
signal.siginterrupt(signal.SIGURG, False)
for _ in range(30):
    pid = os.fork()
    if pid == 0:
        os.execv('/bin/true', ['true'])
    for _ in range(20):
        os.kill(pid, signal.SIGURG)
    assert os.waitpid(pid, 0)[1] == 0
print('fine')
"""
    done = await gated.run([sys.executable, "-c", code], tmp_path)
    assert (done.out, done.err) == ("fine\n", "")


async def test_errors_for_missing_programs_are_the_kernels(gated: Gated, tmp_path: Path) -> None:
    code = """
import os
os.mkdir('folder'); open('plain', 'w').close(); os.symlink('loop', 'loop')
open('bad', 'w').write('#!/no/such/program\\n'); os.chmod('bad', 0o755)
for path in ('/no/such', 'folder', 'plain', 'plain/x', 'loop', 'bad', '', 'x' * 300, 'y/' * 3000):
    try:
        os.execv(path, ['x'])
    except OSError as error:
        print(error.errno)
"""
    plain = tmp_path / "plain-run"
    plain.mkdir()
    expected = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", code], cwd=plain, capture_output=True, text=True, check=True
    )
    done = await gated.run([sys.executable, "-c", code], tmp_path)
    assert (done.out, done.err) == (expected.stdout, "")


async def test_the_programs_own_start_is_not_restricted(tmp_path: Path) -> None:
    """An agent that is a script for a denied interpreter can be started, and runs no other."""
    agent = tmp_path / "agent"
    agent.write_text("#!/usr/bin/env python3\nimport os, sys\nprint(*sys.argv[1:], flush=True)\n"
                     "os.execvp('python3', ['python3', '-c', 'print(2)'])\n")  # fmt: skip
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexec python3 {agent} "$@"\n')
    for path in (agent, wrapper):
        path.chmod(0o755)
    async with Gated.open(tmp_path / "r", deny("python3 *")) as gated:
        for path in (agent, wrapper):
            done = await gated.run([str(path), "a", "b"], tmp_path)
            assert (done.out, done.refused) == ("a b\n", ["python3 -c print(2)"]), path


async def test_no_process_in_the_tree_can_take_the_listener(gated: Gated, tmp_path: Path) -> None:
    code = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
found = os.pidfd_open(int(sys.argv[1]))
print([libc.syscall(438, found, number, 0) for number in range(20)])
"""
    async with Gated.open(tmp_path / "r", deny("forbidden"), level="subreaper") as other:
        await other.run("true")
        argv = ["/usr/bin/python3", "-c", code, str(other.gate_pid())]
        if os.geteuid() == 0:  # which may do anything to a process
            argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]
        done = await other.run(argv, tmp_path)
    assert done.out == f"{[-1] * 20}\n", done


async def test_the_warden_reads_for_an_unprivileged_gate(
    gated: Gated, tools: Path, tmp_path: Path
) -> None:
    """As under Yama, where only ancestors of a process may read its memory."""
    settings = {**gated.enforcement["exec"], "memory_by_warden": True}
    gated.enforcement = {"exec": settings}
    text = (
        "for n in 1 2 3; do (forbidden $n; permitted; echo $?) & done; wait;"
        f" {LOADER} {tools}/forbidden a"
    )
    done = await gated.run(text, tmp_path, {"RAN": "/dev/null"})
    assert done.out == "0\n" * 3
    assert sorted(done.refused)[:3] == [f"forbidden {n}" for n in (1, 2, 3)]
    assert len(done.refused) == 4


# -- where it cannot be had ----------------------------------------------------------------------


async def test_a_harness_inside_a_harness_is_refused_or_runs_without_the_gate(
    gated: Gated, tmp_path: Path
) -> None:
    """There can be one listener above a program; the outer rules apply inside."""
    inner = """
import asyncio, sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from tests.supervision.gated import Gated, deny
from tillerman.core.errors import SupervisionUnavailable

async def main():
    for wanted in ("on", "auto"):
        async with Gated.open(Path("inner"), deny("x"), wanted=wanted) as gated:
            try:
                print((await gated.run("forbidden a; echo $?")).out, gated.warden.exec_gate.reason)
            except SupervisionUnavailable as error:
                print(error.message, "|", error.hint, "|", error.exit_code)

asyncio.run(main())
"""
    folders = [str(kills.SOURCE), str(CHECKOUT)]
    (tmp_path / "inner").mkdir()
    done = await gated.run([sys.executable, "-c", inner, *folders], tmp_path)
    why = (
        "another program already listens to the system calls of this one, as happens when it runs"
        " inside another tillerman"
    )
    without = why if os.geteuid() == 0 else "no program has been started with it yet"
    assert done.out.splitlines() == [
        f"denied commands cannot be enforced here: {why} |"
        ' set enforcement.commands = "auto" to continue without it, or "off" | 4',
        "127",
        f" {without}",
    ], done


def test_the_level_this_machine_can_enforce_is_detected_by_trying() -> None:
    assert probe() == GateState(enforced=True, reason="")


async def test_missing_features_inside_of_a_harness_are_detected_by_trying(
    gated: Gated, tmp_path: Path
) -> None:
    code = "from tillerman.supervision.exec_gate.settings import probe; print(probe().reason)"
    done = await gated.run([sys.executable, "-c", code], tmp_path)
    assert done.out.startswith("another program already listens")


async def test_when_the_rules_cannot_be_loaded_nothing_runs(gated: Gated, tmp_path: Path) -> None:
    settings = {**gated.enforcement["exec"], "modules": None}
    gated.enforcement = {"exec": settings}
    done = await gated.run("env true; echo $?", tmp_path)
    assert done.out == "126\n"


# -- an ordinary user ----------------------------------------------------------------------------


@pytest.fixture
def users_folder(ordinary_user: kills.Stage) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tillerman-user-"))
    if ordinary_user.user is not None:
        os.chown(folder, ordinary_user.user, ordinary_user.user)
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_user_can_enable_it(ordinary_user: kills.Stage, users_folder: Path) -> None:
    texts = ["touch a; rm a; ls; id -u", "sh -c 'r=rm; $r a'; ls"]
    for level in ("auto", "subreaper", "group"):
        done = run_as(ordinary_user, users_folder, [deny("rm *")], texts, level=level)
        assert [(one[1].split()[0], one[3]) for one in done] == [("a", ["rm a"])] * 2, done


def test_an_ordinary_user_does_not_have_it_by_default(
    ordinary_user: kills.Stage, users_folder: Path
) -> None:
    done = run_as(ordinary_user, users_folder, [deny("rm *")], ["touch a; rm a; ls"], wanted="auto")
    assert (done[0][1], done[0][3]) == ("records\n", [])


def test_a_program_an_ordinary_users_gate_cannot_read_is_refused(
    ordinary_user: kills.Stage, users_folder: Path
) -> None:
    """A program that made itself unreadable, and a program file without read permission."""
    hidden = (
        "python3 -c 'import ctypes, os; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0);"
        ' os.execv("/bin/true", ["true"])\'; echo $?'
    )
    closed = "cp /bin/true closed; chmod 111 closed; ./closed; echo $?"
    done = run_as(ordinary_user, users_folder, [deny("rm *")], [hidden, closed])
    assert [one[1] for one in done] == ["1\n", "126\n"], done
    assert done[1][3] == ["./closed"]
    assert done[0][3][0].startswith("process ")


def test_setuid_programs_gain_nothing_for_an_ordinary_user_by_choice(
    ordinary_user: kills.Stage, users_folder: Path
) -> None:
    done = run_as(
        ordinary_user, users_folder, [deny("rm *")], ["grep NoNewPrivs /proc/self/status"]
    )
    assert done[0][1].split() == ["NoNewPrivs:", "1"]


async def test_root_keeps_its_setuid_programs(gated: Gated, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("for root")
    done = await gated.run("grep NoNewPrivs /proc/self/status", tmp_path)
    assert done.out.split() == ["NoNewPrivs:", "0"]
    if shutil.which("sudo"):
        assert (await gated.run("sudo -n id -u", tmp_path)).out.split() == ["0"]
