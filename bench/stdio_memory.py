"""Memory of the stdio layer under floods: RSS over idle must stay under 64 MB.

python bench/stdio_memory.py          1 GB unbroken, 5 GB of lines, 1 GB of garbage, 300 MB of JSON
python bench/stdio_memory.py 50       50 MB of each
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tillerman.agents.mock import agent
from tillerman.core.agent import Prompt
from tillerman.core.events import Event, TurnEnded
from tillerman.core.session_options import session_spec
from tillerman.testing.test_host import PlainHost

LIMIT_MB = 64
LINE_CAP = 16 * 1024 * 1024  # the default of a session
FULL = {"unbroken": 1024, "lines": 5 * 1024, "garbage": 1024, "json": 300, "stderr": 1024}


@dataclass(frozen=True)
class Measured:
    kind: str
    megabytes: int
    seconds: float
    idle_mb: float
    peak_mb: float
    events: int
    end: Event

    @property
    def over_idle_mb(self) -> float:
        return self.peak_mb - self.idle_mb


def rss_mb() -> float:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * 4096 / 1e6


class Peak:
    """Samples the resident set size from a thread, a hundred times a second."""

    def __init__(self) -> None:
        self.value = rss_mb()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.01):
            self.value = max(self.value, rss_mb())


async def flood(kind: str, megabytes: int, folder: Path) -> Measured:
    """A flooding turn of the mock; the consumer inspects each event and discards it."""
    async with PlainHost.open(folder, line_cap=LINE_CAP) as host:
        conversation = await agent.open(session_spec(cwd=folder), host)
        received = conversation.batches()
        await anext(received)
        gc.collect()
        idle, start, events = rss_mb(), time.monotonic(), 0
        with Peak() as peak:
            await conversation.prompt(Prompt(json.dumps([{"flood": megabytes, "of": kind}])))
            end: Event | None = None
            while end is None:
                for one in await anext(received):
                    events += len(one.events)
                    end = next((e for e in one.events if isinstance(e, TurnEnded)), end)
        seconds = time.monotonic() - start
        await conversation.close()
        async for _ in received:
            pass
        return Measured(kind, megabytes, seconds, idle, peak.value, events, end)


def measure(kind: str, megabytes: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(flood(kind, megabytes, Path(folder)))


def main(words: list[str]) -> int:
    sizes = {kind: int(words[0]) for kind in words[1:] or FULL} if words else FULL
    worst = 0.0
    for kind, megabytes in sizes.items():
        it = measure(kind, megabytes)
        worst = max(worst, it.over_idle_mb)
        print(
            f"{it.kind:9} {it.megabytes:5} MB  {it.seconds:6.1f} s"
            f"  {it.megabytes / it.seconds:6.0f} MB/s  {it.events:9} events"
            f"  idle {it.idle_mb:5.1f} MB  peak +{it.over_idle_mb:5.1f} MB"
        )
    print(f"worst: +{worst:.1f} MB over idle; the limit is {LIMIT_MB} MB")
    return 0 if worst < LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
