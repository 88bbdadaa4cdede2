"""Index of rules: finds the rules that can apply to an action, in order, without trying each."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge

from tillerman.core.permission.action import PolicyAction
from tillerman.core.permission.rules import Rule
from tillerman.core.permission.shell.parsed_script import is_open

_MOST = 64  # cached indexes; a session has a few lists of rules
_Placed = list[tuple[int, Rule]]


class RuleIndex:
    """Index of one list of rules. Rules on commands are found by program name."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self._sorts: dict[tuple[object, ...], tuple[_Placed, dict[str, _Placed]]] = {}

    def about(self, act: PolicyAction) -> Sequence[tuple[int, Rule]]:
        """The rules with their positions in the list."""
        inner = act.command is not None and act.command.inner
        sort = (act.kind, act.names, act.call, act.derived, inner)
        found = self._sorts.get(sort)
        if found is None:
            found = self._sorts[sort] = self._sorted(act)
        general, programs = found
        if act.command is None or not programs:
            return general
        readings = (act.command.text, *act.command.others, *act.command.passed)
        firsts = {text.partition(" ")[0] for text in readings}
        if act.command.doubts or any(map(is_open, firsts)):
            named = list(programs.values())
        else:
            named = [programs[first] for first in firsts if first in programs]
        return list(merge(general, *named, key=_place)) if named else general

    def _sorted(self, act: PolicyAction) -> tuple[_Placed, dict[str, _Placed]]:
        general: _Placed = []
        programs: dict[str, _Placed] = {}
        for place, rule in enumerate(self.rules):
            if not rule.mentions(act) or not rule.concerns(act):
                continue
            firsts = {_program(one) for one in rule.commands}
            if not firsts or None in firsts:
                general.append((place, rule))
            else:
                for first in firsts:
                    programs.setdefault(str(first), []).append((place, rule))
        return general, programs


def index_of(rules: tuple[Rule, ...]) -> RuleIndex:
    """The cached index of this list, shared by policies."""
    known = _KNOWN.get(id(rules))
    if known is None or known.rules is not rules:
        while len(_KNOWN) >= _MOST:
            del _KNOWN[next(iter(_KNOWN))]
        known = _KNOWN[id(rules)] = RuleIndex(rules)
    return known


_KNOWN: dict[int, RuleIndex] = {}


def _program(pattern: str) -> str | None:
    """The program of a command pattern; None if the pattern does not fix it."""
    first = pattern.partition(" ")[0]
    return None if "*" in first or "\\" in first else first


def _place(placed: tuple[int, Rule]) -> int:
    return placed[0]
