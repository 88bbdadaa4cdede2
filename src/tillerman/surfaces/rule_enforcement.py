"""Reports whether a rule is enforced by the kernel, by restoring changes, or is only advisory."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tillerman.config import Config
from tillerman.core.events import Enforced, PermissionRequested
from tillerman.core.permission import Decision, DecisionContext, Policy, Rule

GUARD = "guard.protected"
NO_MOUNTS = "no supervision level with a mount namespace is available here"


def of_decision(
    decision: Decision,
    request: PermissionRequested,
    policy: Policy,
    context: DecisionContext,
    config: Config,
) -> Enforced | None:
    """Enforcement of the deciding rule; None for rules that the kernel cannot enforce."""
    if decision.rule == GUARD:
        return protected_names(config)
    rules = (*policy.caps, *policy.remembered, *policy.rules, *policy.tightening)
    named = (one for one in rules if (one.name, one.source) == (decision.rule, decision.source))
    rule = next(named, None)
    if rule is None or rule.verdict != "deny":
        return None
    if rule.commands:
        return _commands(rule, config)
    if rule.paths and rule.source != "tillerman":
        return _paths(rule, request, context, config)
    return None


def protected_names(config: Config) -> Enforced:
    wanted = config.enforcement.protected
    if wanted == "watch":
        return Enforced("protected names", "restored", 'enforcement.protected is "watch"')
    if reason := mount_refusal(config):
        return Enforced("protected names", "restored", reason)
    why = "mounted read-only if they exist and are not tracked by git; others are restored"
    return Enforced("protected names", "enforced", why)


def denied_paths(config: Config) -> Enforced:
    if config.enforcement.paths == "off":
        return Enforced("denied paths", "advisory", 'enforcement.paths is "off"')
    if reason := mount_refusal(config):
        return Enforced("denied paths", "advisory", reason)
    return Enforced("denied paths", "enforced", "hidden unless tracked by git")


def denied_commands(config: Config) -> Enforced:
    """Of rules that deny commands, on this machine."""
    from tillerman.supervision.exec_gate import settings

    wanted = config.enforcement.commands
    if wanted == "off":
        return Enforced("denied commands", "advisory", 'enforcement.commands is "off"')
    if not settings.may_be_enforced(wanted):
        return Enforced("denied commands", "advisory", settings.BY_CHOICE)
    if reason := settings.probe().reason:
        return Enforced("denied commands", "advisory", reason)
    return Enforced("denied commands", "enforced", "refused when they are about to run")


def mount_refusal(config: Config) -> str | None:
    """Reason why a mount namespace is not available; None if it is."""
    from tillerman.supervision.client.supervision_levels import Level, probe

    if config.supervision not in ("auto", "namespace"):
        return f"supervision level {config.supervision} has no mount namespace"
    reason = asyncio.run(probe())[Level.NAMESPACE]
    return None if reason is None else f"{NO_MOUNTS}: {reason}"


def _commands(rule: Rule, config: Config) -> Enforced:
    from tillerman.supervision.exec_gate.settings import rule_state

    state = rule_state(rule, config.enforcement.commands)
    return Enforced(
        "denied commands",
        "enforced" if state.enforced else "advisory",
        state.reason or "checked again when it is executed",
    )


def _paths(
    rule: Rule, request: PermissionRequested, context: DecisionContext, config: Config
) -> Enforced:
    from tillerman.workspace.protection.denied_paths import reads_denied
    from tillerman.workspace.protection.git.index import tracked

    if not reads_denied([rule]):
        return Enforced("denied paths", "advisory", "only rules that deny reads can hide files")
    found = denied_paths(config)
    root = Path(context.cwd)
    inner = [os.path.relpath(path, root) for path in request.paths if path]
    known = tracked(str(root / ".git"), inner)
    if found.state == "enforced" and (known is None or known):
        return Enforced(
            "denied paths", "advisory", "it is tracked by git", tuple(sorted(known or inner))
        )
    return found
