"""A process that owns one session, for tests that break its gate, stop it or kill it.

gate_harness.py ORDER.json

Each line of stdin is a prompt. It prints every entry of the session as a line, and `null` when the
agent is idle; the end of stdin ends the session.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from tillerman.agents import load
from tillerman.core.events import encode
from tillerman.core.permission import Rule
from tillerman.core.session_options import session_spec
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings, TurnLimits
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import Session
from tillerman.store.database import Database
from tillerman.testing.gate_probe.probes import SERVER

EVERYTHING = (Rule("everything", "ask"),)  # reads too


class Order(msgspec.Struct, frozen=True):
    agent: str
    cwd: str
    marks: str
    approve: str
    environment: dict[str, str]
    options: dict[str, object]
    model: str | None = None
    request: float | None = None  # seconds until a request is denied


async def main(order: Order) -> None:
    paths = find_paths()
    database = Database.open(paths.store)
    sessions = Sessions(paths, database)
    server = {"command": sys.executable, "args": [str(SERVER), order.marks]}
    spec = session_spec(
        cwd=Path(order.cwd), model=order.model, options=order.options, servers={"gate": server}
    )
    run_settings = RunSettings(
        approve=order.approve,
        environment=order.environment,
        limits=TurnLimits(request=order.request),
        rules=EVERYTHING if order.approve == "ask" else (),
    )
    session = await sessions.start(load(order.agent), spec, run_settings)
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            await _turn(session, msgspec.json.decode(line))
    finally:
        await sessions.close()
        database.close()


async def _turn(session: Session, prompt: str) -> None:
    async for entry in session.run(prompt):
        _print(encode(entry))
    _print(b"null")


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order)))
