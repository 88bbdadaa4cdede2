"""Settings that the harness sends to the exec gate, and the states it reports back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.protocol.launch_warden import command

if TYPE_CHECKING:
    from tillerman.core.permission import Rule

Wanted = Literal["auto", "on", "off"]

BY_CHOICE = (
    "for ordinary users it must be enabled, since sudo and other setuid programs stop working"
)


class GateState(NamedTuple):
    """Whether execs are checked in the programs of a warden, and why not."""

    enforced: bool = False
    reason: str = "no program has been started with it yet"


class ExecRefused(NamedTuple):
    """A command that was not run. `rule` is empty where it could not be checked at all."""

    command: str
    rule: str
    source: str
    reason: str


class RuleState(NamedTuple):
    """Whether a command rule is enforced at execve, or only where an agent asks."""

    enforced: bool
    reason: str = ""  # why it is not enforced


def gate_settings(
    wanted: Wanted,
    *,
    rules: Sequence[Rule],
    tightening: Sequence[Rule] = (),
    agent: str = "",
    workspace: Path | str = "/",
    path: str | None = None,
) -> dict[str, Any] | None:
    """Builds the "exec" part of a spawn's enforcement; None when nothing is to be enforced.

    `rules`: remembered rules first, then those of config files.
    """
    if not may_be_enforced(wanted):
        return None
    if not any(rule.verdict == "deny" and rule.commands for rule in (*rules, *tightening)):
        return None
    from tillerman.supervision.exec_gate.exec_policy import denied_commands

    if not denied_commands((*rules, *tightening)):
        return None
    return {
        "policy": exec_policy(rules, tightening, agent, workspace),
        "modules": _modules(),
        "path": os.fsencode(path or os.defpath),
        "required": wanted == "on",
        "memory_by_warden": False,  # where the gate may not read memory, it detects that itself
        "no_new_privileges": wanted == "on" or os.geteuid() == 0,
    }


def may_be_enforced(wanted: Wanted) -> bool:
    return wanted == "on" or (wanted == "auto" and os.geteuid() == 0)


def exec_policy(
    rules: Sequence[Rule], tightening: Sequence[Rule], agent: str, workspace: Path | str
) -> bytes:
    from tillerman.supervision.exec_gate.exec_policy import ExecPolicy

    return ExecPolicy(tuple(rules), tuple(tightening), agent, str(workspace)).encoded()


@cache
def _modules() -> list[str]:
    """Returns the import path of the gate: the same for all programs of a session."""
    return [one for one in sys.path if one]


def probe() -> GateState:
    """Tests in a separate process whether this machine can enforce command rules.

    It takes about 50 ms, so call it from a thread.
    """
    done = subprocess.run(
        command("exec_gate.availability"), stdout=subprocess.PIPE, env={}, check=True
    )
    reason = done.stdout.decode()
    return GateState(enforced=not reason, reason=reason)


def rule_state(rule: Rule, wanted: Wanted, gate: GateState | None = None) -> RuleState:
    """Returns the state of a deny rule. `gate`: of a running session; None: predict it."""
    from tillerman.supervision.exec_gate.exec_policy import unenforceable

    if rule.verdict != "deny":
        return RuleState(False, "it does not deny")
    if reason := unenforceable(rule):
        return RuleState(False, reason)
    if wanted == "off":
        return RuleState(False, 'enforcement.commands is "off"')
    if wanted == "auto" and os.geteuid() != 0:
        return RuleState(False, f'{BY_CHOICE} (enforcement.commands = "on")')
    if gate is not None and not gate.enforced:
        return RuleState(False, gate.reason)
    return RuleState(True)


def not_enforced(reason: str) -> SupervisionUnavailable:
    return SupervisionUnavailable(
        f"denied commands cannot be enforced here: {reason}",
        hint='set enforcement.commands = "auto" to continue without it, or "off"',
    )


def refusal_text(refused: ExecRefused) -> str:
    """Formats a refusal for users."""
    if not refused.rule:
        return f"`{refused.command}` was not run: {refused.reason}"
    by = f"rule {refused.rule} ({refused.source})"
    note = f": {refused.reason}" if refused.reason else ""
    return f"`{refused.command}` was not run: {by} denies it{note}"
