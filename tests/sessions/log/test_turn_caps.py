"""No kind of event passes the cap of a turn's log without a bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.core.agent import DecodedLine
from tillerman.core.events import (
    AgentReady,
    Answer,
    BackgroundChanged,
    BackgroundTask,
    Event,
    Notice,
    PermissionRequested,
    RequestAnswered,
    TurnEnded,
    encode,
)
from tillerman.sessions.log.sanitizer import EventSanitizer
from tillerman.sessions.log.size_limits import LEAST_STEERING, DiskBudget
from tillerman.supervision.secrets import Secrets
from tillerman.testing.test_host import FileSpill

CAP = 20_000
END = TurnEnded(reason="completed")
AT_REST = BackgroundChanged(tasks=())
TEXT = "x" * 1_900
SECRET = "c0ffee-Kx81jQzT7vYwR5u"


def _asked(number: int, text: str = TEXT) -> Event:
    return PermissionRequested(request_id=str(number), tool="Bash", title=text, reason=text)


def _answered(number: int) -> Event:
    answer = Answer("deny", note=TEXT)
    return RequestAnswered(request_id=str(number), answer=answer, by="withdrawn")


KINDS: dict[str, Callable[[int], Event]] = {
    "background": lambda number: BackgroundChanged(tasks=(BackgroundTask(str(number), TEXT),)),
    "permission": _asked,
    "answer": _answered,
    "ready": lambda number: AgentReady(native_id=f"{number}{TEXT}"),
}


@pytest.fixture
def intake(tmp_path: Path) -> EventSanitizer:
    return EventSanitizer(
        Secrets({"KEY": SECRET}),
        output_cap=1_000,
        budget=DiskBudget(CAP),
        spill=lambda: FileSpill(tmp_path / "spill"),
    )


def stored(intake: EventSanitizer, events: list[Event]) -> list[Event]:
    received = [DecodedLine(encode(event), [event]) for event in events]
    return [event for one in intake.sanitize(received) for event in one.events]


@pytest.mark.parametrize("kind", KINDS)
def test_the_events_others_wait_for_are_bounded_too_and_their_loss_is_reported(
    intake: EventSanitizer, kind: str
) -> None:
    flood = [KINDS[kind](number) for number in range(3_000)]
    events = stored(intake, [*flood, AT_REST, *flood[:10], AT_REST, END])

    assert 2 * sum(len(encode(event)) for event in events) < LEAST_STEERING + 2 * CAP
    assert events[-2:] == [AT_REST, END]
    assert [event.kind for event in events if isinstance(event, Notice)] == ["truncated"]
    [notice] = intake.flush()
    assert isinstance(notice, Notice)
    assert notice.text.startswith("dropped ")


def test_the_next_turn_has_the_whole_cap_again(intake: EventSanitizer) -> None:
    stored(intake, [_asked(number) for number in range(3_000)])
    intake.flush()
    intake.new_turn()
    assert stored(intake, [_asked(1), AT_REST]) == [_asked(1), AT_REST]


def test_a_long_title_is_cut_and_no_secret_with_it(intake: EventSanitizer) -> None:
    text = "x" * 1_990 + SECRET + "y" * 100_000
    tasks = tuple(BackgroundTask(str(number), text) for number in range(300))
    asked, changed = stored(intake, [_asked(1, text), BackgroundChanged(tasks=tasks[:2])])
    short = "x" * 1_990 + "[secret:KE…"
    assert asked == _asked(1, short)
    assert changed == BackgroundChanged(
        tasks=(BackgroundTask("0", short), BackgroundTask("1", short))
    )


def test_no_more_tasks_are_stored_than_are_read(intake: EventSanitizer) -> None:
    tasks = tuple(BackgroundTask(str(number)) for number in range(300))
    assert stored(intake, [BackgroundChanged(tasks=tasks)]) == [
        BackgroundChanged(tasks=tasks[:200])
    ]
