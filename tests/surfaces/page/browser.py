"""A browser without scripts: signs in by a link, keeps its cookie, sends forms."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.surfaces.page.page_tree import Element, parsed
from tests.surfaces.server.service_desk import MAX_WAIT, Desk, Reply


class Browser:
    def __init__(self, desk: Desk, scope: str = "drive") -> None:
        self.desk = desk
        self.cookie = ""
        link = desk.bench.run("serve", "link", "--scope", scope).stdout.split()[0]
        self.code = parse_qs(urlsplit(link).query)["code"][0]
        reply = self.submit("/in", {"code": self.code})
        assert reply.status == 303, reply
        self.cookie = reply.headers["set-cookie"].split(";")[0]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.desk.port}"

    def headers(self, **changed: str | None) -> dict[str, str]:
        right: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.desk.port}",
            "Cookie": self.cookie or None,
            "Accept": "text/html",
            "Sec-Fetch-Site": "same-origin",
        }
        right |= {name.replace("_", "-"): value for name, value in changed.items()}
        return {name: value for name, value in right.items() if value is not None}

    def get(self, path: str, **headers: str | None) -> Reply:
        return self.desk.send("GET", path, self.headers(**headers))

    def page(self, path: str) -> Element:
        reply = self.get(path)
        assert reply.status == 200, reply
        text = reply.data.decode()
        return parsed(text.removeprefix("<!doctype html>"))

    def submit(self, path: str, fields: Mapping[str, str], **headers: str | None) -> Reply:
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.origin}
        given = self.headers(**{**kind, **headers})
        return self.desk.send("POST", path, given, urlencode(fields).encode())

    def upload(
        self, path: str, fields: Mapping[str, str], files: Sequence[tuple[str, bytes]]
    ) -> Reply:
        edge = uuid.uuid4().hex
        parts = [
            f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
            for name, value in fields.items()
        ]
        for name, data in files:
            head = f'--{edge}\r\nContent-Disposition: form-data; name="files"; filename="{name}"'
            parts.append(f"{head}\r\n\r\n".encode() + data + b"\r\n")
        body = b"".join(parts) + f"--{edge}--\r\n".encode()
        kind = {"Content-Type": f"multipart/form-data; boundary={edge}", "Origin": self.origin}
        return self.desk.send("POST", path, self.headers(**kind), body)

    def csrf(self, path: str = "/new") -> str:
        return next(
            one.attributes["value"]
            for one in self.page(path).walk()
            if one.attributes.get("name") == "csrf"
        )

    @contextmanager
    def frames(self, path: str) -> Iterator[Iterator[dict[str, Any]]]:
        line = HTTPConnection("127.0.0.1", self.desk.port, timeout=MAX_WAIT)
        try:
            line.request("GET", path, headers=self.headers())
            answer = line.getresponse()
            assert answer.status == 200, answer.read()
            yield _frames(answer)
        finally:
            if line.sock:
                line.sock.close()
            line.close()


def _frames(answer: HTTPResponse) -> Iterator[dict[str, Any]]:
    event = b""
    while line := answer.readline():
        if line.startswith(b"event: "):
            event = line[7:].strip()
        elif line.startswith(b"data: ") and event == b"frame":
            yield json.loads(line[6:])


def with_id(root: Element, id: str) -> Element | None:
    return next((one for one in root.walk() if one.attributes.get("id") == id), None)


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
