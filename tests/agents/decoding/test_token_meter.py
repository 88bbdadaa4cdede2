"""The token meter: calls are added, totals are subtracted, and a turn is reported once."""

from __future__ import annotations

from tillerman.agents.decoding.token_meter import TokenCounts, TokenMeter
from tillerman.core.events import UsageReported


def test_calls_are_added_until_they_are_reported() -> None:
    meter = TokenMeter()
    meter.add(TokenCounts(10, 2, 5, 0.1))
    meter.add(TokenCounts(1, 1, 0, 0.2))
    meter.context, meter.window = 16, 100
    assert meter.report() == UsageReported(
        input_tokens=11,
        output_tokens=3,
        cached_tokens=5,
        cost_usd=0.3,
        context_used=16,
        context_limit=100,
    )
    assert meter.report() == UsageReported(context_used=16, context_limit=100)


def test_a_total_counts_what_came_since_the_last_one_of_its_source() -> None:
    meter = TokenMeter()
    assert meter.since_total(TokenCounts(10, 2), "a") == TokenCounts(10, 2)
    assert meter.since_total(TokenCounts(15, 3), "a") == TokenCounts(5, 1)
    assert meter.since_total(TokenCounts(7, 1), "b", first=TokenCounts(6, 1)) == TokenCounts(1, 0)


def test_a_total_that_decreased_counts_from_zero() -> None:
    meter = TokenMeter()
    meter.since_total(TokenCounts(10, 2, 3, 0.5))
    assert meter.since_total(TokenCounts(4, 1, 0, 0.1)) == TokenCounts(4, 1, 0, 0.1)


def test_tokens_that_moved_to_the_cache_are_not_a_reset() -> None:
    assert TokenCounts(5, 3, 20).since(TokenCounts(10, 2, 4)) == TokenCounts(0, 1, 16)


def test_a_difference_is_never_negative_and_an_unknown_cost_stays_unknown() -> None:
    assert TokenCounts(1, 1, 1).minus(TokenCounts(2, 0, 3, 0.5)) == TokenCounts(0, 1, 0)
    assert TokenCounts(1, 1).plus(TokenCounts(1, 1)).cost is None
