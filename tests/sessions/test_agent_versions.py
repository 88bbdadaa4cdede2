"""An untested version of an agent runs, with a notice."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO, MockAgent
from tillerman.agents.mock.wire import MockWire
from tillerman.core.events import Notice

TESTED = ("1.4.0", "2.1.325")


async def notices(desk: Desk, *versions: str) -> list[str]:
    desk.agent = MockAgent(replace(INFO, tested=TESTED), MockWire)
    session = await desk.start()
    ready = [{"type": "ready", "native_id": "n1", "version": version} for version in versions]
    result = await session.ask(json.dumps([{"send": message} for message in ready]))
    assert result.status == "completed"
    log = [entry.event for entry in desk.sessions.log.since(session.id)]
    assert all(
        (event.kind, event.level) == ("version", "warning")
        for event in log
        if isinstance(event, Notice)
    )
    return [event.text for event in log if isinstance(event, Notice)]


async def test_a_newer_version_than_any_tested_runs_with_one_notice(desk: Desk) -> None:
    newer = "Mock 2.2.0 is newer than 2.1.325, the newest tested version"
    assert await notices(desk, "2.2.0", "2.2.0") == [newer]


async def test_an_older_version_than_any_tested_runs_with_a_notice(desk: Desk) -> None:
    older = "Mock 1.3.9 is older than 1.4.0, the oldest tested version"
    assert await notices(desk, "1.3.9") == [older]


@pytest.mark.parametrize("version", ["1.4.0", "1.10.2", "2.1.325", "2.1.325-beta.7", "nightly"])
async def test_there_is_no_notice_for_versions_in_range_or_incomparable(
    desk: Desk, version: str
) -> None:
    assert await notices(desk, version) == []
