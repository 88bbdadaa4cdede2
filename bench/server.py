"""Session service: 100 clients follow one session, beside a bare broadcast of the same bytes.

python -m bench.server [paced] [flood] [warm]

`paced`: an agent says 500 words a second for 30 s; every client checks the order of all entries.
`flood`: an agent writes as fast as it can; then a program that does nothing else sends the same
messages to as many clients, on the same library. Deliveries are entries times clients.
`warm`: first turns of sessions of real CLIs (`bench/warm_agents.py`).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from bench.realtime import first_in_line
from bench.server_clients import Follower, followers
from bench.service_process import END, a_service

CLIENTS = int(os.environ.get("BENCH_CLIENTS", "100"))
SECONDS = int(os.environ.get("BENCH_SECONDS", "30"))
RATE = 500  # entries a second
MEGABYTES = int(os.environ.get("BENCH_MEGABYTES", "10"))  # of the flood
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
STALLED = 5  # clients that read nothing


async def paced(folder: Path) -> None:
    async with a_service(folder, _own(folder)) as service:
        session = await service.session()
        told = await service.followers(session, CLIENTS)
        stalled = await service.followers(session, STALLED, read=False)
        words = " ".join(f"word{number % 97:02d}" for number in range(RATE * SECONDS))
        before, cpu, highest = service.resident, service.cpu, 0
        began = time.perf_counter()
        await service.prompt(session, {"pace": 1 / RATE, "turns": [[{"say": words}]]})
        waiting = [asyncio.ensure_future(one.done.wait()) for one in told]
        while (await asyncio.wait(waiting, timeout=0.5))[1]:
            highest = max(highest, service.resident)
        seconds = time.perf_counter() - began
        spent = service.cpu - cpu
        _close(told, stalled)
    lags = [lag for one in told for lag in one.lags]
    cuts = quantiles(lags, n=100)
    print(f"{CLIENTS} clients follow {told[0].last / seconds:.0f} entries/s for {seconds:.0f} s;")
    print(f"{STALLED} more read nothing")
    print(f"  clients that lost their connection {sum(one.lost for one in told)}")
    print(f"  missed, repeated or out of order  {sum(one.wrong for one in told)}")
    print(f"  last entry of all clients         {sorted({one.last for one in told})}")
    print(f"  entries in a message              {told[0].entries / told[0].frames:.1f}")
    print(f"  from the agent's clock to a client, p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s")
    print(f"  processor of the service          {100 * spent / seconds:.0f} %")
    print(f"  memory before, at most            {before >> 20}, {highest >> 20} MB")


async def flood(folder: Path) -> None:
    ours, bare = [], []
    async with a_service(folder, _own(folder)) as service:
        for _ in range(ROUNDS):
            session = await service.session()
            told = await service.followers(session, CLIENTS)
            await service.prompt(session, [[{"flood": MEGABYTES, "of": "lines"}]])
            await asyncio.gather(*(one.done.wait() for one in told))
            assert not sum(one.wrong + one.lost for one in told)
            ours.append(_rate(told))
            _close(told)
            bare.append(await _bare(folder, told[0].kept or []))
    rate, limit = median(ours), median(bare)
    size = sum(map(len, told[0].kept or [])) // told[0].frames
    print(f"{CLIENTS} clients, {told[0].entries} entries; a message has", end=" ")
    print(f"{told[0].entries / told[0].frames:.0f} entries, {size} bytes")
    print(f"  service       {rate:>12,.0f} deliveries/s")
    print(f"  bare library  {limit:>12,.0f} deliveries/s: {limit / rate:.2f}x of the service")


async def _bare(folder: Path, messages: Sequence[bytes]) -> float:
    file = folder / "messages"
    file.write_bytes(msgspec.msgpack.encode(messages))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.server_bare", str(file), str(CLIENTS)),
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    try:
        port = int(await process.stdout.readline())
        told = []
        for one in await followers(port, "/", {}, CLIENTS):
            one.ends = END
            told.append(one)
        await asyncio.gather(*(one.done.wait() for one in told))
        _close(told)
    finally:
        process.kill()
        await process.wait()
    return _rate(told)


def _own(folder: Path) -> dict[str, str]:
    return os.environ | {"TILLERMAN_HOME": str(folder / "tillerman"), "HOME": str(folder)}


async def warm(folder: Path) -> None:
    from bench import warm_agents  # lazy: it needs the test suite

    await warm_agents.report()


def _rate(told: Sequence[Follower]) -> float:
    entries = sum(one.entries for one in told)
    return entries / (max(one.ended for one in told) - min(one.began for one in told))


def _close(*groups: Sequence[Follower]) -> None:
    for group in groups:
        for one in group:
            one.close()


_KINDS: dict[str, Callable[[Path], Coroutine[Any, Any, None]]] = {
    "paced": paced,
    "flood": flood,
    "warm": warm,
}


def main() -> None:
    for name in sys.argv[1:] or _KINDS:
        with TemporaryDirectory() as place, first_in_line() as where:
            print(f"{name}, {where}", flush=True)
            asyncio.run(_KINDS[name](Path(place)))


if __name__ == "__main__":
    main()
