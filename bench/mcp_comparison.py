"""Compares calls of the workspace server with the same calls of DesktopCommander.

Both servers run at ordinary priority in one workspace of 1,000 files, and one client drives them
over stdio. Each call is measured up to its complete result.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from bench import desktop_commander
from bench.mcp_client import Client
from bench.mcp_workspace import Place

FILES = 1_000
FOLDER = "notes"
MATCHING = 20  # one in this many files has the searched text
LINES = 40  # per file; DesktopCommander advises to write at most 50 at once
WARM_UP = 5  # rounds before the measured ones
PAUSE = 0.02  # seconds between two calls, for servers to finish work after an answer
WANTED = "a needle in the haystack"
NAMED = "note-07*.txt"
OUTPUT = "\nhi"
RUNNING = "seq 20; exec sleep 600"

Step = Callable[[], str]


class Row(NamedTuple):
    """One call of each server; `expected` is in the text of every result."""

    name: str
    ours: Step
    theirs: Step
    expected: str


def compare(place: Place, rounds: int) -> None:
    fill(place.workspace)
    with ExitStack() as stack:
        tillerman = stack.enter_context(closing(place.tillerman()))
        echo = stack.enter_context(closing(place.echo()))
        floor = stack.enter_context(closing(place.floor()))
        other = desktop_commander.prepared(place.home / "other")
        theirs = Client(desktop_commander.command(), other, place.workspace)
        stack.enter_context(closing(theirs))
        other_side = Theirs(theirs, place.workspace)
        rows = rows_of(Ours(tillerman), other_side)
        bare = Row("SDK echo | sh -c true", lambda: text_of(echo.call("echo", text="true")),
                   spawn, "true")  # fmt: skip
        least = Row("SDK, and a process that forks",
                    lambda: text_of(floor.call("shell", command="echo hi")), spawn, "")  # fmt: skip
        load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
        pause = f"{PAUSE * 1000:.0f} ms apart"
        print(f"{rounds} rounds, {FILES:,} files, ordinary priority, {load}, {pause}; in ms")
        report(measure([bare, least, *rows], rounds))
        print(
            f"DesktopCommander answered {other_side.asked_again} commands without their output,"
            f" and had lost that of {other_side.lost}"
        )


def fill(workspace: Path) -> None:
    """1,000 files of 40 lines in one folder, 50 of them with the searched text."""
    folder = workspace / FOLDER
    folder.mkdir()
    for number in range(FILES):
        lines = [f"line {line} of note {number}, about nothing much" for line in range(LINES)]
        if number % MATCHING == MATCHING - 1:
            lines[LINES // 2] += f": {WANTED}"
        (folder / f"note-{number:03d}.txt").write_text("\n".join(lines) + "\n")


class Ours:
    def __init__(self, client: Client) -> None:
        self._client = client
        started = client.call("execute_shell", command=RUNNING, run_mode="background")
        self._process: str = started["_meta"]["tillerman/result"]["process_id"]

    def call(self, tool: str, **arguments: Any) -> str:
        return text_of(self._client.call(tool, **arguments))

    def poll(self) -> str:
        return self.call("poll_process", process_id=self._process, tail={"n": 10})


class Theirs:
    """DesktopCommander's calls; its paths are absolute."""

    def __init__(self, client: Client, workspace: Path) -> None:
        self._client = client
        self._workspace = workspace
        self.asked_again = self.lost = 0  # commands whose output was not in the first answer
        text = self.call("start_process", command=RUNNING, timeout_ms=100)
        self._process = _pid_in(text)

    def call(self, tool: str, **arguments: Any) -> str:
        return text_of(self._client.call(tool, **arguments))

    def path(self, name: str = "") -> str:
        return str(self._workspace / FOLDER / name)

    def command(self) -> str:
        """Runs a command; its answer may come before the output.

        Then the output is requested once, because DesktopCommander does not store what arrives
        after the end.
        """
        text = self.call("start_process", command="echo hi", timeout_ms=10_000)
        if OUTPUT not in text:
            text = self.call("read_process_output", pid=_pid_in(text), timeout_ms=1_000)
            self.asked_again += 1
            self.lost += OUTPUT not in text
        return f"{text}\n{OUTPUT}\n"

    def poll(self) -> str:
        return self.call("read_process_output", pid=self._process, offset=-10)

    def search(self, kind: str, pattern: str) -> str:
        """Starts a search and requests its results until it is complete.

        Without the lines around a match, which are its default, because tillerman has none either.
        """
        text = self.call(
            "start_search", path=self.path(), pattern=pattern, searchType=kind, contextLines=0
        )
        found = re.search(r"session: (\S+)", text)
        if found is None:
            raise SystemExit(f"DesktopCommander: {text[:500]}")
        while True:
            text = self.call("get_more_search_results", sessionId=found[1])
            if "Status: COMPLETED" in text:
                return text


def _pid_in(text: str) -> int:
    if found := re.search(r"PID (\d+)", text):
        return int(found[1])
    raise SystemExit(f"DesktopCommander: {text[:500]}")


def rows_of(ours: Ours, theirs: Theirs) -> list[Row]:
    return [*process_rows(ours, theirs), *folder_rows(ours, theirs), *file_rows(ours, theirs)]


def process_rows(ours: Ours, theirs: Theirs) -> list[Row]:
    return [
        Row(
            "command `echo hi`",
            lambda: ours.call("execute_shell", command="echo hi"),
            theirs.command,
            OUTPUT,
        ),
        Row("poll, last 10 lines", ours.poll, theirs.poll, "20"),
        Row(
            "`list_processes`",
            lambda: ours.call("list_processes"),
            lambda: theirs.call("list_processes"),
            "sleep 600",
        ),
        Row(
            "its own that run",
            lambda: ours.call("list_processes", status_filter="live"),
            lambda: theirs.call("list_sessions"),
            "",
        ),
    ]


def folder_rows(ours: Ours, theirs: Theirs) -> list[Row]:
    last = f"note-{FILES - 1}.txt"
    return [
        Row(
            f"list {FILES:,} entries",
            lambda: ours.call("list_directory", path=FOLDER, limit=2 * FILES),
            lambda: theirs.call("list_directory", path=theirs.path()),
            last,
        ),
        Row(
            "search by text",
            lambda: ours.call("search_files", path=FOLDER, pattern=WANTED),
            lambda: theirs.search("content", WANTED),
            last,
        ),
        Row(
            "search by name",
            lambda: ours.call("search_files", path=FOLDER, pattern=NAMED, kind="name"),
            lambda: theirs.search("files", NAMED),
            NAMED.replace("*", "9"),
        ),
    ]


def file_rows(ours: Ours, theirs: Theirs) -> list[Row]:
    """Each server writes and edits a separate file, with the same content."""
    note, edited = "note-500.txt", "edited.txt"
    text = "".join(f"a line with the number {number}\n" for number in range(LINES))
    for prefix in ("ours", "theirs"):
        Path(theirs.path(f"{prefix}-{edited}")).write_text(f"{text}version 0 of this\n{text}")
    versions = {name: count() for name in ("our write", "their write", "our edit", "their edit")}

    def content(name: str) -> str:
        return f"{text}version {next(versions[name])} of this\n"

    def change(name: str, old: str, new: str) -> dict[str, str]:
        version = next(versions[name])
        return {old: f"version {version} of this", new: f"version {version + 1} of this"}

    return [
        Row(
            "`read_file`",
            lambda: ours.call("read_file", path=f"{FOLDER}/{note}"),
            lambda: theirs.call("read_file", path=theirs.path(note)),
            f"line {LINES - 1} of note 500",
        ),
        Row(
            "`write_file`",
            lambda: ours.call("write_file", path=f"{FOLDER}/ours.md", content=content("our write")),
            lambda: theirs.call(
                "write_file",
                path=theirs.path("theirs.md"),
                content=content("their write"),
                mode="rewrite",
            ),
            "",
        ),
        Row(
            "edit by text",
            lambda: ours.call(
                "replace_text_in_file",
                path=f"{FOLDER}/ours-{edited}",
                **change("our edit", "old_text", "new_text"),
            ),
            lambda: theirs.call(
                "edit_block",
                file_path=theirs.path(f"theirs-{edited}"),
                **change("their edit", "old_string", "new_string"),
            ),
            "",
        ),
    ]


def text_of(result: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in result["content"])


def spawn() -> str:
    """Starts a shell that does nothing, as cheaply as the system can."""
    os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "true"], {"PATH": os.defpath}), 0)
    return "true"


def measure(rows: list[Row], rounds: int) -> dict[Row, tuple[list[float], list[float]]]:
    """Both servers alternate, and the first one changes with each round."""
    times: dict[Row, tuple[list[float], list[float]]] = {row: ([], []) for row in rows}
    for number in range(-WARM_UP, rounds):
        for row in rows:
            for side in (0, 1) if number % 2 else (1, 0):
                step = (row.ours, row.theirs)[side]
                time.sleep(PAUSE)
                begin = time.perf_counter()
                text = step()
                took = time.perf_counter() - begin
                if row.expected not in text:
                    raise SystemExit(f"{row.name}: {row.expected!r} is not in {text[-500:]!r}")
                if number >= 0:
                    times[row][side].append(took)
    return times


def report(times: dict[Row, tuple[list[float], list[float]]]) -> None:
    (echo, spawned), (floor, _), (commands, _), *_ = times.values()
    head = ("", "tillerman p50", "p95", "DesktopCommander p50", "p95", "ratio of p50")
    print(f"| {' | '.join(head)} |\n| --- |{' ---: |' * 5}")
    for row, (ours, theirs) in list(times.items())[2:]:
        ratio = median(ours) / median(theirs)
        print(f"| {row.name} | {figures(ours)} | {figures(theirs)} | {ratio:.2f} |")
    least = median(echo) + median(spawned)
    share = median(floor) / least
    parts = f"{median(echo) * 1000:.1f} ms and `sh -c true` {median(spawned) * 1000:.1f} ms"
    times_least = median(commands) / least
    print(f"bare SDK echo {parts}: the command takes {times_least:.2f} x their sum (limit 2)")
    print(
        f"an SDK server with a process that forks, without policy, log, record and namespace:"
        f" {median(floor) * 1000:.1f} ms, {share:.2f} x"
    )


def figures(times: list[float]) -> str:
    return f"{median(times) * 1000:.1f} | {quantiles(times, n=20)[-1] * 1000:.1f}"
