"""The real Claude Code in one conversation: each test adds a few turns."""

from __future__ import annotations

import pytest

from tests.real.standing import StandingDesk


@pytest.fixture
def desk(standing_claude_desk: StandingDesk) -> StandingDesk:
    return standing_claude_desk
