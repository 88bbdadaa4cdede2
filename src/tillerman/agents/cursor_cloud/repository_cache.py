"""Keeps the list of repositories, which the API gives once a minute and thirty times an hour."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from tillerman.agents.cursor_cloud.connection import ApiSettings
from tillerman.agents.cursor_cloud.failures import CloudRequestFailed
from tillerman.core.cloud import CloudRepositories
from tillerman.core.failure import Failure
from tillerman.paths import make_private, write_whole

PER_REQUEST = 60.0  # seconds
PER_HOUR = 30
HOUR = 3600.0
CLOCK_JUMP = 5.0  # seconds: entries from further in the future do not count


class KeptList(msgspec.Struct):
    asked: list[float] = []  # times of requests of the last hour
    read: float = 0.0  # 0: never
    urls: tuple[str, ...] = ()


class RepositoryCache:
    def __init__(
        self, folder: Path, settings: ApiSettings, clock: Callable[[], float] = time.time
    ) -> None:
        name = sha256(f"{settings.base_url}\0{settings.key}".encode()).hexdigest()[:24]
        self._path = folder / f"{name}.json"
        self._clock = clock

    async def read(self, fetch: Callable[[], Awaitable[tuple[str, ...]]]) -> CloudRepositories:
        """A list of less than a minute, or a new one; the old one where the limit forbids it."""
        make_private(self._path.parent)
        with self._path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held only while the file is read and written
            kept, now = self._load(), self._clock()
            kept.asked = [at for at in kept.asked if now - HOUR < at <= now + CLOCK_JUMP]
            wait = self._wait(kept, now)
            if not wait:
                kept.asked.append(now)
                self._store(kept)
        if wait and kept.read:
            return CloudRepositories(kept.urls, max(0.0, now - kept.read))
        if wait:
            raise _too_early(wait)
        try:
            urls = await fetch()
        except CloudRequestFailed as error:
            if error.status == 429 and kept.read:
                return CloudRepositories(kept.urls, max(0.0, now - kept.read))
            raise
        kept.urls, kept.read = urls, self._clock()
        self._store(kept)
        return CloudRepositories(urls, 0.0)

    def _wait(self, kept: KeptList, now: float) -> float:
        """Seconds until the next request is allowed."""
        if not kept.asked:
            return 0.0
        hourly = kept.asked[-PER_HOUR] + HOUR - now if len(kept.asked) >= PER_HOUR else 0.0
        return max(0.0, kept.asked[-1] + PER_REQUEST - now, hourly)

    def _load(self) -> KeptList:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=KeptList)
        except (OSError, msgspec.MsgspecError):
            return KeptList()

    def _store(self, kept: KeptList) -> None:
        write_whole(self._path, msgspec.json.encode(kept))


def _too_early(wait: float) -> CloudRequestFailed:
    message = "the list of repositories may be read once a minute"
    hint = f"try again in {wait:.0f} s"
    failure = Failure(kind="rate_limited", message=message, retry_after=wait, hint=hint)
    return CloudRequestFailed(message, hint=hint, failure=failure, sent=False)
