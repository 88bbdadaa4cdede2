"""`opencode serve`: what its event stream means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opencode_playback import Said, encoded, lines, name, play_serve, recordings

from bridle.agents.opencode.serve import OPTIONS, ServeEvents
from bridle.core.events import (
    Choice,
    MessageChunk,
    Notice,
    PermissionRequested,
    Question,
    QuestionAsked,
    ToolFinished,
    TurnEnded,
    Unrecognized,
)

OURS = "ses_1"


@pytest.mark.parametrize("recording", recordings("serve"), ids=name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(play_serve(recording)) == (recording / "events.jsonl").read_text()


@pytest.mark.parametrize("recording", recordings("serve"), ids=name)
def test_nothing_recorded_is_unrecognized_and_the_turn_ends_once(recording: Path) -> None:
    heard = play_serve(recording)
    assert [one for one in heard if isinstance(one, Unrecognized)] == []
    assert sum(isinstance(one, TurnEnded) for one in heard) == 1


@pytest.mark.parametrize("recording", recordings("serve"), ids=name)
def test_the_deltas_of_a_message_are_its_final_text(recording: Path) -> None:
    assert _texts(play_serve(recording)) == _written(recording)


def test_a_request_is_for_the_call_it_came_from() -> None:
    events = _open()
    _running(events, "c1", {"command": "ls"})
    [asked] = events.hear(
        _event("permission.asked", id="per_1", permission="bash", tool={"callID": "c1"})
    )
    assert asked == PermissionRequested(
        request_id="per_1", tool="Bash", title="Bash `ls`", input={"command": "ls"},
        call_id="c1", options=OPTIONS,
    )  # fmt: skip


def test_a_folder_outside_of_the_project_is_asked_for_by_its_pattern() -> None:
    [asked] = _open().hear(
        _event("permission.asked", id="per_1", permission="external_directory", patterns=["/x/*"])
    )
    assert isinstance(asked, PermissionRequested)
    assert (asked.paths, asked.reason) == (("/x/*",), "it is outside of the project")


def test_questions_are_asked_with_their_choices() -> None:
    one = {
        "question": "Which?", "header": "Colour", "multiple": True,
        "options": [{"label": "red", "description": "warm"}],
    }  # fmt: skip
    assert list(_open().hear(_event("question.asked", id="que_1", questions=[one]))) == [
        QuestionAsked(
            request_id="que_1",
            questions=(Question("Which?", "Colour", (Choice("red", "warm"),), True),),
        )
    ]


def test_a_subagent_speaks_inside_of_its_call_and_does_not_end_the_turn() -> None:
    events = _open()
    _running(events, "c1", {"prompt": "go"}, tool="task", metadata={"sessionId": "ses_2"})
    part = {"id": "p", "type": "text", "text": "hi", "messageID": "m"}
    heard = [
        *events.hear(_event("message.part.updated", "ses_2", part=part)),
        *events.hear(_event("session.error", "ses_2", error={"data": {"message": "no"}})),
        *events.hear(_event("session.idle", "ses_2")),
    ]
    assert heard == [
        MessageChunk(message_id="p", text="hi", parent="c1"),
        Notice(level="error", kind="subagent", text="no", parent="c1"),
    ]


def test_another_conversation_on_the_same_server_is_passed_over() -> None:
    part = {"id": "p", "type": "text", "text": "hi"}
    assert list(_open().hear(_event("message.part.updated", "ses_9", part=part))) == []


def test_a_call_that_is_open_at_the_end_is_cancelled_and_its_late_words_are_dropped() -> None:
    events = _open()
    _running(events, "c1", {"command": "sleep 9"})
    ended = list(events.hear(_event("session.idle")))
    assert ended[0] == ToolFinished(call_id="c1", outcome="cancelled")
    state = {"status": "completed", "input": {}, "output": "late"}
    part = {"id": "p1", "type": "tool", "tool": "bash", "callID": "c1", "state": state}
    assert list(events.hear(_event("message.part.updated", part=part))) == []
    assert list(events.hear(_event("session.idle"))) == []


def test_what_nobody_knows_is_kept() -> None:
    [event] = _open().hear(_event("session.levitated"))
    [part] = _open().hear(_event("message.part.updated", part={"type": "smell"}))
    assert isinstance(event, Unrecognized)
    assert isinstance(part, Unrecognized)
    assert event.why == "an event of type 'session.levitated'"
    assert part.why == "a part of type 'smell'"


def _open() -> ServeEvents:
    events = ServeEvents(OURS, "/proj")
    events.prompted()
    return events


def _event(kind: str, session: str = OURS, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": {"sessionID": session, **properties}}


def _running(
    events: ServeEvents, call_id: str, input: dict[str, Any], tool: str = "bash", **state: Any
) -> None:
    state = {"status": "running", "input": input, **state}
    part = {"id": "p1", "type": "tool", "tool": tool, "callID": call_id, "state": state}
    assert len(list(events.hear(_event("message.part.updated", part=part)))) == 1


def _texts(heard: list[Said]) -> dict[str, str]:
    messages: dict[str, str] = {}
    for one in heard:
        if isinstance(one, MessageChunk):
            messages[one.message_id] = messages.get(one.message_id, "") + one.text
    return messages


def _written(recording: Path) -> dict[str, str]:
    """The last word on each text of the assistant in the prompted session."""
    session, users, texts = "", set(), {}
    for one in lines(recording):
        match one["msg"]:
            case {"http": _, "path": path} if "/prompt_async" in path or "/message" in path:
                session = path.split("/")[2]
            case {"sse": {"properties": {"info": {"role": "user", "id": id}}}}:
                users.add(id)
            case {"sse": {"properties": {"part": {"type": "text", "id": id} as part}}}:
                if part["sessionID"] == session and part["messageID"] not in users:
                    texts[id] = part["text"]
    return {id: text for id, text in texts.items() if text}
