"""Formats policy rules and explained decisions as table rows and lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tillerman.core import tools
from tillerman.core.events import Enforced, PermissionRequested
from tillerman.core.permission import Explanation, Rule, Step
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.rendering.formatting import one_line

Style = Callable[[str, str], str]  # (color, text) -> colored text

ADVICE = (
    "Rules check a call before it runs. Unless a rule is enforced, a program can do the same in"
    " another way: use isolation to confine it."
)
RULES = ("RULE", "SAYS", "NOTE", "FROM")
_COLORS = {"allow": "green", "deny": "red", "ask": "yellow", "rewrite": "cyan"}


def rows(rules: Sequence[Rule], notes: Mapping[int, str]) -> Iterator[tuple[str, ...]]:
    """Table rows of the rules, sanitized, since an untrusted project may have written them."""
    for rule in rules:
        yield one_line(rule.name), clean(rule.told), notes.get(id(rule), ""), one_line(rule.source)


def account(
    request: PermissionRequested,
    found: Explanation,
    style: Style,
    verbose: bool,
    enforced: Enforced | None = None,
) -> Iterator[str]:
    decision = found.decision
    verdict = style(_COLORS[decision.verdict], decision.verdict)
    yield f"{verdict}  by {one_line(decision.rule)}, from {one_line(decision.source)}"
    if decision.note:
        yield f"       {clean(decision.note)}"
    if decision.input is not None:
        yield f"       {clean(tools.title(request.tool, decision.input))}"
    yield ""
    yield clean(request.title)
    for step in found.steps:
        yield from _step(step, style, verbose)
    yield ""
    if enforced:
        yield f"{enforced.state}: {clean(enforced.why)}"
    yield style("dim", ADVICE)


def _step(step: Step, style: Style, verbose: bool) -> Iterator[str]:
    message = one_line(step.act.told) or step.act.tool
    what = {"file": step.act.tool, "host": "reaches", "command": "runs"}.get(step.act.kind, "calls")
    if step.decision is None:
        yield f"  {'—':<8}{what} {message}"
    else:
        verdict = style(_COLORS[step.decision.verdict], f"{step.decision.verdict:<8}")
        by = one_line(step.decision.rule)
        if step.by_table:
            by = f"{by}: {one_line(step.decision.note)}"
        yield f"  {verdict}{what} {message}  {style('dim', by)}"
    if step.act.command:
        yield from (
            style("dim", f"          unclear: {clean(doubt)}") for doubt in step.act.command.doubts
        )
    if verbose:
        for rule in step.passed:
            yield style("dim", f"          no match: {one_line(rule.name)}: {clean(rule.told)}")
