"""Tokens of the service and what each may do; one-time links that sign in a browser.

The first token is a file that only the user can read. Of all others only the hash is stored.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import msgspec

from tillerman.core.errors import UsageError
from tillerman.core.timestamps import rfc3339
from tillerman.http_server.token_file import token
from tillerman.paths import private_folder, write_whole

Scope = Literal["read", "answer", "drive"]  # each includes those before it
SCOPES: tuple[Scope, ...] = get_args(Scope)

MAIN = "main"  # the id of the token in the file
MOST_TOKENS = 256
MOST_LINKS = 16
LINK_SECONDS = 600.0
BROWSER_DAYS = 30


class Client(NamedTuple):
    """Who sent a request, by its token."""

    id: str  # of the token
    name: str
    scope: Scope
    csrf: str | None = None  # of a browser that is signed in by cookie

    def may(self, scope: Scope) -> bool:
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


class StoredToken(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    kind: Literal["token", "browser"]
    scope: Scope
    sha256: str
    created_at: str
    expires_at: str | None = None

    @property
    def expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= rfc3339(datetime.now(UTC))


class TokenStore:
    """The tokens in a folder. Several processes may use it: changes count at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)
        self._file = folder / "tokens.json"
        self._read: tuple[tuple[int, int, int], list[StoredToken]] | None = None
        self.main_file = folder / "token"
        self.main = token(self.main_file)

    def client(self, secret: bytes) -> Client | None:
        """The client of this token. Compares with every token, in constant time."""
        if hmac.compare_digest(self.main.encode(), secret):
            return Client(MAIN, "main", "drive")
        return self._stored_client("token", secret)

    def browser(self, cookie: bytes) -> Client | None:
        found = self._stored_client("browser", cookie)
        return found and found._replace(csrf=self.csrf(cookie))

    def csrf(self, cookie: bytes) -> str:
        """The value that forms of this browser must send."""
        return hmac.new(self.main.encode(), b"csrf:" + cookie, hashlib.sha256).hexdigest()

    def create(
        self,
        scope: Scope,
        *,
        name: str = "",
        days: float | None = None,
        kind: Literal["token", "browser"] = "token",
    ) -> tuple[StoredToken, str]:
        """Returns the stored token and its secret, which is not stored."""
        secret = secrets.token_urlsafe(32)
        now = datetime.now(UTC)
        stored = StoredToken(
            id=secrets.token_hex(4),
            name=name or kind,
            kind=kind,
            scope=scope,
            sha256=_digest(secret.encode()),
            created_at=rfc3339(now),
            expires_at=rfc3339(now + timedelta(days=days)) if days is not None else None,
        )
        with self._changing() as tokens:
            if len(tokens) >= MOST_TOKENS:
                raise UsageError(
                    f"there are {len(tokens)} tokens already",
                    hint="`tillerman serve token --list` lists them, `--revoke ID` removes one",
                )
            tokens.append(stored)
        return stored, secret

    def valid(self) -> list[StoredToken]:
        return [one for one in self._stored() if not one.expired]

    def is_valid(self, client: Client) -> bool:
        """Whether the token of this client still counts."""
        return client.id == MAIN or any(one.id == client.id for one in self.valid())

    def revoke(self, id: str) -> None:
        with self._changing() as tokens:
            left = [one for one in tokens if one.id != id]
            if len(left) == len(tokens):
                raise UsageError(
                    f"there is no token {id!r}", hint="`tillerman serve token --list` lists them"
                )
            tokens[:] = left

    def _stored_client(self, kind: str, secret: bytes) -> Client | None:
        digest = _digest(secret)
        found = None
        for one in self._stored():
            if hmac.compare_digest(one.sha256, digest) and one.kind == kind and not one.expired:
                found = Client(one.id, one.name, one.scope)
        return found

    def _stored(self) -> list[StoredToken]:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return []
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._read is None or self._read[0] != seen:
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise UsageError(
                    f"{self._file} is not private", hint="delete it, and create new tokens"
                )
            try:
                tokens = msgspec.json.decode(self._file.read_bytes(), type=list[StoredToken])
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"{self._file} is damaged: {error}", hint="delete it, and create new tokens"
                ) from None
            self._read = seen, tokens
        return self._read[1]

    @contextmanager
    def _changing(self) -> Iterator[list[StoredToken]]:
        file = os.open(self._folder / "tokens.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(file) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = self.valid()
            yield tokens
            write_whole(self._file, msgspec.json.encode(tokens))


class Links:
    """One-time links: each signs in one browser, within some minutes."""

    def __init__(self, tokens: TokenStore) -> None:
        self._tokens = tokens
        self._open: dict[str, tuple[Scope, float]] = {}  # digest of the code -> scope, deadline

    def create(self, scope: Scope) -> str:
        """Returns the code of the link."""
        self._forget_old()
        if len(self._open) >= MOST_LINKS:
            del self._open[next(iter(self._open))]
        code = secrets.token_urlsafe(32)
        self._open[_digest(code.encode())] = (scope, time.monotonic() + LINK_SECONDS)
        return code

    def is_open(self, code: str) -> bool:
        self._forget_old()
        return _digest(code.encode()) in self._open

    def redeem(self, code: str) -> str | None:
        """Returns the cookie of a new browser, or None if the link was used or never made."""
        self._forget_old()
        with suppress(KeyError):
            scope, _ = self._open[_digest(code.encode())]
            cookie = self._tokens.create(scope, days=BROWSER_DAYS, kind="browser")[1]
            del self._open[_digest(code.encode())]
            return cookie
        return None

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._open = {digest: one for digest, one in self._open.items() if one[1] > now}


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()
