"""Refuses requests that name another host, or that a page of another origin sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Headers = Mapping[bytes, Sequence[bytes]]
Refusal = tuple[int, str]

UNIX_HOST = b"localhost"  # the host that clients of the Unix socket name
_OWN_SITE = ((b"none",), (b"same-origin",))


def headers_of(scope: Mapping[str, Any]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


class OriginCheck:
    """Compares with exact lists: a suffix, a trailing dot or another port is another host."""

    def __init__(self, hosts: Sequence[str], *, tls: bool) -> None:
        """`hosts` with their port, as a client names them."""
        scheme = "https" if tls else "http"
        self._hosts = {host.encode() for host in hosts}
        self._origins = {f"{scheme}://{host}".encode() for host in hosts}

    def refusal(self, headers: Headers, *, unix: bool) -> Refusal | None:
        hosts = headers.get(b"host", ())
        if len(hosts) != 1 or not (hosts[0] in self._hosts or (unix and hosts[0] == UNIX_HOST)):
            return 421, "this is not the host that you asked for"
        if b"origin" in headers and not self.is_own_page(headers):
            return 403, "this origin may not use the service"
        if tuple(headers.get(b"sec-fetch-site", (b"none",))) not in _OWN_SITE:
            return 403, "a page of another site may not use the service"
        return None

    def is_own_page(self, headers: Headers) -> bool:
        """Whether a page of this service sent the request."""
        origins = headers.get(b"origin", ())
        return len(origins) == 1 and origins[0] in self._origins
