"""Receives webhooks about cloud agents: verified, recent, once each; wakes sessions that wait."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from tillerman.config import Config
from tillerman.core.cloud import CloudStatusChange, CloudWebhooks
from tillerman.core.errors import TillermanError, UsageError
from tillerman.harness.agent_admin import AgentAdmin
from tillerman.paths import Paths, private_folder

SECRET = "TILLERMAN_CLOUD_WEBHOOK_SECRET"
LONGEST_BODY = 256 * 1024
OLDEST = 3 * 86_400.0  # seconds; a vendor repeats a delivery for less
NEWEST = 600.0  # seconds by which the clocks may differ
KEPT = OLDEST + NEWEST + 3600.0  # a delivery is remembered longer than it would be accepted


class WebhookRefused(TillermanError):
    """A webhook that is refused with this HTTP status."""

    def __init__(self, status: int, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class WebhookInbox:
    def __init__(self, config: Config, paths: Paths, management: AgentAdmin) -> None:
        self._config = config
        self._paths = paths
        self._management = management
        self._pruned = 0.0

    def check(self, agent: str) -> None:
        """Raises `UsageError` if webhooks of this agent cannot be received."""
        if not isinstance(self._management.agent(agent), CloudWebhooks):
            raise UsageError(f"{agent} sends no webhooks", hint="`tillerman agents` lists who does")
        if not self._secret(agent):
            raise UsageError(
                f"the webhooks of {agent} have no secret",
                hint=f"set {SECRET}, or agents.{agent}.webhook_secret in the config",
            )

    def receive(self, agent: str, headers: Mapping[str, str], body: bytes) -> CloudStatusChange:
        """Raises `WebhookRefused`. Header names are in lower case."""
        driver, secret = self._driver(agent), self._secret(agent)
        if driver is None or not secret:
            raise WebhookRefused(404, "no webhooks are received here", hint=f"set {SECRET}")
        if len(body) > LONGEST_BODY:
            raise WebhookRefused(413, "the body is too long", hint="send less")
        change = driver.status_change(secret, headers, body)
        if change is None:
            raise WebhookRefused(401, "the signature is not valid", hint="use the same secret")
        self._check_time(change.sent)
        self._remember(change.delivery)
        self._wake(change.agent)
        return change

    def _driver(self, agent: str) -> CloudWebhooks | None:
        if agent not in self._management.names():
            return None
        found = self._management.agent(agent)
        return found if isinstance(found, CloudWebhooks) else None

    def _secret(self, agent: str) -> str | None:
        configured = self._config.agents.get(agent, {}).get("webhook_secret")
        return os.environ.get(SECRET) or (configured if isinstance(configured, str) else None)

    def _check_time(self, sent: str) -> None:
        try:
            age = time.time() - datetime.fromisoformat(sent).timestamp()
        except ValueError:
            raise WebhookRefused(400, "it has no time", hint="send when it was made") from None
        if not -NEWEST <= age <= OLDEST:
            raise WebhookRefused(400, "it is too old, or of the future", hint="send a new one")

    def _remember(self, delivery: str) -> None:
        """One empty file for each delivery: created once, whichever processes receive it."""
        folder = private_folder(self._paths.cloud / "deliveries")
        try:
            file = os.open(folder / delivery, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise WebhookRefused(409, "it was received already", hint="do not repeat it") from None
        os.fsync(file)
        os.close(file)
        if time.monotonic() - self._pruned > 3600 or not self._pruned:
            self._pruned = time.monotonic()
            _prune(folder)

    def _wake(self, cloud_agent: str) -> None:
        file = self._paths.cloud_wake(cloud_agent)
        private_folder(file.parent)
        file.touch(mode=0o600)


def _prune(folder: Path) -> None:
    for file in folder.iterdir():
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > KEPT:
                file.unlink()
