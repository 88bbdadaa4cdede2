"""Where the service listens: a port, by default on loopback, and a Unix socket of this user."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tillerman.core.errors import UsageError
from tillerman.paths import private_folder

PORT = 7345  # by default, so that a page can be bookmarked
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class ListenSettings(NamedTuple):
    host: str = "127.0.0.1"
    port: int | None = None  # None: PORT, or any free one if that is taken
    socket_only: bool = False
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False  # without TLS beyond loopback
    names: Sequence[str] = ()  # by which clients call this machine, besides `host`

    @property
    def tls(self) -> bool:
        return self.certificate is not None

    def check(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise UsageError(
                "--tls-cert and --tls-key are given together", hint="give both, or none of them"
            )
        if not (is_loopback(self.host) or self.tls or self.plain):
            raise UsageError(
                f"{self.host} is reachable from other machines, and the token would be readable",
                hint="give --tls-cert and --tls-key, or use ssh -L; --plain-http accepts the risk",
            )

    def hosts(self, port: int) -> list[str]:
        """The values of Host that are accepted."""
        named = [*LOOPBACK] if is_loopback(self.host) else []
        if not _is_wildcard(self.host):
            named.append(f"[{self.host}]" if ":" in self.host else self.host)
        hosts = [f"{name}:{port}" for name in (*self.names, *dict.fromkeys(named))]
        usual = 443 if self.tls else 80
        return [*hosts, *(self.names if port == usual else ())]

    def url(self, port: int) -> str:
        return f"{'https' if self.tls else 'http'}://{self.hosts(port)[0]}"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_port(settings: ListenSettings) -> socket.socket:
    ports = [PORT, 0] if settings.port is None else [settings.port]
    for port in ports:
        try:
            return _bound(settings.host, port)
        except (OSError, OverflowError) as error:
            if port == ports[-1]:
                raise UsageError(
                    f"cannot listen on {settings.host} port {port}: {error}",
                    hint="use another --port; 0: any free port",
                ) from None
    raise AssertionError


def open_socket(path: Path) -> socket.socket:
    """The socket of this user. The caller holds the service's lock, so an old file is left over."""
    private_folder(path.parent)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _is_wildcard(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False
