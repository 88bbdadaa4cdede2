"""`tillerman mcp serve --http`, and its HTTP clients: by hand or with the SDK."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation

from tests.stand_ins.warm_python import Forked

HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
)
SPOKEN = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Door:
    port: int
    token: str
    file: Path
    process: Forked | subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def knock(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes = HELLO
    ) -> tuple[int, dict[str, str], bytes]:
        """A request with only these headers, sent at once: a server that refuses it does not wait
        for more."""
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        lines += [f"Content-Length: {len(body)}", "", ""]
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as line:
            line.sendall("\r\n".join(lines).encode("latin-1") + body)
            answer = http.client.HTTPResponse(line, method=method)
            answer.begin()
            with answer:
                return answer.status, dict(answer.getheaders()), answer.read()

    def headers(self, **changed: str | None) -> list[tuple[str, str]]:
        right: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            **SPOKEN,
        }
        right |= {name.replace("_", "-"): value for name, value in changed.items()}
        return [(name, value) for name, value in right.items() if value is not None]


SERVE = ("mcp", "serve", "--http", "0", "--approve", "auto")


def opened(process: Forked | subprocess.Popen[bytes]) -> Door:
    assert process.stderr
    message = process.stderr.readline().decode()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp, token in (.+)\n", message)
    assert found, message
    file = Path(found[2])
    return Door(int(found[1]), file.read_text().strip(), file, process)


def shut(door: Door) -> None:
    door.process.terminate()
    assert door.process.wait(20) == 0
    assert door.process.stderr
    errors = door.process.stderr.read().decode()
    assert "Traceback" not in errors, errors
    door.process.stderr.close()
    if door.process.stdout:
        door.process.stdout.close()


@asynccontextmanager
async def client(door: Door, mode: str = "auto", name: str = "") -> AsyncIterator[Client]:
    """With a name: the one that it sends, where that of the SDK is the default."""
    info = Implementation(name=name, version="1") if name else None
    headers = {"Authorization": f"Bearer {door.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(door.url, http_client=http)
        async with Client(transport, mode=mode, client_info=info) as made:
            yield made


# -- who may ---------------------------------------------------------------------------------------
