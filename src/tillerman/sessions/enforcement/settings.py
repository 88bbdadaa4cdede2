"""Combines kernel enforcement of a session: denied commands, protected names, denied paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tillerman.core.events import Enforced

if TYPE_CHECKING:
    from tillerman.sessions.enforcement.exec_rules import ExecRules
    from tillerman.sessions.enforcement.protection import Protection
    from tillerman.supervision.client.warden_client import WardenClient


class SessionEnforcement:
    def __init__(self, commands: ExecRules, protection: Protection) -> None:
        self.commands = commands
        self.protection = protection

    def attach(self, warden: WardenClient) -> None:
        """Adds the warden of new programs. Raises `SupervisionUnavailable`."""
        self.commands.attach(warden)
        self.protection.attach(warden)

    def enforcement(
        self, environment: Mapping[str, str], *, commands: bool = True
    ) -> dict[str, Any]:
        """Enforcement for a program that starts now; a user's own program may run any
        `commands`."""
        decided = self.commands.enforcement(environment) if commands else {}
        return {**decided, **self.protection.enforcement()}

    def started(self, failed: dict[str, str]) -> None:
        """Records mounts that failed."""
        self.protection.started(failed)

    def states(self) -> tuple[Enforced, ...]:
        return (*self.protection.states(), *self.commands.states())
