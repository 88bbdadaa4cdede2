"""Rules on commands for the exec gates of a session, and reports of refused commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tillerman.core.events import Enforced, Notice
from tillerman.supervision.exec_gate.settings import (
    ExecRefused,
    GateState,
    exec_policy,
    gate_settings,
    may_be_enforced,
    refusal_text,
    rule_state,
)

if TYPE_CHECKING:
    from tillerman.core.permission import Rule
    from tillerman.sessions.run_settings import RunSettings
    from tillerman.supervision.client.warden_client import WardenClient

_MOST_TEXTS = 1_000


class NoticeLog(Protocol):
    def record(self, event: Notice) -> None: ...


class RuleSource(Protocol):
    """What the rules need of the session that they belong to."""

    @property
    def agent(self) -> str: ...

    @property
    def broker(self) -> NoticeLog: ...

    def remembered_rules(self) -> tuple[Rule, ...]: ...


class ExecRules:
    """Command rules of one session. `session` returns its agent, remembered rules and log."""

    def __init__(
        self, run_settings: RunSettings, workspace: Path, session: Callable[[], RuleSource]
    ) -> None:
        self.run_settings = run_settings
        self._workspace = workspace
        self._session = session
        self._wardens: list[WardenClient] = []
        self._counts: dict[str, int] = {}

    def enforcement(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Gate settings for a program that starts now with this environment."""
        wanted = self.run_settings.enforcement.commands
        if not may_be_enforced(wanted):
            return {}
        session = self._session()
        settings = gate_settings(
            wanted,
            rules=(*session.remembered_rules(), *self.run_settings.rules),
            tightening=self.run_settings.tightening,
            agent=session.agent,
            workspace=self._workspace,
            path=environment.get("PATH"),
        )
        return {"exec": settings} if settings else {}

    def attach(self, warden: WardenClient) -> None:
        """Reports commands that this warden's gate refuses, and updates its rules."""
        self._wardens = [one for one in self._wardens if not one.lost] + [warden]
        warden.watch_execs(self._reported)
        if warden.exec_gate.enforced:  # started by another harness, with older rules
            self.update(self._session().remembered_rules())

    def update(self, remembered: Sequence[Rule]) -> None:
        """Applies changed remembered rules to the running gates."""
        judging = [warden for warden in self._wardens if warden.exec_gate.enforced]
        if not judging:
            return
        rules = (*remembered, *self.run_settings.rules)
        agent = self._session().agent
        policy = exec_policy(rules, self.run_settings.tightening, agent, self._workspace)
        for warden in judging:
            warden.update_exec_policy(policy)

    def states(self) -> tuple[Enforced, ...]:
        """How far rules that deny commands are enforced in the session."""
        rules = (*self.run_settings.rules, *self.run_settings.tightening)
        denied = [rule for rule in rules if rule.verdict == "deny" and rule.commands]
        found: dict[tuple[bool, str], list[str]] = {}
        gate = self._wardens[0].exec_gate if self._wardens else None
        for rule in denied:
            state = rule_state(rule, self.run_settings.enforcement.commands, gate)
            found.setdefault((state.enforced, state.reason), []).extend(rule.commands)
        return tuple(
            Enforced(
                "denied commands", "enforced" if enforced else "advisory", reason, tuple(commands)
            )
            for (enforced, reason), commands in found.items()
        )

    def _reported(self, report: GateState | ExecRefused) -> None:
        if isinstance(report, ExecRefused):
            self._refused(report)
        elif not report.enforced:
            text = f"rules that deny commands are not enforced: {report.reason}"
            self._session().broker.record(Notice(level="warning", kind="policy", text=text))

    def _refused(self, refused: ExecRefused) -> None:
        """Reports a refusal; repeats it only at 10, 100, ..., since a loop may retry forever."""
        text = refusal_text(refused)
        if len(self._counts) >= _MOST_TEXTS:
            self._counts.clear()
        count = self._counts[text] = self._counts.get(text, 0) + 1
        if str(count).strip("0") == "1":
            times = f" ({count} times so far)" if count > 1 else ""
            self._session().broker.record(Notice(level="warning", kind="policy", text=text + times))
