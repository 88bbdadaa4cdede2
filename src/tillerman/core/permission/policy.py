"""Permission policy: ordered rules that decide a request, or leave it to a person.

The first rule that matches decides. A request with several actions gets the strictest of their
decisions. Rules see only what the agent declares: they stop honest mistakes and simple attacks;
isolation is the security boundary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tillerman.core.events import PermissionRequested
from tillerman.core.permission.action import PolicyAction
from tillerman.core.permission.actions import acts_of
from tillerman.core.permission.command_actions import line_key, script_of
from tillerman.core.permission.path_location import DecisionContext, seen_from_workspace
from tillerman.core.permission.presets import NEVER_REWRITTEN, guards, preset
from tillerman.core.permission.rule_index import index_of
from tillerman.core.permission.rules import MOST_LEFT_OUT, STRICTNESS, Rule, RuleMatch, Verdict
from tillerman.core.permission.search_paths import searching_without
from tillerman.core.permission.shell.parsed_script import ParsedCommand
from tillerman.core.tools import WRITES


class Decision(Struct, frozen=True):
    verdict: Verdict
    rule: str
    note: str
    source: str = "tillerman"  # where the rule comes from
    input: dict[str, Any] | None = None  # with "rewrite": the complete new input


_DEFAULT = Decision("ask", "default", "no rule matches")


class Step(Struct, frozen=True):
    """The decision on one action; `passed`: the rules before the match that did not match."""

    act: PolicyAction
    decision: Decision | None  # None: no rule applies
    passed: tuple[Rule, ...] = ()
    by_table: bool = False  # decided by a row of the program table


class Explanation(Struct, frozen=True):
    decision: Decision
    steps: tuple[Step, ...]


class _MatchedRule(NamedTuple):
    act: PolicyAction
    rule: Rule | None
    match: RuleMatch
    decision: Decision


class Policy(Struct, frozen=True):
    """Decides requests by lists of rules.

    `caps` apply first, then the `remembered` ones, then `rules`; `tightening` rules count only
    where they are stricter.
    """

    rules: tuple[Rule, ...]
    caps: tuple[Rule, ...] = ()
    remembered: tuple[Rule, ...] = ()
    tightening: tuple[Rule, ...] = ()

    @classmethod
    def preset(
        cls,
        name: str,
        only: Collection[str] = (),
        *,
        rules: Iterable[Rule] = (),
        tightening: Iterable[Rule] = (),
    ) -> Policy:
        """`only`: the only tools that may be used, if not empty. `rules`: from config files."""
        ordered = (*rules, *preset(name))
        return cls(ordered, caps=guards(name, only), tightening=tuple(tightening))

    def remembering(self, rules: Iterable[Rule]) -> Policy:
        """The policy with these rules before those of config files and presets."""
        return replace(self, remembered=(*rules, *self.remembered))

    def decide(self, request: PermissionRequested, context: DecisionContext) -> Decision:
        decided = self._decided(request, context)
        decision = _together(decided, request)
        if decision.verdict == "ask" and any(one.match.files for one in decided):
            return self._without_denied_files(request, decided, context) or decision
        return decision

    def _decided(
        self, request: PermissionRequested, context: DecisionContext
    ) -> list[_MatchedRule]:
        decided = (self._first_match(act, context) for act in acts_of(request, context))
        return [one for one in decided if one]

    def _without_denied_files(
        self,
        request: PermissionRequested,
        decided: Sequence[_MatchedRule],
        context: DecisionContext,
    ) -> Decision | None:
        """The search rewritten to exclude the files that require approval.

        None if the tool cannot exclude files, or the result would still require approval.
        """
        first = next(one for one in decided if one.match.files)
        left_out: dict[str, None] = {}
        narrowed = request
        while new := [file for one in decided for file in one.match.files if file not in left_out]:
            left_out |= dict.fromkeys(new)
            if len(left_out) > MOST_LEFT_OUT:
                return None
            without = searching_without(request, left_out, context)
            if without is None:
                return None
            narrowed = without
            decided = self._decided(narrowed, context)
        if _together(decided, narrowed).verdict != "allow":
            return None
        named = ", ".join(seen_from_workspace(one, context) for one in left_out)
        rule, decision = first.rule, first.decision
        note = f"{rule.note if rule else ''}: the search leaves out {named}".removeprefix(": ")
        return Decision("rewrite", decision.rule, note, decision.source, narrowed.input)

    def explain(self, request: PermissionRequested, context: DecisionContext) -> Explanation:
        """The same decision, with the steps that led to it."""
        steps = []
        for act in acts_of(request, context):
            passed: list[Rule] = []
            decided = self._first_match(act, context, passed)
            by_table = bool(decided and decided.rule and decided.rule.effects is not None)
            decision = decided.decision if decided else None
            steps.append(Step(act, decision, tuple(passed), by_table))
        return Explanation(self.decide(request, context), tuple(steps))

    def _first_match(
        self, act: PolicyAction, context: DecisionContext, passed: list[Rule] | None = None
    ) -> _MatchedRule | None:
        found = None
        for rules in (self.caps, self.remembered, self.rules):
            answers = rules is self.remembered
            if rules and (found := _first(rules, act, context, passed, answers=answers)):
                break
        tighter = _first(self.tightening, act, context, passed) if self.tightening else None
        if tighter and (
            found is None
            or STRICTNESS[tighter.decision.verdict] > STRICTNESS[found.decision.verdict]
        ):
            return _without_rewrite(tighter)
        if found or act.derived:
            return found
        return _MatchedRule(act, None, RuleMatch("yes"), _DEFAULT)


def _first(
    rules: tuple[Rule, ...],
    act: PolicyAction,
    context: DecisionContext,
    passed: list[Rule] | None,
    *,
    answers: bool = False,
) -> _MatchedRule | None:
    """`answers`: the rules are remembered answers of people to single requests."""
    for place, rule in index_of(rules).about(act):
        match = rule.matches(act, context)
        if match.certainty != "no" and not (answers and _oversteps(rule, act)):
            if passed is not None:
                passed += rules[:place]
            return _MatchedRule(act, rule, match, _decision_of(rule, act, match))
    if passed is not None:
        passed += rules
    return None


def _oversteps(rule: Rule, act: PolicyAction) -> bool:
    """Whether an answer goes too far: it overrides the guards only for its exact file."""
    if rule.verdict != "allow" or act.kind != "file" or act.tool not in WRITES:
        return False
    guarded = any(spot.places & {"outside", "protected"} for spot in act.spots)
    return guarded and rule.line is None and not rule.is_exact


def _decision_of(rule: Rule, act: PolicyAction, match: RuleMatch) -> Decision:
    if match.certainty == "maybe":
        why = match.why or "not all details are known"
        note = f"{why}: rule {rule.name} may apply"
        return Decision("ask", rule.name, note, rule.source)
    note = rule.note
    if match.why:
        note = f"{note}: {match.why}"
    elif rule.effects is not None and act.command and act.command.row:
        note = f"`{act.command.row}` {_DOES[act.command.effect]}"
    elif rule.source == "tillerman" and rule.paths and act.spots and act.spots[0].told:
        note = f"{note}: {_meant(rule, act)}"
    if rule.verdict == "ask" and act.command and act.command.doubts and not rule.paths:
        note = f"{note}; unclear: {act.command.doubts[0]}"
    return Decision(rule.verdict, rule.name, note, rule.source)


def _meant(rule: Rule, act: PolicyAction) -> str:
    """The file that the rule matches."""
    found = (one.told for one in act.spots if one.places.intersection(rule.paths))
    return next(found, act.spots[0].told)


_DOES = {
    "none": "only prints, or sets shell state",
    "reads": "only reads",
    "writes": "only reads and writes the files that it names",
    "runs": "runs",
}


def _without_rewrite(decided: _MatchedRule) -> _MatchedRule:
    """An untrusted source may deny a command, but not replace it by another."""
    if decided.decision.verdict != "rewrite" or decided.rule is None:
        return decided
    return decided._replace(decision=_instead(decided.rule, decided.decision))


# -- combining the decisions on all actions --------------------------------------------------------


def _together(decided: Sequence[_MatchedRule], request: PermissionRequested) -> Decision:
    if not decided:
        return _DEFAULT
    worst = max(decided, key=lambda one: (STRICTNESS[one.decision.verdict], not one.act.derived))
    changed = [one for one in decided if one.decision.verdict == "rewrite"]
    if not changed or worst.decision.verdict == "deny":
        return worst.decision
    if any(one.rule is not None and one.rule.name in NEVER_REWRITTEN for one in decided):
        return worst.decision
    rule, decision = changed[0].rule, changed[0].decision
    assert rule is not None
    input = _rewritten(changed, request)
    # a person who is asked would answer about the unchanged input
    if input is None or worst.decision.verdict == "ask":
        return _instead(rule, decision)
    return replace(decision, input=input)


def _rewritten(
    changed: Sequence[_MatchedRule], request: PermissionRequested
) -> dict[str, Any] | None:
    """The rewritten input.

    None if the command is not verbatim in the line, or the new line would not do what was decided.
    """
    input = dict(request.input)
    spans: dict[tuple[int, int], str] = {}
    for act, rule, _, _ in changed:
        if rule is None or rule.rewrite is None:
            return None
        if isinstance(rule.rewrite, dict):
            input |= rule.rewrite
        elif act.command is None or act.command.span is None or not rule.names(act.command):
            return None
        else:
            spans[act.command.span] = rule.rewrite
    if not spans:
        return input
    key = line_key(request.input)
    if not isinstance(line := input.get(key), str) or line != request.input[key]:
        return None
    for (start, end), words in sorted(spans.items(), reverse=True):
        line = line[:start] + words + line[end:]
    input[key] = line
    return input if _matches_decision(request, replace(request, input=input), spans) else None


def _matches_decision(
    old: PermissionRequested, new: PermissionRequested, spans: dict[tuple[int, int], str]
) -> bool:
    """Whether the new line, parsed again, is the old one with only those commands replaced."""
    _, before = script_of(old)
    _, after = script_of(new)
    if before.unread or after.unread:
        return False
    expected: list[ParsedCommand] = []
    redirections = Counter(before.redirections)
    for command in before.commands:
        words = spans.get(command.span) if command.span else None
        if words is None:
            expected.append(command)
            continue
        _, put = script_of(replace(new, input={"command": words}))
        if put.unread:
            return False
        there = command.directories
        expected += (replace(one, directories=there) for one in put.commands)
        redirections.update(replace(one, directories=there) for one in put.redirections)
    if Counter(after.redirections) != redirections:
        return False
    return list(map(_essence, expected)) == list(map(_essence, after.commands))


def _essence(command: ParsedCommand) -> tuple[Any, ...]:
    return command.words, command.text, command.doubts, command.inner, command.directories


def _instead(rule: Rule, decision: Decision) -> Decision:
    words = rule.rewrite
    if isinstance(words, dict):
        words = ", ".join(f"{key} = {value!r}" for key, value in words.items())
    return replace(decision, verdict="deny", note=rule.note or f"use `{words}` instead")
