"""What is enforced and what is advisory, and why: as doctor and `policy explain` report it."""

from __future__ import annotations

import os

import pytest

from tillerman.core.permission import Rule
from tillerman.supervision.exec_gate.settings import (
    ExecRefused,
    GateState,
    RuleState,
    gate_settings,
    refusal_text,
    rule_state,
)

DENY = Rule("a", "deny", commands=("rm *",))
ADVICE = {
    "it does not deny": Rule("a", "ask", commands=("rm *",)),
    "it matches no command": Rule("a", "deny", tools=frozenset({"shell"})),
    "it also matches files": Rule("a", "deny", commands=("rm *",), paths=("src/",)),
    "it matches hosts": Rule("a", "deny", hosts=("example.com",)),
    "it matches MCP tools": Rule("a", "deny", servers=("x.*",)),
    "it applies only in some modes": Rule(
        "a", "deny", commands=("rm *",), modes=frozenset({"plan"})
    ),
    "it matches a whole command line": Rule("a", "deny", line="rm x"),
}


@pytest.mark.parametrize("reason", ADVICE)
def test_an_advisory_rule_gives_the_reason(reason: str) -> None:
    assert rule_state(ADVICE[reason], "on") == RuleState(False, reason)
    assert gate_settings("on", rules=[ADVICE[reason]]) is None


def test_a_rule_that_denies_commands_can_be_enforced() -> None:
    settings = gate_settings("on", rules=[DENY])
    assert settings is not None
    assert (settings["required"], settings["no_new_privileges"]) == (True, True)
    assert rule_state(DENY, "on") == RuleState(True)


def test_off_and_a_missing_gate_are_reasons() -> None:
    assert gate_settings("off", rules=[DENY]) is None
    assert rule_state(DENY, "off") == RuleState(False, 'enforcement.commands is "off"')
    gone = GateState(enforced=False, reason="it is gone")
    assert rule_state(DENY, "on", gone) == RuleState(False, "it is gone")


def test_by_default_it_is_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert gate_settings("auto", rules=[DENY]) is None
    state = rule_state(DENY, "auto")
    assert (state.enforced, "for ordinary users it must be enabled" in state.reason) == (
        False,
        True,
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    settings = gate_settings("auto", rules=[], tightening=[DENY])
    assert settings is not None
    assert settings["required"] is False
    assert rule_state(DENY, "auto") == RuleState(True)


def test_a_refusal_names_the_command_and_the_rule() -> None:
    texts = [
        refusal_text(ExecRefused("rm x", "no-rm", "rules.toml:3", "use git rm")),
        refusal_text(ExecRefused("rm x", "no-rm", "rules.toml:3", "")),
        refusal_text(ExecRefused("process 7", "", "", "its memory cannot be read")),
    ]
    assert texts == [
        "`rm x` was not run: rule no-rm (rules.toml:3) denies it: use git rm",
        "`rm x` was not run: rule no-rm (rules.toml:3) denies it",
        "`process 7` was not run: its memory cannot be read",
    ]
