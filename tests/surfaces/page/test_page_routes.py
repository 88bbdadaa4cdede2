"""The page over HTTP, as a browser without scripts uses it; and what it refuses."""

from __future__ import annotations

import itertools
import json
from urllib.parse import quote

import msgspec
import pytest

from tests.surfaces.conftest import wait_until
from tests.surfaces.page.browser import Browser, with_id
from tests.surfaces.page.page_tree import Page
from tests.surfaces.server.service_desk import Desk
from tillerman.surfaces.page.patches import PagePatch

pytestmark = pytest.mark.timeout(120)

ASKS = [{"say": "I write."}, {"write": "a.txt", "text": "x\n"}, {"say": "Done."}]
CHOICES = [{"label": "one"}, {"label": "two"}]
QUESTION = [{"question": [{"text": "Which?", "choices": CHOICES}]}, {"say": "Thanks."}]


@pytest.fixture(scope="module")
def browser(house: Desk) -> Browser:
    return Browser(house)


def waiting(desk: Desk, session: str) -> bool:
    return any(one["session"] == session for one in desk.get("/requests"))


def test_a_session_is_started_by_a_form_and_shown(browser: Browser) -> None:
    fields = {
        "csrf": browser.csrf(),
        "folder": str(browser.desk.bench.project),
        "agent": "mock",
        "approve": "auto",
        "text": json.dumps([{"say": "Hello **there**."}]),
    }
    reply = browser.submit("/new", fields)
    assert reply.status == 303
    place = reply.headers["location"]
    browser.desk.ended(place.removeprefix("/s/"))
    turns = with_id(browser.page(place), "turns")
    assert turns
    assert "Hello there." in turns.text


def test_files_of_a_prompt_arrive(browser: Browser) -> None:
    fields = {
        "csrf": browser.csrf(),
        "folder": str(browser.desk.bench.project),
        "agent": "mock",
        "approve": "auto",
        "text": json.dumps([{"say": "Seen."}]),
    }
    reply = browser.upload("/new", fields, [("notes.txt", b"some notes\n")])
    session = reply.headers["location"].removeprefix("/s/")
    started = next(
        one["event"]
        for one in browser.desk.ended(session)
        if one["event"]["type"] == "turn_started"
    )
    assert [one["name"] for one in started["attachments"]] == ["notes.txt"]


def test_a_request_is_shown_and_answered(browser: Browser) -> None:
    session = browser.desk.start(ASKS, approve="ask")
    wait_until(lambda: waiting(browser.desk, session))
    root = browser.page(f"/s/{session}")
    dock = with_id(root, "dock")
    assert dock
    assert "a.txt" in dock.text
    assert root.children[0].html().count("Needs you") == 1  # type: ignore[union-attr]
    hidden = {
        one.attributes["name"]: one.attributes["value"]
        for one in dock.walk()
        if one.attributes.get("type") == "hidden"
    }
    reply = browser.submit(dock.attributes["action"], {**hidden, "option": "allow"})
    assert reply.status == 303
    seen = browser.desk.ended(session)
    answered = next(one["event"] for one in seen if one["event"]["type"] == "request_answered")
    assert (answered["answer"]["option"], answered["surface"]) == ("allow", "page")
    again = browser.submit(dock.attributes["action"], {**hidden, "option": "allow"})
    assert again.status == 409


def test_a_question_is_answered_with_a_choice_or_in_other_words(browser: Browser) -> None:
    for given, expected in (({"answer-0": "two"}, "two"), ({"answer-0": "own", "own-0": "x"}, "x")):
        session = browser.desk.start(QUESTION)
        wait_until(lambda session=session: waiting(browser.desk, session))  # type: ignore[misc]
        dock = with_id(browser.page(f"/s/{session}"), "dock")
        assert dock
        fields = {
            one.attributes["name"]: one.attributes["value"]
            for one in dock.walk()
            if one.attributes.get("type") == "hidden"
        }
        reply = browser.submit(dock.attributes["action"], {**fields, **given, "option": "allow"})
        assert reply.status == 303, reply
        seen = browser.desk.ended(session)
        answer = next(one["event"] for one in seen if one["event"]["type"] == "request_answered")
        assert list(answer["answer"]["answers"].values()) == [expected]


def test_an_answer_to_something_else_than_was_shown_is_refused(browser: Browser) -> None:
    session = browser.desk.start(ASKS, approve="ask")
    wait_until(lambda: waiting(browser.desk, session))
    dock = with_id(browser.page(f"/s/{session}"), "dock")
    assert dock
    fields = {"csrf": browser.csrf(), "shown": "0" * 64, "option": "allow"}
    assert browser.submit(dock.attributes["action"], fields).status == 409
    assert waiting(browser.desk, session)
    browser.submit(f"/s/{session}/cancel", {"csrf": browser.csrf()})
    assert browser.desk.ended(session)[-1]["event"]["reason"] == "cancelled"


def test_frames_lead_to_the_page_as_it_is_opened_later(browser: Browser) -> None:
    session = browser.desk.start([{"repeat": 40, "steps": [{"say": "one **two** three\n\n"}]}])
    page = Page()
    with browser.frames(f"/s/{session}/stream?since=0&first=0") as frames:
        for raw in frames:
            frame = msgspec.convert(raw, PagePatch)
            inside = [op for op in frame.ops if op.id.startswith(("t-", "b-", "f-"))]
            assert page.apply(PagePatch(frame.seq, inside))
            if "Done" in page.root.text:
                break
    opened = with_id(browser.page(f"/s/{session}"), "turns")
    assert opened
    assert page.html() == f"<root>{opened.html()}</root>"


def test_a_page_that_was_away_gets_what_changed(browser: Browser) -> None:
    session = browser.desk.start([{"say": "First."}])
    browser.desk.ended(session)
    since = browser.desk.get(f"/sessions/{session}")["entries"]
    browser.desk.prompt(session, [{"say": "Second."}])
    browser.desk.ended(session, 2)
    with browser.frames(f"/s/{session}/stream?since={since}&first=0") as frames:
        ops = [op for frame in itertools.islice(frames, 1) for op in frame["ops"]]
    texts = "".join(op.get("html", "") for op in ops if op["id"].startswith(("t-", "b-")))
    assert "Second." in texts
    assert "First." not in texts


def test_a_search_marks_what_was_found(browser: Browser) -> None:
    session = browser.desk.start([{"say": "A xylophone appears."}])
    browser.desk.ended(session)
    root = browser.page("/search?q=xylophone")
    marks = [one.text for one in root.walk() if one.name == "mark"]
    assert "xylophone" in marks


def test_errors_are_pages_for_people_and_objects_for_scripts(browser: Browser) -> None:
    page = browser.get("/s/nothing")
    assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    told = browser.get("/s/nothing", Accept="application/json")
    assert told.json["kind"] == "session_not_found"
    fields = {"csrf": browser.csrf(), "folder": "/nowhere", "agent": "mock", "text": "x"}
    assert browser.submit("/new", fields).status == 400
    assert browser.submit("/new", {**fields, "text": " "}).status == 400


def test_static_files_are_cached_and_nothing_else_is_served(browser: Browser) -> None:
    root = browser.page("/new")
    script = next(one.attributes["src"] for one in root.walk() if one.name == "script")
    reply = browser.get(script)
    assert (reply.status, "immutable" in reply.headers["cache-control"]) == (200, True)
    for name in ("..%2fdocument.py", "document.py", "%2e%2e/routes.py", "icons.svg"):
        assert browser.get(script.rpartition("/")[0] + "/" + name).status == 404


def test_the_page_forbids_foreign_content(browser: Browser) -> None:
    policy = browser.get("/new").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


FORMS = ("/new", "/s/{session}/prompt", "/s/{session}/configure", "/s/{session}/cancel",
         "/s/{session}/r/x")  # fmt: skip
DOCUMENTS = ("/", "/new", "/search", "/s/{session}", "/s/{session}/earlier?before=1",
             "/s/{session}/stream")  # fmt: skip


@pytest.mark.parametrize("path", FORMS)
def test_a_form_without_its_secret_or_from_another_page_is_refused(
    browser: Browser, path: str
) -> None:
    session = browser.desk.start([{"say": "x"}])
    place = path.format(session=session)
    secret = {"csrf": browser.csrf(), "text": "x"}
    foreign = {"Origin": "http://evil.example"}
    assert browser.submit(place, {"text": "x"}).status == 403
    assert browser.submit(place, {**secret, "csrf": "x"}).status == 403
    assert browser.submit(place, secret, **foreign).status == 403
    assert browser.submit(place, secret, Origin=None).status == 403
    assert browser.submit(place, secret, Origin="null").status == 403
    assert browser.submit(place, secret, Sec_Fetch_Site="cross-site").status == 403
    assert browser.submit(place, secret, Cookie="tillerman=x").status == 401


@pytest.mark.parametrize("path", DOCUMENTS)
def test_no_document_is_shown_without_a_cookie(browser: Browser, path: str) -> None:
    place = path.format(session=quote("x"))
    assert browser.get(place, Cookie=None).status in (303, 401)
    assert browser.get(place, Host="evil.example").status == 421


def test_a_browser_that_may_only_read_cannot_answer_or_prompt(house: Desk) -> None:
    reader = Browser(house, "read")
    session = house.start([{"say": "x"}])
    secret = {"csrf": reader.csrf(f"/s/{session}"), "text": "x"}
    for path in FORMS:
        assert reader.submit(path.format(session=session), secret).status == 403
    answerer = Browser(house, "answer")
    secret = {"csrf": answerer.csrf(f"/s/{session}"), "text": "x"}
    assert answerer.submit(f"/s/{session}/prompt", secret).status == 403
