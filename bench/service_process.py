"""A service in a process of its own, for benchmarks: its requests, memory and processor time."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.server_clients import Follower, followers

END = b'"type":"turn_ended"'


class Service:
    def __init__(self, url: str, token: str, pid: int, folder: Path) -> None:
        self.port = urlsplit(url).port or 0
        self.headers = {"Authorization": f"Bearer {token}"}
        self.pid = pid
        self._folder = folder

    def get(self, path: str) -> dict[str, object]:
        return self._call("GET", path, None)

    def post(self, path: str, body: object) -> dict[str, object]:
        return self._call("POST", path, json.dumps(body))

    def _call(self, method: str, path: str, body: str | None) -> dict[str, object]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = self.headers | ({"Content-Type": "application/json"} if body else {})
        line.request(method, f"/api/v1{path}", body, headers)
        response = line.getresponse()
        answer: dict[str, object] = json.loads(response.read())
        line.close()
        if response.status >= 400:
            raise SystemExit(f"{method} {path}: {answer}")
        return answer

    async def session(self) -> str:
        body = {"agent": "mock", "cwd": str(self._folder), "approve": "auto"}
        row = await asyncio.to_thread(self.post, "/sessions", body)
        return str(row["id"])

    async def prompt(self, session: str, script: object) -> None:
        file = self._folder / "script.json"
        file.write_text(json.dumps(script))
        body = {"text": str(file), "linger": 3600}
        await asyncio.to_thread(self.post, f"/sessions/{session}/turns", body)

    async def followers(self, session: str, count: int, *, read: bool = True) -> Sequence[Follower]:
        path = f"/api/v1/sessions/{session}/events?since=0"
        found = await followers(self.port, path, self.headers, count, read=read)
        for one in found:
            one.ends = END
        return found

    @property
    def resident(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4096

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def a_service(folder: Path, environment: Mapping[str, str]) -> AsyncIterator[Service]:
    """`environment` names `TILLERMAN_HOME`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tillerman", "serve", "--port", "0"),
        env=environment,
        cwd=folder,
        stderr=subprocess.DEVNULL,
    )
    state = Path(environment["TILLERMAN_HOME"], "state/server")
    try:
        await asyncio.to_thread(_written, state / "service.json")
        record = json.loads((state / "service.json").read_bytes())
        token = (state / "token").read_text().strip()
        yield Service(record["url"], token, process.pid, folder)
    finally:
        process.terminate()
        await process.wait()


def _written(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)
