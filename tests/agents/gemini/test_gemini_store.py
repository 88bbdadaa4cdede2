"""Gemini's session files: which of them are empty, and how a session ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tillerman.agents.gemini.stored_sessions import drop_empty_files, recorded
from tillerman.agents.stdio.recorded_conversation import Recorded

ID = "04c7906e-2c4e-4e17-9ba4-40233899597e"
HEAD = {"sessionId": ID, "kind": "main"}
CONTEXT = {"id": "c", "type": "user", "content": [{"text": "<session_context>\nToday …"}]}
BEGUN = [HEAD, {"$set": {"messages": [CONTEXT]}}]
RESULT = {"id": "r", "type": "user", "content": [{"functionResponse": {"id": "1"}}]}
CALL = {"id": "g0", "type": "gemini", "content": "", "toolCalls": [{"id": "1"}]}


def user_record(words: str) -> dict[str, Any]:
    return {"id": f"u-{words}", "type": "user", "content": [{"text": words}]}


def model_record(words: str) -> dict[str, Any]:
    return {"id": f"g-{words}", "type": "gemini", "content": words}


def chat(home: Path, minute: str, *records: object, id: str = ID) -> Path:
    file = home / "tmp" / "proj" / "chats" / f"session-2026-11-16T22-{minute}-{id[:8]}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def test_only_empty_files_of_a_session_that_has_others_are_removed(tmp_path: Path) -> None:
    reported = chat(tmp_path, "26", *BEGUN, user_record("go"), model_record("Gone."))
    empty = [chat(tmp_path, minute, *BEGUN[:length]) for minute, length in (("27", 2), ("28", 1))]
    other = {**HEAD, "sessionId": f"{ID[:8]}-of-another"}
    namesake = chat(tmp_path, "29", other)
    alone = chat(tmp_path, "26", *BEGUN, id="c9438c41-0000")
    drop_empty_files(tmp_path, ID)
    drop_empty_files(tmp_path, "c9438c41-0000")
    left = [file.exists() for file in (reported, *empty, namesake, alone)]
    assert left == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("records", "end"),
    [
        ([*BEGUN], None),
        ([*BEGUN, user_record("go")], Recorded("go", None)),
        ([*BEGUN, user_record("go"), model_record("Gone.")], Recorded("go", "Gone.")),
        ([*BEGUN, user_record("go"), model_record("I look."), CALL, RESULT], Recorded("go", None)),
        ([*BEGUN, user_record("go"), CALL, RESULT, model_record("Seen.")], Recorded("go", "Seen.")),
        (
            [*BEGUN, user_record("go"), model_record("Gone."), user_record("on")],
            Recorded("on", None),
        ),
        (  # it gave up on the answer to "on", and drops the prompt
            [
                *(*BEGUN, user_record("go"), model_record("Gone."), user_record("on")),
                {"$set": {"messages": [CONTEXT, user_record("go"), model_record("Gone.")]}},
            ],
            Recorded("on", None),
        ),
        (  # the same words twice
            [
                *(*BEGUN, user_record("go"), model_record("Gone."), user_record("go")),
                {"$set": {"messages": [CONTEXT, user_record("go"), model_record("Gone.")]}},
            ],
            Recorded("go", None),
        ),
        (  # a summary in place of the beginning, and then it answers
            [*BEGUN, user_record("go"), {"$set": {"messages": [CONTEXT]}}, model_record("Gone.")],
            Recorded("go", "Gone."),
        ),
    ],
)
def test_the_end_of_a_record(tmp_path: Path, records: list[object], end: Recorded | None) -> None:
    chat(tmp_path, "26", *records)
    assert recorded(tmp_path, ID) == end
