"""`bridle policy`: check rules, explain a decision, test what is expected of them."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bridle.config import Config, find_paths, load
from bridle.config.cases import Case, Group, read_cases
from bridle.config.layers import RULES, read_toml
from bridle.core import tools
from bridle.core.errors import ConfigError, UsageError
from bridle.core.events import PermissionRequested
from bridle.core.permission import Context, Decision, Explanation, Policy, Rule, Step
from bridle.core.terminal import clean
from bridle.surfaces.cli.output import Style, colored, say, say_json, table, width
from bridle.surfaces.cli.words import json_object

ADVICE = (
    "Rules see what an agent says it will do. Those on commands advise: the same can be done in"
    " other words. The wall is the sandbox."
)
_MEANT = {name.lower(): name for name in tools.TOOLS} | {
    "shell": "Bash",
    "network": "WebFetch",
    "mcp": "mcp__SERVER__TOOL",
}
_COLORS = {"allow": "green", "deny": "red", "ask": "yellow", "rewrite": "cyan"}


def check(options: Namespace) -> int:
    """A file of its own, or all that counts in this folder."""
    if options.file:
        rules = _rules_of(options.file)
        tighter: tuple[Rule, ...] = ()
    else:
        config = load(Path.cwd())
        rules, tighter = config.rules, config.tightening
    if options.json:
        say_json([_rule(rule) for rule in (*tighter, *rules)])
        return 0
    if not rules and not tighter:
        say("no rules" + (f" in {options.file}" if options.file else ": presets alone decide"))
        return 0
    notes = {id(rule): "only where it is stricter" for rule in tighter}
    notes |= {
        id(rule): f"never reached: see {_line(first.name)}" for rule, first in _shadowed(rules)
    }
    rows = [
        (_line(rule.name), clean(rule.told), notes.get(id(rule), ""), _line(rule.source))
        for rule in (*tighter, *rules)
    ]
    style = Style(colored(options, sys.stdout))
    say(table(rows, ("RULE", "SAYS", "NOTE", "FROM"), style, width()))
    return 0


def explain(options: Namespace) -> int:
    cwd = options.cwd.resolve()
    if not cwd.is_dir():
        raise UsageError(f"{options.cwd}: no such folder")
    config = load(cwd)
    policy = _policy(config, cwd, options.approve)
    context = _context(cwd, options.mode, options.agent or config.agent.split(",")[0])
    request = _request(options.tool, _input(options), cwd)
    found = policy.explain(request, context)
    if options.json:
        say_json({**_told(found, options.verbose), "advice": ADVICE})
        return 0
    style = Style(colored(options, sys.stdout))
    say(*_account(request, found, style, options.verbose))
    return 0


def test(options: Namespace) -> int:
    """1 when one of the cases is decided otherwise than it says."""
    cwd = Path.cwd()
    config = load(cwd)
    groups = read_cases(options.file)
    differing = [
        (group, case, decision)
        for group in groups
        for case, decision in judged(group, config, cwd)
        if decision.verdict != case.expect or case.rule not in (None, decision.rule)
    ]
    count = sum(len(group.cases) for group in groups)
    if options.json:
        rows = [
            {"number": case.number, "group": group.title, "tool": case.tool, "input": case.input,
             "expect": case.expect, "rule": case.rule, "decision": decision}
            for group, case, decision in differing
        ]  # fmt: skip
        say_json({"cases": count, "differing": rows})
    else:
        style = Style(colored(options, sys.stdout))
        if differing:
            cells = [_row(case, decision) for _, case, decision in differing]
            head = ("CASE", "EXPECTED", "DECIDED", "CALL")
            say(table(cells, head, style, width()))
        cases = f"{count} cases" if count != 1 else "1 case"
        say(f"{cases}, {len(differing)} decided otherwise" if differing else cases)
    return 1 if differing else 0


def judged(group: Group, config: Config, cwd: Path) -> Iterator[tuple[Case, Decision]]:
    """Each case as `explain` would tell it."""
    if group.rules is None:
        policy = _policy(config, cwd, group.approve)
    else:
        policy = Policy.preset(group.approve or config.approve, rules=group.rules)
    context = _context(cwd, group.mode, group.agent)
    for case in group.cases:
        request = _request(case.tool, case.input, cwd)
        yield case, policy.explain(request, context).decision


# -- what is judged --------------------------------------------------------------------------------


def _policy(config: Config, cwd: Path, approve: str | None) -> Policy:
    """As a session in this folder would have it."""
    from bridle.sessions.remembered import Remembered

    policy = Policy.preset(
        approve or config.approve, rules=config.rules, tightening=config.tightening
    )
    return policy.remembering(Remembered.of(find_paths(), cwd).rules())


def _context(cwd: Path, mode: Any, agent: str) -> Context:
    return Context(cwd, mode=mode, home=Path.home(), resolve=os.path.realpath, agent=agent)


def _request(tool: str, input: dict[str, Any], cwd: Path) -> PermissionRequested:
    name = ""
    if tool not in tools.TOOLS and (meant := _MEANT.get(tool.lower())):
        raise UsageError(f"no tool is called {clean(tool)!r}", hint=f"did you mean {meant}?")
    if tool.startswith("mcp__") and tool.count("__") >= 2:
        _, server, called = tool.split("__", 2)
        tool, name = "MCP", f"{server}.{called}"
    title = tools.title(tool, input, name=name, cwd=str(cwd))
    return PermissionRequested(
        request_id="explain", tool=tool, title=title, input=input, paths=tools.paths_of(input)
    )


def _input(options: Namespace) -> dict[str, Any]:
    given = options.input
    if given == "-":
        given = sys.stdin.read()
    if not given:
        return {}
    if options.tool == "Bash" and not given.lstrip().startswith('{"'):
        return {"command": given}
    example = """'{"file_path": "a.txt"}'"""
    return json_object(given, "INPUT", hint=f"such as {example}; only Bash takes a bare command")


def _rules_of(path: Path) -> tuple[Rule, ...]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    rules: tuple[Rule, ...] = read_toml(data, path, "file").get(RULES, ((), None))[0]
    return rules


def _shadowed(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Each rule that is never reached, with the one before it that decides in its place."""
    for at, rule in enumerate(rules):
        for first in rules[:at]:
            if _covers(first, rule):
                yield rule, first
                break


def _covers(first: Rule, rule: Rule) -> bool:
    if _matchers(first) == _matchers(rule):
        # what is not certain, a rule that allows leaves to the next
        return first.verdict != "allow" or rule.verdict == "allow"
    if any(_matchers(first)):
        return False
    # of the files and hosts in a command's words speak only rules that name some
    within = rule.commands or rule.line or rule.paths or rule.hosts
    return not within or first.verdict == "deny" or rule.verdict == "allow"


def _matchers(rule: Rule) -> tuple[Any, ...]:
    return (rule.agents, rule.tools, rule.commands, rule.line, rule.paths, rule.hosts,
            rule.servers, rule.modes)  # fmt: skip


# -- how it is told --------------------------------------------------------------------------------


def _account(
    request: PermissionRequested, found: Explanation, style: Style, verbose: bool
) -> Iterator[str]:
    decision = found.decision
    verdict = style(_COLORS[decision.verdict], decision.verdict)
    yield f"{verdict}  by {_line(decision.rule)}, from {_line(decision.source)}"
    if decision.note:
        yield f"       {clean(decision.note)}"
    if decision.input is not None:
        yield f"       {clean(tools.title(request.tool, decision.input))}"
    yield ""
    yield clean(request.title)
    for step in found.steps:
        yield from _step(step, style, verbose)
    yield ""
    yield style("dim", ADVICE)


def _step(step: Step, style: Style, verbose: bool) -> Iterator[str]:
    told = _line(step.act.told) or step.act.tool
    what = {"file": step.act.tool, "host": "reaches", "command": "runs"}.get(step.act.kind, "calls")
    if step.decision is None:
        yield f"  {'—':<8}{what} {told}"
    else:
        verdict = style(_COLORS[step.decision.verdict], f"{step.decision.verdict:<8}")
        yield f"  {verdict}{what} {told}  {style('dim', _line(step.decision.rule))}"
    if step.act.command:
        yield from (
            style("dim", f"          not clear: {clean(doubt)}")
            for doubt in step.act.command.doubts
        )
    if verbose:
        for rule in step.passed:
            yield style("dim", f"          passed {_line(rule.name)}: {clean(rule.told)}")


def _told(found: Explanation, verbose: bool) -> dict[str, Any]:
    steps = []
    for step in found.steps:
        told: dict[str, Any] = {
            "kind": step.act.kind,
            "tool": step.act.tool,
            "what": step.act.told,
            "doubts": step.act.command.doubts if step.act.command else (),
            "decision": step.decision,
        }
        if verbose:
            told["passed"] = [rule.name for rule in step.passed]
        steps.append(told)
    return {"decision": found.decision, "steps": steps}


def _rule(rule: Rule) -> dict[str, Any]:
    from bridle.config.rules import rule_table

    return {**rule_table(rule), "told": rule.told, "source": rule.source}


def _row(case: Case, decision: Decision) -> tuple[str, str, str, str]:
    expected = f"{case.expect} {case.rule or ''}".rstrip()
    call = case.input.get("command") or f"{case.tool} {case.input}"
    decided = f"{decision.verdict} {decision.rule}"
    return str(case.number), _line(expected), _line(decided), _line(str(call))


def _line(text: str) -> str:
    """A project that nobody trusts may have written it."""
    return " ".join(clean(text).split())
