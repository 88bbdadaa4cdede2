"""Round trip of a hook to the harness, including the shim's start, against spawning `true`.

python -m bench.hooks [SECONDS OF IDLENESS]
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

from bench.realtime import first_in_line
from tillerman.hooks.shim_builder import compiled_shim, python_shim

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10")) * 20
IDLE = 60.0
QUESTION = b'{"hook_event_name":"preToolUse","tool_name":"Shell","tool_input":{"command":"ls"}}'
SERVER = """
import asyncio, sys
from pathlib import Path
from tillerman.hooks.server import HookServer, HookReply
from tillerman.hooks.shim_builder import python_shim

async def main():
    def allow(asked):
        asked.reply(HookReply(b'{"permission":"allow"}'))
    server = await HookServer.open(Path(sys.argv[1]), allow, shim=python_shim(Path(sys.argv[2])))
    print("ready", flush=True)
    done = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, done.set)
    await done.wait()
    await server.close()

asyncio.run(main())
"""
# The minimum of a shim of `sh` and `nc -U`: the folder's owner and mode, a nonce, a time limit,
# and the exchange, for which `cat` stands here. It checks less than the others.
SH = """
tokens=$(cat {folder}/key)
[ "$(stat -c '%u %a' {folder})" = "{uid} 700" ] || exit 2
nonce=$(od -An -N16 -tx1 /dev/urandom)
answer=$(timeout 30 cat)
printf '%s' "$answer"
"""


@contextmanager
def served(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, folder / "hooks", folder / "cache"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout
    server.stdout.readline()
    try:
        yield server
    finally:
        server.communicate()


def commands(folder: Path) -> dict[str, Sequence[str]]:
    words = (str(folder / "hooks"), "cursor", "preToolUse", "30")
    compiled = compiled_shim(folder / "cache", os.environ.get("PATH"))
    python = python_shim(folder / "cache")
    script = SH.format(folder=shlex.quote(str(folder / "hooks")), uid=os.getuid())
    found: dict[str, Sequence[str]] = {"true": (shutil.which("true") or "/bin/true",)}
    if compiled:
        found["compiled"] = (*compiled.words, *words)
    found["python"] = (*python.words, *words)
    found["sh, without nc"] = ("/bin/sh", "-c", script)
    found["true in sh"] = ("/bin/sh", "-c", f"{found['true'][0]} || exit 2")
    if compiled:
        line = compiled.command(folder / "hooks", "cursor", "preToolUse", 30, observing=False)
        found["compiled in sh"] = ("/bin/sh", "-c", line)
    return found


def round_trips(commands: Mapping[str, Sequence[str]], folder: Path) -> dict[str, list[float]]:
    question = folder / "question"
    question.write_bytes(QUESTION)
    times: dict[str, list[float]] = {name: [] for name in commands}
    into = (os.POSIX_SPAWN_OPEN, 0, str(question), os.O_RDONLY, 0)
    out = (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)
    for _ in range(ROUNDS):
        for name, words in commands.items():
            begin = time.perf_counter()
            env = {"PATH": os.defpath}
            pid = os.posix_spawn(words[0], words, env, file_actions=[into, out])
            _, status = os.waitpid(pid, 0)
            times[name].append(time.perf_counter() - begin)
            if status:
                raise SystemExit(f"{name} ended with {os.waitstatus_to_exitcode(status)}")
    return times


def report(times: Mapping[str, list[float]]) -> None:
    goals = {"compiled": "   (goal 3)", "python": "   (goal 15)"}
    bare = median(times["true"])
    for name, each in times.items():
        late = quantiles(each, n=20)[-1]
        print(
            f"{name:<16}p50 {median(each) * 1000:6.2f} ms   p95 {late * 1000:6.2f} ms"
            f" {median(each) / bare:7.2f} x{goals.get(name, '')}"
        )


def idle_calls(pid: int, seconds: float) -> list[str]:
    """Every system call of a process and its threads while it gets no requests."""
    strace = subprocess.Popen(
        ["strace", "-f", "-qq", "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(seconds)
    strace.send_signal(signal.SIGINT)
    _, said = strace.communicate()
    # the calls in which strace attached and detached are not wake-ups
    return [line for line in said.splitlines() if "strace:" not in line and "detached" not in line]


def main(idle: float = IDLE) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with first_in_line() as where, served(folder):
            print(f"medians of {ROUNDS}, in turn, {where}", flush=True)
            report(round_trips(commands(folder), folder))
        if shutil.which("strace") is None:
            print("idle server: strace is not installed")
            return
        with served(folder) as server:
            calls = idle_calls(server.pid, idle)
        print(f"idle server: in {idle:.0f} s {len(calls)} calls: {'; '.join(calls)[:300]}")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
