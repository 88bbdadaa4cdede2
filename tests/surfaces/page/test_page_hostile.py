"""Wrong addresses and forms of every kind: the page refuses them, and none is a 5xx."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from urllib.parse import quote, unquote, urlencode

import pytest

from tests.surfaces.page.browser import Browser, with_id
from tests.surfaces.page.page_tree import parsed
from tests.surfaces.server.service_desk import Desk
from tests.surfaces.server.test_input_hostile import DEEP, DIGITS, TEXTS
from tillerman.core.events import PermissionRequested
from tillerman.surfaces.page.html_text import link
from tillerman.surfaces.page.request_html import ShownRequest, dock_html

pytestmark = pytest.mark.timeout(300)

ATTEMPTS = int(os.environ.get("TILLERMAN_HOSTILE_ATTEMPTS", "300"))
FIELDS = ("csrf", "text", "folder", "agent", "model", "mode", "approve", "if_busy", "shown",
          "option", "remember", "note", "input", "answer-0", "own-0", "files", "code")  # fmt: skip
QUERY = ("before", "since", "first", "q", "changes", "screen", "x")
PATHS = ("/", "/new", "/search", "/in", "/s/{s}", "/s/{s}/earlier", "/s/{s}/prompt",
         "/s/{s}/configure", "/s/{s}/cancel", "/s/{s}/r/{r}", "/static/1/{r}", "/s//earlier",
         "/static/../../etc/passwd", "/s/{r}", "/{r}")  # fmt: skip
POSTED = ("/in", "/new", "/s/{s}/prompt", "/s/{s}/configure", "/s/{s}/cancel", "/s/{s}/r/{r}")
VALUES = (
    *TEXTS, DIGITS, "t-", "t-x", "t--1", "t-" + DIGITS, "t-\u0661", "é" * 64, "{" * DEEP,
    '{"a":' * DEEP, "auto", "readonly", "none", "agent", "steer", "allow", "always", "project",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(house: Desk) -> Browser:
    return Browser(house)


def test_no_generated_address_or_form_is_an_error_of_the_service(browser: Browser) -> None:
    chosen = random.Random(18)
    desk = browser.desk
    session = desk.start([{"say": "mine"}])
    desk.ended(session)
    csrf, seen, failed = browser.csrf(), Counter[int](), []
    for _ in range(ATTEMPTS):
        part = quote(chosen.choice(VALUES)[:3_000], safe="") or "x"
        if chosen.random() < 0.5:
            path = chosen.choice(PATHS).format(s=session, r=part)
            names = chosen.sample(QUERY, chosen.randrange(3))
            query = urlencode({name: chosen.choice(VALUES)[:6_000] for name in names})
            reply = browser.get(f"{path}?{query}", Accept=chosen.choice(("text/html", "*/*")))
        else:
            path = chosen.choice(POSTED).format(s=session, r=part)
            fields = {name: chosen.choice(VALUES) for name in chosen.sample(FIELDS, 4)}
            if chosen.random() < 0.8:
                fields["csrf"] = csrf
            if chosen.random() < 0.5:
                fields["folder"] = str(desk.bench.project)
            if path.startswith("/s/") and path.endswith("/prompt"):
                fields["text"] = " "
            if chosen.random() < 0.7:
                reply = browser.submit(path, fields)
            else:
                reply = browser.upload(path, fields, [(chosen.choice(TEXTS)[:99], b"x")])
        seen[reply.status] += 1
        if reply.status >= 500:
            failed.append((path[:80], reply.data[:300]))
        assert b"<script>" not in reply.data, path
    print(seen)
    assert not failed, "\n".join(map(str, failed[:30]))
    assert desk.call("GET", "/health").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x",
        b"--x\r\n\r\n",
        b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nb',
        b'--x\r\nContent-Disposition: form-data; name="\xff"\r\n\r\n\xff\r\n--x--',
        b"--x\r\n" + b"A: b\r\n" * 5_000 + b"\r\n--x--",
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 200 + b"--x--",
        b"\0" * 1_000,
        b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--",
        b"--x\r\nContent-Type: text/plain; charset=nope\r\nContent-Disposition: form-data; "
        b'name="text"\r\n\r\n1\r\n--x--',
    ],
)
@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=x; charset=nope",
        "multipart/form-data; boundary=x; charset=utf-7",
        "application/x-www-form-urlencoded; charset=nope",
    ],
)
def test_a_malformed_form_is_refused(browser: Browser, kind: str, body: bytes) -> None:
    given = browser.headers(Content_Type=kind, Origin=browser.origin)
    assert 400 <= browser.desk.send("POST", "/new", given, body).status < 500


def test_a_form_of_sign_in_that_is_too_large_is_refused(browser: Browser) -> None:
    assert browser.submit("/in", {"code": "a" * 10_000}).status == 413


@pytest.mark.parametrize("request_id", [one for one in TEXTS if one not in ("", ".", "..")])
def test_a_request_with_any_id_is_answered_at_its_own_address(request_id: str) -> None:
    asked = PermissionRequested(request_id=request_id, tool="Bash", title="t", input={})
    dock = with_id(parsed(dock_html(ShownRequest("s1", "mock", asked, since=""), "c")), "dock")
    assert dock
    place = dock.attributes["action"]
    assert place.isascii()
    assert "/" not in place.removeprefix("/s/s1/r/")
    assert not set("?#") & set(place)
    assert unquote(place.removeprefix("/s/s1/r/")) == request_id


@pytest.mark.parametrize(
    ("shown", "url"),
    [
        ("mybank.com", "https://bank.com/"),
        ("https://github.com/a", "https://hub.com/a"),
        ("https://good.example/?to=evil.example", "https://evil.example/"),
        ("good.example/evil.example", "https://evil.example/"),
        ("https://evil.example@good.example/", "https://evil.example/"),
        ("https://good.example/#https://evil.example", "https://evil.example/"),
        ("see evil.example.", "https://evil.example/"),
    ],
)
def test_a_link_is_followed_by_its_host_unless_the_text_is_an_address_on_it(
    shown: str, url: str
) -> None:
    host = url.split("/")[2]
    assert link(url, shown, shown).endswith(f'<span class="dim">({host})</span>')
    for same in (host, url, f"{url}more", f"{host}/more"):
        assert "dim" not in link(url, same, same)


def test_json_of_a_form_answer_is_an_object(browser: Browser) -> None:
    session = browser.desk.start([{"write": "a.txt", "text": "x"}], approve="ask")
    while not (asked := browser.desk.get("/requests")):
        pass
    dock = with_id(browser.page(f"/s/{session}"), "dock")
    assert dock
    hidden = {
        one.attributes["name"]: one.attributes["value"]
        for one in dock.walk()
        if one.attributes.get("type") == "hidden"
    }
    for wrong in ("[", "[]", "1", '{"a":' * DEEP, '"a"', "{}" * 2):
        fields = {**hidden, "option": "allow", "input": wrong}
        assert browser.submit(dock.attributes["action"], fields).status == 400, wrong[:20]
    assert json.dumps(asked) == json.dumps(browser.desk.get("/requests"))
    browser.submit(f"/s/{session}/cancel", {"csrf": browser.csrf()})
    browser.desk.ended(session)
