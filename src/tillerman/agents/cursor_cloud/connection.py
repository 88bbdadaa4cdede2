"""HTTP requests to the API: authorised, redacted, repeated where that is safe, with ETags."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tillerman.agents.cursor_cloud.api_objects import is_v0
from tillerman.agents.cursor_cloud.backoff import LONGEST_WAIT, Backoff, retry_after
from tillerman.agents.cursor_cloud.failures import (
    INVALID,
    NAME,
    NEED_KEY,
    CloudRequestFailed,
    invalid,
    refused,
    unreachable,
)
from tillerman.agents.decoding.fields import Table, parse, storable
from tillerman.core.errors import ConfigError, NotSignedIn, UsageError
from tillerman.supervision.secrets import Secrets

if TYPE_CHECKING:
    import httpx2

AGENTS = "/v1/agents"
V0_AGENTS = "/v0/agents"
PAGE = 100  # agents or runs of one answer
BASE_URL = "https://api.cursor.com"
MOST_BODY = 64 * 1024 * 1024  # bytes of one answer
MOST_CACHED = 200  # answers with an ETag
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_AGAIN = frozenset({429, 500, 502, 503, 504})


class ApiSettings(NamedTuple):
    key: str
    base_url: str = BASE_URL
    backoff: Backoff = Backoff()
    silence: float = 90.0  # seconds without a byte after which a connection is given up

    def __repr__(self) -> str:  # without the key
        return f"ApiSettings({self.base_url!r})"


def check_settings(key: str | None, base_url: str | None) -> ApiSettings:
    """Raises for a missing key, and for a URL to which a key must not be sent."""
    if not key or not key.strip():
        raise NotSignedIn(NAME, f"{NAME} has no API key", hint=NEED_KEY)
    if not key.isascii() or not key.isprintable() or " " in key.strip():
        raise ConfigError("the API key has characters that no key has", hint=NEED_KEY)
    url = (base_url or BASE_URL).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ConfigError(
            f"agents.{NAME}.base_url is not an https URL: {url}",
            hint="the API key would be readable on the way: use https",
        )
    if parts.username or parts.query or parts.fragment:
        raise ConfigError(
            f"agents.{NAME}.base_url has more than a host and a path", hint="use https://HOST"
        )
    return ApiSettings(key.strip(), url)


def agent_path(id: str) -> str:
    if not id or not id.isascii() or any(sign in id for sign in "/?#%.\\ ") or not id.isprintable():
        raise UsageError(
            f"not the id of a cloud agent: {id!r}", hint="`tillerman cloud list` shows the ids"
        )
    return f"{V0_AGENTS if is_v0(id) else AGENTS}/{id}"


class ApiConnection:
    def __init__(self, settings: ApiSettings) -> None:
        self.settings = settings
        self._secrets = Secrets({"CURSOR_API_KEY": settings.key})
        self._client: httpx2.AsyncClient | None = None
        self._cached: OrderedDict[str, tuple[str, Table]] = OrderedDict()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client:
            await client.aclose()

    def redact(self, data: bytes) -> bytes:
        return self._secrets.redact(data)

    def redact_text(self, text: str) -> str:
        return self._secrets.redact_text(text)

    async def get(self, path: str, query: Mapping[str, str] = {}) -> Table:
        return await self.send("GET", path, query=query)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = {},
        body: Mapping[str, Any] | None = None,
        repeatable: bool = True,
    ) -> Table:
        """Returns the JSON object of the answer.

        Not `repeatable`: only sent again after an answer that says that nothing was done (429), or
        if no connection could be made.
        """
        backoff, attempt = self.settings.backoff, 0
        while True:
            try:
                return await self._once(method, path, query, body)
            except CloudRequestFailed as error:
                attempt += 1
                if attempt >= backoff.tries or not _again(error, repeatable):
                    raise
                wait = error.failure.retry_after
                if wait is not None and wait > LONGEST_WAIT:
                    raise
                await asyncio.sleep(backoff.delay(attempt, wait))

    async def _once(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> Table:
        headers = {"Accept": "application/json"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = msgspec.json.encode(body)
        cache_key = f"{path}?{sorted(query.items())}"
        cached = self._cached.get(cache_key) if method == "GET" else None
        if cached:
            headers["If-None-Match"] = cached[0]
        async with self._response(method, path, query, headers, content) as response:
            if response.status_code == 304 and cached:
                return cached[1]
            data = await self._body(response)
            found = parse(data or b"{}")
            if isinstance(found, str):
                raise invalid(f"an answer that cannot be read ({found})")
            stored: Table = storable(found)
            if method == "GET" and (etag := response.headers.get("etag")):
                self._cached[cache_key] = (etag, stored)
                if len(self._cached) > MOST_CACHED:
                    self._cached.popitem(last=False)
            return stored

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        """Opens a stream of server-sent events, once."""
        wanted = {"Accept": "text/event-stream", "Cache-Control": "no-store", **headers}
        async with self._response("GET", path, {}, wanted, None) as response:
            yield response

    @asynccontextmanager
    async def foreign(self, url: str) -> AsyncIterator[httpx2.Response]:
        """Reads a link to another host, which must not get the key."""
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise invalid("a link that is not https")
        import httpx2

        try:
            async with (
                httpx2.AsyncClient(timeout=self._timeout(), trust_env=True) as client,
                client.stream("GET", url) as response,
            ):
                if response.status_code != 200:
                    raise refused(response.status_code, b"")
                yield response
        except httpx2.HTTPError as error:
            raise unreachable(parts.hostname or "", _why(error), sent=True) from None

    @asynccontextmanager
    async def _response(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        content: bytes | None,
    ) -> AsyncIterator[httpx2.Response]:
        client = self._open()
        import httpx2

        try:
            async with client.stream(
                method, path, params=dict(query), headers=dict(headers), content=content
            ) as response:
                if response.status_code >= 300 and response.status_code != 304:
                    wait = retry_after(response.headers.get("retry-after"))
                    raise refused(response.status_code, await self._body(response), wait)
                yield response
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise unreachable(self._host, self.redact_text(_why(error)), sent=False) from None
        except httpx2.HTTPError as error:
            raise unreachable(self._host, self.redact_text(_why(error)), sent=True) from None

    async def _body(self, response: httpx2.Response) -> bytes:
        data = bytearray()
        async for part in response.aiter_bytes():
            data += part
            if len(data) > MOST_BODY:
                raise invalid(f"an answer of more than {MOST_BODY >> 20} MB")
        return self.redact(bytes(data))

    @property
    def _host(self) -> str:
        return urlsplit(self.settings.base_url).netloc

    def _timeout(self) -> httpx2.Timeout:
        import httpx2

        return httpx2.Timeout(self.settings.silence, connect=15.0)

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            try:
                import httpx2  # heavy: only where a cloud agent is used
            except ImportError:
                raise UsageError(
                    "cloud agents need the package httpx2",
                    hint="pip install 'tillerman[cloud]'",
                ) from None
            # Basic and Bearer are alike; Basic is what the recordings have.
            self._client = httpx2.AsyncClient(
                base_url=self.settings.base_url,
                auth=(self.settings.key, ""),
                timeout=self._timeout(),
                follow_redirects=False,
                headers={"User-Agent": "tillerman"},
            )
        return self._client


def _again(error: CloudRequestFailed, repeatable: bool) -> bool:
    if not error.sent or error.status == 429:
        return True
    may_pass = error.status in _AGAIN or (error.status is None and error.code != INVALID)
    return repeatable and may_pass


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
