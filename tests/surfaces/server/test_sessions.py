"""Sessions over HTTP: start, follow, prompt, steer, cancel, answer, and all that is stored."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.surfaces.conftest import wait_for_line, wait_until
from tests.surfaces.server.service_desk import Desk, lines_of, messages

pytestmark = pytest.mark.timeout(120)

HELLO = [{"say": "Hello there."}]
ASKS = [{"say": "I write."}, {"write": "a.txt", "text": "x\n"}, {"say": "Done."}]
LONG = [{"repeat": 200, "steps": [{"say": "one two three four"}]}]


def test_events_are_the_entries_that_the_command_line_prints(house: Desk) -> None:
    session = house.start(HELLO)
    seen = house.ended(session)
    assert seen == lines_of(house.bench, session)[: len(seen)]
    assert [one["seq"] for one in seen] == list(range(1, len(seen) + 1))
    assert house.get(f"/sessions/{session}/entries")[: len(seen)] == seen


def test_a_socket_gives_the_same_entries_as_the_event_stream(house: Desk) -> None:
    session = house.start(HELLO)
    seen = house.ended(session)
    with house.socket(f"/sessions/{session}/events?since=0") as line:
        entries = messages(line)
        assert [next(entries) for _ in seen] == seen


@pytest.mark.parametrize("since", [0, 1, 7, 100, 399])
def test_a_follower_from_any_number_gets_the_rest_without_gap_or_repetition(
    house: Desk, since: int
) -> None:
    session = house.start(LONG)
    with house.stream(f"/sessions/{session}/events?since={since}") as events:
        seen = events.until("turn_ended")
    assert [one["seq"] for one in seen] == list(range(since + 1, seen[-1]["seq"] + 1))
    with house.stream(f"/sessions/{session}/events", **{"Last-Event-ID": str(since)}) as events:
        assert events.until("turn_ended") == seen


def test_entries_that_arrive_together_are_sent_together(house: Desk) -> None:
    session = house.start([{"flood": 1, "of": "lines"}])
    entries = len(house.ended(session))
    with house.socket(f"/sessions/{session}/events") as line:
        received = messages = 0
        while received < entries:
            received += str(line.recv(20)).count("\n") + 1
            messages += 1
    assert messages < entries / 10


def test_a_second_turn_is_in_the_stream_of_whoever_follows(house: Desk) -> None:
    session = house.start(HELLO)
    with house.stream(f"/sessions/{session}/events") as events:
        events.until("turn_ended")
        since = house.prompt(session, [{"say": "Again."}])
        again = events.until("turn_ended")
    assert again[-1]["turn"] == 2
    assert all(one["seq"] > since for one in again if one["turn"] == 2)


def test_a_closed_session_is_resumed_by_the_next_prompt(house: Desk) -> None:
    session = house.start(HELLO, linger=0)
    house.ended(session)
    wait_until(lambda: house.get(f"/sessions/{session}")["owner_pid"] is None)
    with house.stream(f"/sessions/{session}/events") as events:
        events.until("agent_exited")
        house.prompt(session, [{"say": "before: {before}"}], linger=0)
        text = "".join(one["event"].get("text", "") for one in events.until("turn_ended"))
    assert "before: " in text


def test_requests_are_listed_and_answered_once(house: Desk) -> None:
    session = house.start(ASKS, approve="ask")
    with house.stream(f"/sessions/{session}/events") as events:
        asked = events.until("permission_requested")[-1]
        request = asked["event"]["request_id"]
        (listed,) = [one for one in house.get("/requests") if one["session"] == session]
        assert listed["request"]["request_id"] == request
        assert listed["request"]["tool"] == asked["event"]["tool"]
        assert listed["idle"] is False
        path = f"/sessions/{session}/requests/{request}"
        wrong = house.call("POST", path, {"option": "allow", "seq": asked["seq"] - 1})
        assert (wrong.status, wrong.kind) == (409, "request_changed")
        misspelled = house.call("POST", path, {"option": "allow", "inputs": {}})
        assert (misspelled.status, misspelled.kind) == (400, "usage_error")
        house.post(path, {"option": "allow", "seq": asked["seq"]})
        late = house.call("POST", path, {"option": "deny"})
        assert (late.status, late.kind) == (409, "request_not_open")
        answered = [one["event"] for one in events.until("turn_ended") if "answer" in one["event"]]
    assert [(one["by"], one["surface"]) for one in answered] == [("person", "http")]
    assert (house.bench.project / "a.txt").exists()


def test_an_answer_can_be_remembered_and_forgotten(house: Desk) -> None:
    session = house.start([{"run": "touch b"}, {"run": "touch b"}], approve="ask")
    with house.stream(f"/sessions/{session}/events") as events:
        request = events.until("permission_requested")[-1]["event"]["request_id"]
        house.post(
            f"/sessions/{session}/requests/{request}",
            {"option": "allow", "remember": "session"},
        )
        rest = events.until("turn_ended")
    assert [one["event"]["by"] for one in rest if "answer" in one["event"]] == ["person", "policy"]
    (rule,) = house.get(f"/sessions/{session}/rules")
    from urllib.parse import quote

    gone = house.call("DELETE", f"/sessions/{session}/rules?told={quote(rule['told'])}")
    assert gone.status == 204, gone
    assert house.get(f"/sessions/{session}/rules") == []


def test_changes_of_open_requests_are_streamed(house: Desk) -> None:
    with house.stream("/requests/events") as events:
        session = house.start(ASKS, approve="ask")
        opened = events.entry()
        while opened["session"] != session:
            opened = events.entry()
        request = opened["event"]["request_id"]
        house.post(f"/sessions/{session}/requests/{request}", {"option": "deny"})
        assert events.entry()["event"]["answer"] == {"option": "deny"}


def test_a_turn_is_steered_queued_and_cancelled(house: Desk) -> None:
    session = house.start([{"say": "Listening."}, {"listen": 30}, {"say": "heard {steer}"}])
    with house.stream(f"/sessions/{session}/events") as events:
        events.until("message_chunk")
        house.post(f"/sessions/{session}/turns", {"text": "left", "when_busy": "steer"})
        text = "".join(one["event"].get("text", "") for one in events.until("turn_ended"))
        assert "heard left" in text
        house.prompt(session, [{"say": "x"}, {"hang": True}])
        events.until("message_chunk")
        refused = house.call(
            "POST", f"/sessions/{session}/turns", {"text": "no", "when_busy": "refuse"}
        )
        assert (refused.status, refused.kind) == (409, "session_busy")
        house.prompt(session, HELLO, when_busy="queue")
        house.post(f"/sessions/{session}/cancel")
        assert events.until("turn_ended")[-1]["event"]["reason"] == "cancelled"


def test_a_file_reaches_the_agent(house: Desk) -> None:
    file = {"name": "notes.txt", "data": base64.b64encode(b"one line").decode()}
    session = house.start([{"say": "files: {files}"}], files=[file])
    seen = house.ended(session)
    (started,) = [one["event"] for one in seen if one["event"]["type"] == "turn_started"]
    assert [(one["name"], one["size"]) for one in started["attachments"]] == [("notes.txt", 8)]


def test_settings_change_while_a_session_runs(house: Desk) -> None:
    session = house.start([{"say": "one two"}, {"hang": True}])
    with house.stream(f"/sessions/{session}/events") as events:
        events.until("message_chunk")
        changed = house.call("PATCH", f"/sessions/{session}/settings", {"approve": "readonly"})
        assert changed.status == 204, changed
        assert events.until("settings_changed")[-1]["event"]["approve"] == "readonly"
        wrong = house.call("PATCH", f"/sessions/{session}/settings", {"approve": "all"})
        assert wrong.status == 400
        house.post(f"/sessions/{session}/cancel")
        events.until("turn_ended")
    refused = house.call("PATCH", f"/sessions/{session}/settings", {})
    assert refused.status == 400


def test_a_session_of_another_process_is_followed_and_steered_through_its_owner(
    house: Desk,
) -> None:
    owner = house.bench.start("run", "-a", "mock", "--approve", "ask", "--json", json.dumps(ASKS))
    line = json.loads(wait_for_line(owner, "permission_requested"))
    session, request = line["session"], line["event"]["request_id"]
    with house.stream(f"/sessions/{session}/events") as events:
        assert events.until("permission_requested")[-1] == line
        house.prompt(session, [{"say": "and more"}])
        house.post(f"/sessions/{session}/requests/{request}", {"option": "allow"})
        text = "".join(
            one["event"].get("text", "")
            for _ in range(2)
            for one in events.until("turn_ended")
            if one["event"]["type"] == "message_chunk"
        )
        assert "and more" in text
    owner.communicate(timeout=20)
    assert owner.returncode == 0


def test_a_stream_of_a_session_at_rest_goes_on_when_a_terminal_resumes_it(house: Desk) -> None:
    session = house.start(HELLO, linger=0)
    house.ended(session)
    wait_until(lambda: house.get(f"/sessions/{session}")["owner_pid"] is None)
    with house.stream(f"/sessions/{session}/events") as events:
        events.until("agent_exited")
        done = house.bench.run("run", "--resume", session, json.dumps([{"say": "by hand"}]))
        assert done.returncode == 0, done.stderr
        text = "".join(one["event"].get("text", "") for one in events.until("turn_ended"))
    assert "by hand" in text


def test_sessions_are_listed_searched_renamed_forked_exported_and_deleted(house: Desk) -> None:
    session = house.start([{"say": "A wombat digs."}], linger=0)
    house.ended(session)
    wait_until(lambda: house.get(f"/sessions/{session}")["owner_pid"] is None)
    assert session in [one["id"] for one in house.get("/sessions?limit=1000")]
    printed = json.loads(house.bench.run("sessions", "list", "--json", "-n", "1000").stdout)
    assert house.get("/sessions?limit=1000") == printed
    assert session in [one["session"] for one in house.get("/search?q=wombat")]
    renamed = house.call("PATCH", f"/sessions/{session}", {"title": "Digging"}).json
    assert renamed["title"] == "Digging"
    copy = house.post(f"/sessions/{session}/fork")
    assert copy["forked_from"] == session
    for format in ("markdown", "html", "jsonl"):
        exported = house.call("GET", f"/sessions/{session}/export?format={format}")
        assert b"wombat" in exported.data
        assert "sandbox" in exported.headers["content-security-policy"]
    assert house.call("DELETE", f"/sessions/{session}").status == 204
    gone = house.call("GET", f"/sessions/{session}")
    assert (gone.status, gone.kind) == (404, "session_not_found")


def test_a_running_session_is_not_deleted(house: Desk) -> None:
    session = house.start([{"say": "x"}, {"hang": True}])
    refused = house.call("DELETE", f"/sessions/{session}")
    assert (refused.status, refused.kind) == (409, "session_busy")
    house.post(f"/sessions/{session}/cancel")
    house.ended(session)
    house.post(f"/sessions/{session}/close")
    assert house.get(f"/sessions/{session}")["owner_pid"] is None


def test_the_result_and_the_changes_of_a_turn(house: Desk) -> None:
    steps = [{"write": "made.txt", "text": "one\ntwo\n"}, {"say": "Written."}]
    session = house.start(steps)
    house.ended(session)
    result = house.get(f"/sessions/{session}/turns/1")
    assert (result["status"], result["text"]) == ("completed", "Written.")
    changes = house.get(f"/sessions/{session}/turns/1/diffs")
    (diff,) = changes["diffs"]
    assert diff["path"].endswith("made.txt")
    assert "+two" in diff["patch"]
    missing = house.call("GET", f"/sessions/{session}/turns/9/diffs")
    assert (missing.status, missing.kind) == (404, "turn_not_found")


def test_another_agent_takes_over(house: Desk) -> None:
    session = house.start(HELLO)
    house.ended(session)
    body = {"agent": "mock", "prompt": "x"}
    same = house.call("POST", f"/sessions/{session}/handoff", body)
    assert (same.status, same.kind) == (400, "usage_error")


def test_a_session_gets_the_config_of_its_folder(house: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    (folder / ".tillerman").mkdir(parents=True)
    (folder / ".tillerman/config.toml").write_text('agent = "mock"\n')
    environment = house.bench.environment
    done = house.bench.run("trust", str(folder), "--yes", **environment)
    assert done.returncode == 0, done.stderr
    body = {"cwd": str(folder), "prompt": json.dumps(HELLO), "approve": "auto"}
    started = house.post("/sessions", body)
    assert (started["agent"], started["cwd"]) == ("mock", str(folder))
    house.ended(started["id"])


def test_a_session_that_cannot_start_says_why(house: Desk) -> None:
    folder = str(house.bench.project)
    for body, status, kind in (
        ({"agent": "nobody", "cwd": folder}, 404, "agent_unknown"),
        ({"agent": "codex", "cwd": folder}, 424, "agent_not_installed"),
        ({"agent": "acp:true", "cwd": folder}, 422, "gate_not_enforced"),
        ({"agent": "mock", "cwd": "relative"}, 400, "usage_error"),
        ({"agent": "mock", "cwd": folder, "approve": "evrything"}, 400, "usage_error"),
        ({"agent": "mock", "cwd": folder, "aprove": "ask"}, 400, "usage_error"),
        ({"agent": "mock"}, 400, "usage_error"),
    ):
        refused = house.call("POST", "/sessions", body)
        assert (refused.status, refused.kind) == (status, kind), refused
        assert set(refused.json["error"]) == {"kind", "message", "hint", "exit_code"}
