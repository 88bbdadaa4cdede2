"""Adds up usage reports: a turn may be reported in parts, and done by several agents."""

from __future__ import annotations

from tillerman.core.events import UsageReported


def added(before: UsageReported | None, now: UsageReported) -> UsageReported:
    """The sum; the context is that of the last report with one; cost is None if never reported."""
    if before is None:
        return now
    costs = [usage.cost_usd for usage in (before, now) if usage.cost_usd is not None]
    reported = now if now.context_used is not None else before
    return UsageReported(
        parent=now.parent,
        input_tokens=before.input_tokens + now.input_tokens,
        output_tokens=before.output_tokens + now.output_tokens,
        cached_tokens=before.cached_tokens + now.cached_tokens,
        cost_usd=round(sum(costs), 9) if costs else None,
        priced=now.priced or before.priced,
        context_used=reported.context_used,
        context_limit=reported.context_limit,
    )
