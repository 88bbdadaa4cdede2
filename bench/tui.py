"""Terminal interface: lag of the screen, first paint, long sessions, wake-ups when idle.

python -m bench.tui [lag] [start] [rest]

The screen is that of a real terminal (tmux), sampled every few milliseconds. Lag is the time from
a word's timestamp in the log until a screen with it, or a later one, was seen.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.words import last_number, words
from tillerman.testing.terminal import Tmux

if TYPE_CHECKING:
    from tillerman.core.events import Event

TILLERMAN = [sys.executable, "-m", "tillerman", "tui", "-a", "mock"]
RATES = (1_000, 5_000)
SECONDS = int(os.environ.get("BENCH_SECONDS", "30"))
LOOK = 0.02  # seconds between two samples
KEY_EVERY = 0.5
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))
LONG = 100_000  # entries
_SEQUENCES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
REST = int(os.environ.get("BENCH_REST", "60"))  # seconds


@contextmanager
def place() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with a project, and the environment of a user with that home."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "project").mkdir()
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env = {
            **kept,
            "HOME": name,
            "TILLERMAN_HOME": f"{name}/tillerman",
            "COLORTERM": "truecolor",
            "PYTHONPATH": f"{Path.cwd()}:{Path.cwd()}/src",
        }
        yield folder, env


# -- lag -------------------------------------------------------------------------------------------


def lag() -> None:
    print(f"{SECONDS} s of words; lag in ms, p50 / worst of each third; keys: echo p50 / worst")
    for rate in RATES:
        for name, play in (("tillerman", _ours), ("Markdown.get_stream", _textual)):
            with place() as (folder, env), Tmux(folder) as terminal:
                print(f"  {rate:>5}/s {name:<20} {play(folder, terminal, env, rate)}", flush=True)


def _ours(folder: Path, terminal: Tmux, env: dict[str, str], rate: int) -> str:
    script = folder / "words.json"
    text = "".join(words(rate * SECONDS))
    script.write_text(json.dumps({"pace": 1 / rate, "turns": [[{"say": text}]]}))
    terminal.run(TILLERMAN, env, folder / "project")
    terminal.until("mock works in")
    terminal.type(f"script:{script}")
    time.sleep(0.3)
    terminal.press("Enter")
    looks, keys, sizes = _watch(terminal, rate * SECONDS)
    return _told(looks, keys, sizes, _logged(folder))


def _logged(folder: Path) -> list[float]:
    import apsw

    from tillerman.core.events import MessageChunk, decode_event
    from tillerman.store.row_codec import unpack_event

    found: list[float] = []
    with apsw.Connection(str(next((folder / "tillerman").rglob("*.db")))) as store:
        for at, event in store.execute("SELECT at, event FROM entries ORDER BY seq"):
            told = decode_event(unpack_event(event))
            if isinstance(told, MessageChunk) and last_number(told.text) == len(found):
                found.append(datetime.fromisoformat(at).timestamp())
    return found


def _textual(folder: Path, terminal: Tmux, env: dict[str, str], rate: int) -> str:
    log = folder / "words.log"
    words = [sys.executable, "-m", "bench.markdown_stream", str(rate), str(SECONDS), str(log)]
    terminal.run(words, env, folder)
    looks, keys, sizes = _watch(terminal, rate * SECONDS)
    return _told(looks, keys, sizes, [float(line) for line in log.read_text().split()])


Looks = list[tuple[float, int]]  # time, and the highest number on the screen


def _watch(terminal: Tmux, count: int) -> tuple[Looks, list[float], list[int]]:
    terminal.until(lambda screen: last_number(screen) is not None)
    pid = terminal.pid
    looks: Looks = []
    keys: list[float] = []
    sizes = [_size(pid)]
    typed, letter, pressed = "", "", 0.0
    end = time.time() + SECONDS * 3
    while time.time() < end:
        screen, now = terminal.screen, time.time()
        number = last_number(screen)
        if number is not None:
            looks.append((now, number))
        if letter and typed + letter in screen:
            keys.append(now - pressed)
            typed, letter = typed + letter, ""
        if not letter and now - pressed > KEY_EVERY:
            letter, pressed = "zyx"[len(typed) % 3], now
            terminal.type(letter)
            sizes.append(_size(pid))
        if number == count - 1:
            break
        time.sleep(LOOK)
    return looks, keys, sizes


def _told(looks: Looks, keys: list[float], sizes: list[int], logged: list[float]) -> str:
    """For a sample that shows word n, the lag is the age of the oldest word not shown."""
    lags = []
    for at, number in looks:
        due = bisect_right(logged, at) - 1
        if number < due:
            lags.append((at, (at - logged[number + 1]) * 1000))
        else:
            lags.append((at, 0.0))
    begin, end = looks[0][0], logged[-1]
    thirds: list[list[float]] = [[], [], []]
    for at, late in lags:
        thirds[min(2, max(0, int((at - begin) / (end - begin + 0.001) * 3)))].append(late)
    told = "  ".join(
        f"{median(part):5.0f} /{max(part):6.0f}" if part else "    –" for part in thirds
    )
    last = (looks[-1][0] - logged[-1]) * 1000
    missing = len(logged) - 1 - looks[-1][1]
    end_told = f"last after {last:.0f} ms" if missing <= 0 else f"{missing} words never seen"
    echo = f"{median(keys) * 1000:.0f} /{max(keys) * 1000:4.0f}" if keys else "none"
    grown = (sizes[-1] - sizes[min(len(sizes) - 1, len(sizes) // 3)]) / 2**20
    rate = len(logged) / (logged[-1] - logged[0])
    return f"{told}   {end_told}   keys {echo}   {rate:.0f}/s   {grown:+.0f} MB after a third"


def _size(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()
    return int(pages[1]) * os.sysconf("SC_PAGESIZE")


# -- start -----------------------------------------------------------------------------------------


def start() -> None:
    """Rounds alternate, so that other load affects both."""
    with place() as (folder, env):
        empty = [sys.executable, "-m", "bench.empty_app"]
        asyncio.run(_fill(folder, {"short": 20, "long": LONG}))
        first: dict[str, list[float]] = {"tillerman": [], "empty": []}
        opened: dict[str, list[float]] = {"short": [], "long": []}
        for _ in range(ROUNDS):
            for name, words in (("tillerman", TILLERMAN), ("empty", empty)):
                first[name].append(_seconds(words, env, folder / "project"))
            for name, times in opened.items():
                seen = f"the end of {name}"
                times.append(_seconds([*TILLERMAN, name], env, folder / "project", seen))
    paint, bare = median(first["tillerman"]), median(first["empty"])
    print(
        f"first paint {paint * 1000:.0f} ms, an empty Textual app {bare * 1000:.0f} ms:"
        f" {paint / bare:.2f}x (goal 1.5)"
    )
    long, short = median(opened["long"]), median(opened["short"])
    print(
        f"session of {LONG} entries {long * 1000:.0f} ms, of 20 {short * 1000:.0f} ms:"
        f" {long / short:.2f}x (goal 2)"
    )


def _seconds(words: list[str], env: dict[str, str], cwd: Path, seen: str = "") -> float:
    """Seconds until the terminal received this text, or any; read directly, without tmux."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    begin = time.perf_counter()
    env = {**env, "TERM": "xterm-256color"}
    with subprocess.Popen(
        words, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    ) as program:
        got = b""
        while True:
            if not select.select([master], [], [], 30)[0]:
                raise SystemExit(f"nothing was shown by {words}")
            got += os.read(master, 1 << 16)
            shown = _SEQUENCES.sub(b"", got).decode("utf-8", "ignore")
            if seen in shown if seen else shown.strip():
                break
        spent = time.perf_counter() - begin
        program.kill()
    os.close(master)
    os.close(slave)
    return spent


async def _fill(folder: Path, sizes: dict[str, int]) -> None:
    """Creates sessions with that many entries, by name."""
    from tillerman.core.events import (
        Entry,
        MessageChunk,
        ToolFinished,
        ToolStarted,
        TurnEnded,
        TurnStarted,
    )
    from tillerman.store.catalog import Catalog
    from tillerman.store.database import Database
    from tillerman.store.event_log import EventLog
    from tillerman.store.session_row import SessionRow

    store = folder / "tillerman"
    store.mkdir(exist_ok=True)
    database = Database.open(_store_path(folder))
    log, catalog = EventLog(database), Catalog(database)
    at = "2026-01-01T00:00:00.000Z"
    for name, count in sizes.items():
        row = SessionRow(id=name, agent="mock", cwd=str(folder / "project"), created_at=at)
        await asyncio.wrap_future(catalog.create(row))
        events: list[tuple[int, Event]] = []
        turn = 0
        while len(events) < count - 12:
            turn += 1
            events.append((turn, TurnStarted(origin="prompt", prompt=f"task {turn}")))
            for number in range(20):
                call = f"c{turn}.{number}"
                started = ToolStarted(call_id=call, tool="Bash", name="run", title="Bash `ls`")
                events.append((turn, MessageChunk(message_id=f"m{turn}.{number}", text="Look: ")))
                events.append((turn, MessageChunk(message_id=f"m{turn}.{number}", text="**it**.")))
                events.append((turn, started))
                events.append((turn, ToolFinished(call_id=call, outcome="completed")))
            events.append((turn, TurnEnded(reason="completed")))
        turn += 1
        events.append((turn, TurnStarted(origin="prompt", prompt="and then")))
        events.append((turn, MessageChunk(message_id="last", text=f"This is the end of {name}.")))
        events.append((turn, TurnEnded(reason="completed")))
        entries = [
            Entry(session=name, seq=seq, turn=turn, at=at, event=event)
            for seq, (turn, event) in enumerate(events, 1)
        ]
        for first in range(0, len(entries), 1000):
            await asyncio.wrap_future(log.write(entries[first : first + 1000]))
    database.close()


def _store_path(folder: Path) -> Path:
    from tillerman.paths import find_paths

    return find_paths({"TILLERMAN_HOME": str(folder / "tillerman"), "HOME": str(folder)}).store


# -- rest ------------------------------------------------------------------------------------------


def rest() -> None:
    """Reports what wakes an idle open session."""
    with place() as (folder, env), Tmux(folder) as terminal:
        terminal.run(TILLERMAN, env, folder / "project")
        terminal.until("mock works in")
        terminal.type("script:hello")
        time.sleep(0.3)
        terminal.press("Enter")
        terminal.until("completed")
        time.sleep(5)
        pid = terminal.pid
        subprocess.run(
            ["timeout", "-s", "INT", str(REST), "strace", "-f", "-p", str(pid), "-o",
             str(folder / "calls"), "-ttt"],
            capture_output=True, check=False,
        )  # fmt: skip
        wakes = _wakes((folder / "calls").read_text().splitlines())
        told = ", ".join(f"after {at:.0f} s for {what}" for at, what in wakes) or "never"
        print(f"at rest for {REST} s it woke: {told}")


def _wakes(calls: list[str]) -> Iterator[tuple[float, str]]:
    """Timestamps of calls after a second without any, and the programs that were run then."""
    begun = last = float(calls[0].split()[1])
    programs: dict[float, list[str]] = {}
    woke = begun
    for call in calls:
        at = float(call.split()[1])
        if at - last > 1:
            programs[woke := at] = []
        if woke > begun and (found := re.search(r'execve\("([^"]+)"', call)):
            programs[woke].append(Path(found[1]).name)
        last = at
    return (
        (at - begun, ", ".join(dict.fromkeys(run)) or "nothing") for at, run in programs.items()
    )


def main() -> None:
    parts = {"lag": lag, "start": start, "rest": rest}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
