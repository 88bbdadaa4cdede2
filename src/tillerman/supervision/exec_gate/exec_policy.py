"""The rules sent to the exec gate, and which rules it can enforce."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, json

from tillerman.core.permission.rules import Rule


class ExecPolicy(Struct, frozen=True, omit_defaults=True):
    """The rules for the gate in order, with the agent and the workspace they apply to."""

    rules: tuple[Rule, ...] = ()
    tightening: tuple[Rule, ...] = ()  # apply only where they are stricter
    agent: str = ""
    workspace: str = "/"

    def encoded(self) -> bytes:
        return json.encode(self)


def unenforceable(rule: Rule) -> str | None:
    """Returns why the gate cannot enforce this rule; None when it can."""
    if rule.paths:
        return "it also matches files"
    if rule.hosts:
        return "it matches hosts"
    if rule.servers:
        return "it matches MCP tools"
    if rule.modes is not None:
        return "it applies only in some modes"
    if rule.effects is not None or rule.spares:
        return "it matches commands by effect"
    if rule.line is not None:
        return "it matches a whole command line"
    if rule.verdict == "deny" and not rule.commands:
        return "it matches no command"
    return None


def denied_commands(rules: Iterable[Rule]) -> list[Rule]:
    """Returns the enforceable deny rules; without any, no gate is needed."""
    return [rule for rule in rules if rule.verdict == "deny" and unenforceable(rule) is None]
