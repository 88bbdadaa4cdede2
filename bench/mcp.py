"""The workspace server: calls against the bare SDK's and DesktopCommander's, relays, long output.

python -m bench.mcp [calls] [relays] [output]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench import desktop_commander
from bench.mcp_client import Client
from bench.realtime import first_in_line
from bridle.mcp import relay
from bridle.workspace.output import tail

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10")) * 10
STARTS = int(os.environ.get("BENCH_ROUNDS", "10"))
PAUSE = 0.05  # seconds between two calls: nobody asks at once when there is an answer
RELAYS = 50
MEASURED = 5  # SDK servers, of which 50 are reckoned
LONG = 5 * 1024**3
SHORT = 5 * 1024
LIMIT_MB = 64
ECHO = [sys.executable, "-m", "bench.mcp_echo"]
HARNESS = """
import asyncio, sys
from functools import partial
from pathlib import Path
import bridle
from bridle.mcp.lines import serve_lines
from bridle.mcp.server import workspace_server
from bridle.sessions.reception import Reception

async def serve(bench, reader, writer):
    await serve_lines(workspace_server(bench), reader, writer)

async def main():
    async with bridle.open(cwd=sys.argv[1]) as harness:
        session = await harness.serve(approve="auto")
        reception = Reception(partial(serve, session.bench))
        await reception.open(Path(sys.argv[2]))
        print("ready", flush=True)
        done = asyncio.Event()
        asyncio.get_running_loop().add_reader(0, done.set)
        await done.wait()
        await reception.close()

asyncio.run(main())
"""


class Place:
    """A workspace with nothing in it but a repository, and a home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        subprocess.run(["git", "init", "-q", self.workspace], check=True)
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "BRIDLE_HOME": str(self.home),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }

    def bridle(self) -> Client:
        words = [sys.executable, "-m", "bridle", "mcp", "serve", "--approve", "auto"]
        return Client(words, self.env, self.workspace)

    def echo(self) -> Client:
        return Client(ECHO, self.env, self.workspace)


@contextmanager
def a_place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as name:
        yield Place(Path(name))


# -- calls -----------------------------------------------------------------------------------------


def calls() -> None:
    with first_in_line() as where, ExitStack() as stack:
        place = stack.enter_context(a_place())
        bridle = stack.enter_context(closing(place.bridle()))
        echo = stack.enter_context(closing(place.echo()))
        acts: dict[str, Callable[[], Any]] = {
            "SDK echo": lambda: echo.call("echo", text="true"),
            "sh -c true": spawn,
            "sync": lambda: bridle.call("execute_shell", command="true"),
            "async start": lambda: bridle.call("execute_shell", command="true", run_mode="async"),
        }
        runs = bridle.call("execute_shell", command="sleep 600", run_mode="async")
        name = runs["_meta"]["bridle/result"]["process_id"]
        acts["poll"] = lambda: bridle.call("poll_process", process_id=name)
        try:
            other = desktop_commander.prepared(place.home / "other")
            theirs = Client(desktop_commander.command(), other, place.workspace)
        except OSError as error:
            print(f"DesktopCommander is left out: {error}")
        else:
            stack.enter_context(closing(theirs))
            pid, others = their_acts(theirs)
            stack.callback(theirs.call, "force_terminate", pid=pid)
            acts |= others
        print(f"medians of {ROUNDS}, in turn, {PAUSE * 1000:.0f} ms apart, {where}", flush=True)
        tell_calls(in_turn(acts))
        bridle.call("kill_process", process_id=name)


def spawn() -> None:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "true"], {"PATH": os.defpath})
    os.waitpid(pid, 0)


def their_acts(client: Client) -> tuple[int, dict[str, Callable[[], Any]]]:
    """And a process to be ended. A start waits for the end of the command, at most so long."""

    def start(command: str, most: int) -> int:
        said = str(client.call("start_process", command=command, timeout_ms=most))
        found = re.search(r"PID (\d+)", said)
        if found is None:
            raise SystemExit(f"DesktopCommander says: {said[:500]}")
        return int(found[1])

    pid = start("exec sleep 600", 1)
    return pid, {
        "DC sync": lambda: start("true", 10_000),
        "DC async start": lambda: start("true", 1),
        "DC poll": lambda: client.call("read_process_output", pid=pid, timeout_ms=1),
    }


def in_turn(acts: Mapping[str, Callable[[], Any]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in acts}
    for round in range(ROUNDS + 3):
        for name, act in acts.items():
            time.sleep(PAUSE)
            begin = time.perf_counter()
            act()
            if round >= 3:
                times[name].append(time.perf_counter() - begin)
    return times


def tell_calls(times: Mapping[str, list[float]]) -> None:
    took = {name: median(each) for name, each in times.items()}
    least = took["SDK echo"] + took["sh -c true"]
    against = {"sync": least, "async start": least, "poll": took["SDK echo"]}
    goals = {"sync": "goal 3 ms", "async start": "goal 20 ms", "poll": ""}
    for name, each in times.items():
        line = f"{name:<16}p50 {took[name] * 1000:6.2f} ms   p95 {late(each) * 1000:6.2f} ms"
        if name in against:
            what = "echo" if name == "poll" else "echo and sh"
            line += f"   {took[name] / against[name]:5.2f} x {what}"
            if theirs := took.get(f"DC {name}"):
                line += f"   {took[name] / theirs:5.2f} x DesktopCommander"
            line += f"   ({goals[name]})" if goals[name] else ""
        print(line)


def late(times: list[float]) -> float:
    return quantiles(times, n=20)[-1]


# -- relays ----------------------------------------------------------------------------------------


@contextmanager
def a_harness(place: Place) -> Iterator[list[str]]:
    """The words that start a relay to one that is warm."""
    socket = place.home.parent / "tools"
    process = subprocess.Popen(
        [sys.executable, "-c", HARNESS, place.workspace, socket],
        env=place.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.readline()
    try:
        yield [sys.executable, "-I", "-S", str(relay.__file__), str(socket)]
    finally:
        process.communicate()


def relays() -> None:
    with a_place() as place, a_harness(place) as words:
        with first_in_line() as where:
            times: dict[str, list[float]] = {"relay": [], "SDK server": []}
            for round in range(STARTS + 1):
                for name, argv in (("relay", words), ("SDK server", ECHO)):
                    begin = time.perf_counter()
                    client = Client(argv, place.env, place.workspace)
                    if round:
                        times[name].append(time.perf_counter() - begin)
                    client.close()
            took = {name: median(each) for name, each in times.items()}
            print(f"start to initialized, medians of {STARTS}, in turn, {where}")
            print(f"relay           {took['relay'] * 1000:7.1f} ms")
            print(
                f"SDK server      {took['SDK server'] * 1000:7.1f} ms"
                f"   the relay is {took['SDK server'] / took['relay']:.1f} x faster"
            )
        ours = memory(words, RELAYS, place)
        theirs = memory(ECHO, MEASURED, place) / MEASURED * RELAYS
        print(f"{RELAYS} relays       {ours:7.1f} MB of PSS")
        print(
            f"{RELAYS} SDK servers  {theirs:7.1f} MB, reckoned from {MEASURED}"
            f"   {ours / theirs:.3f} x"
        )


def memory(argv: list[str], count: int, place: Place) -> float:
    """MB that so many have of their own, and their part of what they share."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(closing(Client(argv, place.env, place.workspace)))
            for _ in range(count)
        ]
        return sum(pss(client.pid) for client in clients)


def pss(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


# -- output ----------------------------------------------------------------------------------------


def output() -> None:
    with tempfile.TemporaryDirectory() as name:
        tails(Path(name))
    with a_place() as place, closing(place.bridle()) as client:
        flood(client)


def tails(folder: Path) -> None:
    """The long file is a hole but for its last lines: nobody has to read that far."""
    line = b"a line of output, as there are many\n"
    files = {"5 KB": folder / "short", "5 GB": folder / "long"}
    for path, size in zip(files.values(), (SHORT, LONG), strict=True):
        with path.open("wb") as file:
            file.seek(size - SHORT)
            file.write(line * (SHORT // len(line)))
    times: dict[str, list[float]] = {name: [] for name in files}
    for _ in range(ROUNDS):
        for name, path in files.items():
            begin = time.perf_counter()
            tail(path, 100)
            times[name].append(time.perf_counter() - begin)
    took = {name: median(each) for name, each in times.items()}
    print(
        f"tail of 100 lines: {took['5 KB'] * 1e6:.0f} µs of 5 KB, {took['5 GB'] * 1e6:.0f} µs of"
        f" 5 GB: {took['5 GB'] / took['5 KB']:.2f} x   (goal 3)"
    )


def flood(client: Client) -> None:
    client.call("execute_shell", command="true")
    idle = rss(client.pid)
    peak, stop = [idle], threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            peak[0] = max(peak[0], rss(client.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    command = f"yes 'so it goes on and on' | head -c {LONG}"
    began = client.call("execute_shell", command=command, run_mode="async")
    name = began["_meta"]["bridle/result"]["process_id"]
    status = "running"
    while status == "running":
        polled = client.call("poll_process", process_id=name, wait_ms=1000, tail={"n": 10})
        status = polled["_meta"]["bridle/result"]["status"]
        time.sleep(0.1)
    took = time.perf_counter() - begin
    stop.set()
    watcher.join()
    written = polled["_meta"]["bridle/result"]["stdout_bytes"]
    print(
        f"server while a process writes {written / 1e9:.1f} GB in {took:.0f} s: {idle:.0f} MB idle,"
        f" {peak[0] - idle:.0f} MB more at most   (limit {LIMIT_MB})"
    )


def rss(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


PARTS = {"calls": calls, "relays": relays, "output": output}


def main(*parts: str) -> None:
    for name in parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
