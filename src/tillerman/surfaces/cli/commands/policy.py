"""`tillerman policy`: checks rules, explains a decision, and runs policy test cases."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tillerman.config import Config, load
from tillerman.config.layers import RULES, read_toml
from tillerman.config.policy_test_cases import Group, PolicyTestCase, read_cases
from tillerman.core.errors import ConfigError, UsageError
from tillerman.core.permission import Decision, Explanation, Policy, Rule
from tillerman.surfaces import policy_explain
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, width
from tillerman.surfaces.rendering import policy_tables
from tillerman.surfaces.rendering.ansi_style import Style
from tillerman.surfaces.rendering.formatting import one_line
from tillerman.surfaces.rule_enforcement import of_decision


def check(options: Namespace) -> int:
    """Lists the rules of a file, or those in effect in this folder."""
    if options.file:
        rules = _rules_of(options.file)
        tighter: tuple[Rule, ...] = ()
    else:
        config = load(Path.cwd())
        rules, tighter = config.rules, config.tightening
    if options.json:
        emit_json([_rule(rule) for rule in (*tighter, *rules)])
        return 0
    if not rules and not tighter:
        emit("no rules" + (f" in {options.file}" if options.file else ": only presets apply"))
        return 0
    rows = policy_tables.rows((*tighter, *rules), policy_explain.notes(rules, tighter))
    style = Style(colored(options, sys.stdout))
    emit(table(rows, policy_tables.RULES, style, width()))
    return 0


def explain(options: Namespace) -> int:
    cwd = options.cwd.resolve()
    if not cwd.is_dir():
        raise UsageError(f"{options.cwd}: no such folder", hint="create it, or give another folder")
    config = load(cwd)
    policy = policy_explain.policy(config, cwd, options.approve)
    context = policy_explain.context(cwd, options.mode, options.agent or config.agent.split(",")[0])
    request = policy_explain.request(*_call(options), cwd)
    found = policy.explain(request, context)
    enforced = of_decision(found.decision, request, policy, context, config)
    if options.json:
        reported = _as_json(found, options.verbose)
        emit_json({**reported, "enforcement": enforced, "advice": policy_tables.ADVICE})
        return 0
    style = Style(colored(options, sys.stdout))
    emit(*policy_tables.account(request, found, style, options.verbose, enforced))
    return 0


def test(options: Namespace) -> int:
    """Exit code 1 if any case is decided differently than expected."""
    cwd = Path.cwd()
    config = load(cwd)
    groups = read_cases(options.file)
    differing = [
        (group, case, decision)
        for group in groups
        for case, decision in decided_cases(group, config, cwd)
        if decision.verdict != case.expect or case.rule not in (None, decision.rule)
    ]
    count = sum(len(group.cases) for group in groups)
    if options.json:
        rows = [
            {"number": case.number, "group": group.title, "tool": case.tool, "input": case.input,
             "expect": case.expect, "rule": case.rule, "decision": decision}
            for group, case, decision in differing
        ]  # fmt: skip
        emit_json({"cases": count, "differing": rows})
    else:
        style = Style(colored(options, sys.stdout))
        if differing:
            cells = [_row(case, decision) for _, case, decision in differing]
            head = ("CASE", "EXPECTED", "DECIDED", "CALL")
            emit(table(cells, head, style, width()))
        cases = f"{count} cases" if count != 1 else "1 case"
        emit(f"{cases}, {len(differing)} with a different decision" if differing else cases)
    return 1 if differing else 0


def decided_cases(
    group: Group, config: Config, cwd: Path
) -> Iterator[tuple[PolicyTestCase, Decision]]:
    """Decides each case the same way as `explain`."""
    if group.rules is None:
        policy = policy_explain.policy(config, cwd, group.approve)
    else:
        policy = Policy.preset(group.approve or config.approve, rules=group.rules)
    context = policy_explain.context(cwd, group.mode, group.agent)
    for case in group.cases:
        request = policy_explain.request(case.tool, case.input, cwd)
        yield case, policy.explain(request, context).decision


# -- input -----------------------------------------------------------------------------------------


def _call(options: Namespace) -> tuple[str, dict[str, Any]]:
    given = sys.stdin.read() if options.input == "-" else options.input
    return policy_explain.call(options.tool, given or "")


def _rules_of(path: Path) -> tuple[Rule, ...]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            hint="check that it exists, and its permissions",
        ) from None
    rules: tuple[Rule, ...] = read_toml(data, path, "file").get(RULES, ((), None))[0]
    return rules


# -- output ----------------------------------------------------------------------------------------


def _as_json(found: Explanation, verbose: bool) -> dict[str, Any]:
    steps = []
    for step in found.steps:
        fields: dict[str, Any] = {
            "kind": step.act.kind,
            "tool": step.act.tool,
            "what": step.act.told,
            "doubts": step.act.command.doubts if step.act.command else (),
            "row": step.act.command.row if step.act.command else "",
            "decision": step.decision,
        }
        if verbose:
            fields["passed"] = [rule.name for rule in step.passed]
        steps.append(fields)
    return {"decision": found.decision, "steps": steps}


def _rule(rule: Rule) -> dict[str, Any]:
    from tillerman.config.policy_rules import rule_table

    return {**rule_table(rule), "told": rule.told, "source": rule.source}


def _row(case: PolicyTestCase, decision: Decision) -> tuple[str, str, str, str]:
    expected = f"{case.expect} {case.rule or ''}".rstrip()
    call = case.input.get("command") or f"{case.tool} {case.input}"
    decided = f"{decision.verdict} {decision.rule}"
    return str(case.number), one_line(expected), one_line(decided), one_line(str(call))
