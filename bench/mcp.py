"""MCP workspace server: calls against the bare SDK and DesktopCommander, relays, long output.

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
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median

from bench.mcp_client import Client
from bench.mcp_comparison import compare
from bench.mcp_workspace import ECHO, Place, a_place
from bench.realtime import first_in_line
from tillerman.mcp import stdio_relay
from tillerman.workspace.processes.output_reader import tail

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10")) * 10
STARTS = int(os.environ.get("BENCH_ROUNDS", "10"))
RELAYS = 50
MEASURED = 5  # SDK servers, extrapolated to 50
LONG = 5 * 1024**3
SHORT = 5 * 1024
LIMIT_MB = 64
HARNESS = """
import asyncio, sys
from functools import partial
from pathlib import Path
import tillerman
from tillerman.mcp.line_transport import serve_lines
from tillerman.mcp.server import workspace_server
from tillerman.sessions.remote.private_socket import PrivateSocketServer

async def serve(bench, reader, writer):
    await serve_lines(workspace_server(bench), reader, writer)

async def main():
    async with tillerman.open(cwd=sys.argv[1]) as harness:
        session = await harness.serve(approve="auto")
        reception = PrivateSocketServer(partial(serve, session.bench))
        await reception.open(Path(sys.argv[2]))
        print("ready", flush=True)
        done = asyncio.Event()
        asyncio.get_running_loop().add_reader(0, done.set)
        await done.wait()
        await reception.close()

asyncio.run(main())
"""


# -- relays ----------------------------------------------------------------------------------------


@contextmanager
def a_harness(place: Place) -> Iterator[list[str]]:
    """The command that starts a relay to a running harness."""
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
        yield [sys.executable, "-I", "-S", str(stdio_relay.__file__), str(socket)]
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
    """MB of proportional set size (PSS) of `count` processes."""
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
    with a_place() as place, closing(place.tillerman()) as client:
        flood(client)


def tails(folder: Path) -> None:
    """The long file is sparse except for its last lines: reading them must not scan the rest."""
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
    name = began["_meta"]["tillerman/result"]["process_id"]
    status = "running"
    while status == "running":
        polled = client.call("poll_process", process_id=name, wait_ms=1000, tail={"n": 10})
        status = polled["_meta"]["tillerman/result"]["status"]
        time.sleep(0.1)
    took = time.perf_counter() - begin
    stop.set()
    watcher.join()
    written = polled["_meta"]["tillerman/result"]["stdout_bytes"]
    print(
        f"server while a process writes {written / 1e9:.1f} GB in {took:.0f} s: {idle:.0f} MB idle,"
        f" {peak[0] - idle:.0f} MB more at most   (limit {LIMIT_MB})"
    )


def rss(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def calls() -> None:
    with a_place() as place:
        compare(place, ROUNDS)


PARTS = {"calls": calls, "relays": relays, "output": output}


def main(*parts: str) -> None:
    for name in parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
