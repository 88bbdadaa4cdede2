"""An agent with endless requests: what nobody can ever answer is denied, and not stored."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from tillerman.core.events import PermissionRequested, RequestAnswered
from tillerman.core.permission import DecisionContext, Policy
from tillerman.sessions.limits.timers import Timers
from tillerman.sessions.permissions.open_requests import MOST_OPEN, OpenRequests, Request


async def test_more_requests_than_a_person_could_answer_are_denied_at_once() -> None:
    reported: list[RequestAnswered] = []

    def answered(request: Request, event: RequestAnswered) -> None:
        reported.append(event)

    requests = OpenRequests(Policy(()), Timers(pytest.fail), None, answered)
    for number in range(MOST_OPEN + 100):
        request = PermissionRequested(request_id=str(number), tool="Bash", title="ls", input={})
        requests.open(request)
        requests.resolve_or_wait(request, DecisionContext(cwd=PurePath("/proj")))
    assert [event.answer.option for event in reported] == ["deny"] * 100
    assert {event.by for event in reported} == {"policy"}
    requests.withdraw_all()
    assert len(reported) == MOST_OPEN + 100
