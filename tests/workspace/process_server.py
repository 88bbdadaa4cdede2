"""A server of workspace processes that can be killed: `process_server.py HOME SESSION… LINGER`.

Reads one JSON list a line, a session, a method and its arguments, and answers each with one line.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tillerman.core.errors import TillermanError
from tillerman.store.database import Database
from tillerman.store.process_table import ProcessTable
from tillerman.workspace.processes.process_place import ProcessPlace
from tillerman.workspace.processes.shell_processes import Processes

SOURCE = Path(__file__).resolve().parents[2] / "src"
ENV = {"PATH": os.environ.get("PATH", os.defpath)}


async def open_processes(
    home: Path, session: str, table: ProcessTable, **options: Any
) -> Processes:
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    place = ProcessPlace(work, home / "processes", home / "spawns", **options)
    return await Processes.open(session, table, place)


class Server:
    """The server as seen by the process that kills it."""

    def __init__(
        self, home: Path, sessions: Sequence[str], *, linger: float = 30, level: str = "auto"
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(home), level, str(linger), *sessions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PYTHONPATH": str(SOURCE), "PATH": os.environ["PATH"]},
        )
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, session: str, method: str, *arguments: Any, **options: Any) -> None:
        self.stdin.write(json.dumps([session, method, arguments, options]) + "\n")
        self.stdin.flush()

    def receive(self) -> Any:
        line = self.stdout.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def ask(self, session: str, method: str, *arguments: Any, **options: Any) -> Any:
        self.send(session, method, *arguments, **options)
        return self.receive()

    def start(self, session: str, command: str, mode: str = "background", **options: Any) -> Any:
        return self.ask(session, "start", command, mode=mode, **options)

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def stop(self, how: str) -> None:
        """`close` ends every session, `let_go` leaves background processes running."""
        self.ask("", how)
        self.close()

    def close(self) -> None:
        self.process.wait(30)
        self.stdin.close()
        self.stdout.close()


async def _serve(home: Path, level: str, linger: float, sessions: list[str]) -> None:
    database = Database.open(home / "store.db")
    table = ProcessTable(database)
    options = {"level": level, "linger": linger}
    opened = {
        name: await open_processes(home, name, table, **options)  # type: ignore[arg-type]
        for name in sessions
    }
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        session, method, arguments, options = json.loads(line)
        try:
            if method in ("close", "let_go"):
                those = [opened[session]] if session else opened.values()
                await asyncio.gather(*(getattr(one, method)() for one in those))
                answer: Any = None
            else:
                answer = await _call(opened[session], method, arguments, options)
        except TillermanError as error:
            answer = {"refused": error.message}
        print(json.dumps(msgspec.to_builtins(answer)), flush=True)
        if method in ("close", "let_go") and not session:
            break
    database.close()


async def _call(
    processes: Processes, method: str, arguments: list[Any], options: dict[str, Any]
) -> Any:
    if method in ("start", "run"):
        options = {"cwd": Path("/"), "env": ENV, **options}
    if method == "write":
        arguments[1] = arguments[1].encode()
    answer = getattr(processes, method)(*arguments, **options)
    return await answer if asyncio.iscoroutine(answer) else answer


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4:]))
