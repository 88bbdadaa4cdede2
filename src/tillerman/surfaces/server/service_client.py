"""Calls the running service over its Unix socket, with the standard library only."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

import msgspec

from tillerman.core.errors import TillermanError, UsageError
from tillerman.harness.extras import install_command
from tillerman.http_server.token_file import token
from tillerman.paths import Paths, private_folder
from tillerman.remote.error_object import error_of
from tillerman.surfaces.server import service_record
from tillerman.surfaces.server.service_record import ServiceRecord

START_WITHIN = 60.0  # seconds for a service that is started in the background


class ServiceClient:
    def __init__(self, paths: Paths, record: ServiceRecord) -> None:
        self.record = record
        self._token = token(service_record.folder_of(paths) / "token")

    @classmethod
    def find(cls, paths: Paths) -> ServiceClient | None:
        found = service_record.running(paths)
        return cls(paths, found) if found else None

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Returns the decoded response; raises the service's error. `path` is quoted."""
        headers = {"Host": "localhost", "Authorization": f"Bearer {self._token}"}
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        connection = _UnixConnection(self.record.socket)
        try:
            connection.request(method, f"/api/v1{path}", data, headers)
            response = connection.getresponse()
            received = response.read()
        except OSError as error:
            raise TillermanError(
                f"the service does not answer: {error}",
                hint="`tillerman serve --stop` ends it, `tillerman serve` starts it",
            ) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise error_of(received)
        return msgspec.json.decode(received) if received else None


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


def started(paths: Paths) -> ServiceClient:
    """The running service, which is started in the background if none runs."""
    if found := ServiceClient.find(paths):
        return found
    need_server()
    folder = private_folder(paths.logs)
    log = folder / "serve.log"
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tillerman", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=folder,  # a home may be missing
            start_new_session=True,  # it outlives this terminal
        )
    deadline = time.monotonic() + START_WITHIN
    while time.monotonic() < deadline:
        if found := ServiceClient.find(paths):
            return found
        if process.poll() is not None and not service_record.is_held(paths):
            break  # and nobody else is starting one
        time.sleep(0.01)
    raise TillermanError("the service did not start", hint=f"its output is in {log}")


def need_server() -> None:
    """Raises `UsageError` if the libraries of the service are not installed."""
    missing = [name for name in ("starlette", "uvicorn", "websockets") if not find_spec(name)]
    if missing:
        raise UsageError(f"the service needs {', '.join(missing)}", hint=install_command("server"))
