"""Tokens and browsers: what each may do, how one signs in by a link, and how one is revoked."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

import pytest

from tests.surfaces.server.service_desk import Desk, Reply

pytestmark = pytest.mark.timeout(60)

FORM = "application/x-www-form-urlencoded"


def with_token(desk: Desk, token: str, method: str, path: str, body: object = None) -> Reply:
    headers = desk.headers(Authorization=f"Bearer {token}")
    return desk.call(method, path, body, headers=headers)


def test_a_scope_includes_those_before_it(desk: Desk) -> None:
    tokens = {
        scope: desk.bench.run("serve", "token", "--scope", scope).stdout.strip()
        for scope in ("read", "answer", "drive")
    }
    session = desk.start([{"say": "x"}])
    calls = {
        "read": ("GET", "/sessions", None),
        "answer": ("POST", f"/sessions/{session}/requests/none", {"option": "allow"}),
        "drive": ("PATCH", f"/sessions/{session}", {"title": "T"}),
    }
    allowed = {
        scope: [
            wanted for wanted, call in calls.items() if with_token(desk, token, *call).status != 403
        ]
        for scope, token in tokens.items()
    }
    assert allowed == {
        "read": ["read"],
        "answer": ["read", "answer"],
        "drive": ["read", "answer", "drive"],
    }
    refused = with_token(desk, tokens["read"], "POST", "/tokens", {"scope": "drive"})
    assert (refused.status, refused.kind) == (403, "scope")


def test_a_revoked_token_is_refused_at_once(desk: Desk) -> None:
    made = json.loads(desk.bench.run("serve", "token", "--scope", "read", "--json").stdout)
    assert with_token(desk, made["token"], "GET", "/me").json["scope"] == "read"
    listed = json.loads(desk.bench.run("serve", "token", "--list", "--json").stdout)
    assert [one["id"] for one in listed] == [made["id"]]
    assert made["token"] not in (desk.folder / "tokens.json").read_text()
    assert desk.bench.run("serve", "token", "--revoke", made["id"]).returncode == 0
    assert with_token(desk, made["token"], "GET", "/me").status == 401
    again = desk.bench.run("serve", "token", "--revoke", made["id"])
    assert again.returncode == 2


class Browser:
    """A browser that opens a link: it sends what browsers send."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._host = {"Host": f"127.0.0.1:{desk.port}"}
        self.own = {"Origin": f"http://127.0.0.1:{desk.port}", "Sec-Fetch-Site": "same-origin"}

    def open(self, url: str) -> Reply:
        parts = urlsplit(url)
        headers = {**self._host, "Sec-Fetch-Site": "none"}
        return self._desk.send("GET", f"{parts.path}?{parts.query}", headers)

    def submit(self, page: Reply, **changed: str) -> Reply:
        found = re.search(rb'name="code" value="([^"]+)"', page.data)
        assert found
        headers = {**self._host, **self.own, "Content-Type": FORM} | changed
        return self._desk.send("POST", "/in", headers, b"code=" + found[1])

    def call(self, cookie: str, method: str, path: str, body: object = None, **more: str) -> Reply:
        headers = {**self._host, **self.own, "Cookie": f"tillerman={cookie}"}
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        return self._desk.call(method, path, body, headers=headers)


def test_a_link_signs_in_one_browser(desk: Desk) -> None:
    url = desk.bench.run("serve", "link", "--scope", "answer").stdout.strip()
    browser = Browser(desk)
    page = browser.open(url)
    assert page.status == 200
    assert browser.open(url).status == 200  # a preview does not use it up
    foreign = browser.submit(page, Origin="https://evil.example")
    assert foreign.status == 403
    signed_in = browser.submit(page)
    assert (signed_in.status, signed_in.headers["location"]) == (303, "/")
    cookie = signed_in.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert browser.submit(page).status == 403
    assert browser.open(url).status == 403
    secret = cookie.split("=", 1)[1].split(";")[0]
    me = browser.call(secret, "GET", "/me").json
    assert (me["name"], me["scope"]) == ("browser", "answer")
    body = {"option": "allow"}
    session = desk.start([{"say": "x"}])
    path = f"/sessions/{session}/requests/none"
    assert browser.call(secret, "POST", path, body).kind == "csrf"
    token = {"X_CSRF_Token": me["csrf"]}
    assert browser.call(secret, "POST", path, body, **token).kind == "request_not_open"
    renamed = browser.call(secret, "PATCH", f"/sessions/{session}", {"title": "T"}, **token)
    assert renamed.kind == "scope"


def test_a_terminal_shows_the_link_as_a_qr_code(desk: Desk) -> None:
    terminal = desk.bench.terminal("serve", "link", size=(120, 60))
    assert terminal.end() == 0
    assert f"http://127.0.0.1:{desk.port}/in?code=" in terminal.text
    assert terminal.text.count("█") > 100
    plain = desk.bench.terminal("serve", "link", "--no-qr")
    assert plain.end() == 0
    assert "█" not in plain.text


def test_a_browser_stays_signed_in_after_a_restart_and_can_be_signed_out(desk: Desk) -> None:
    url = desk.post("/links", {"scope": "read"})["url"]
    browser = Browser(desk)
    secret = browser.submit(browser.open(url)).headers["set-cookie"].split("=", 1)[1].split(";")[0]
    desk.close()
    desk.open()
    browser = Browser(desk)
    assert browser.call(secret, "GET", "/me").status == 200
    (listed,) = desk.get("/tokens")
    assert listed["kind"] == "browser"
    assert desk.call("DELETE", f"/tokens/{listed['id']}").status == 204
    assert browser.call(secret, "GET", "/me").status == 401


def test_a_browser_that_is_signed_in_follows_by_socket(desk: Desk) -> None:
    session = desk.start([{"say": "x"}])
    url = desk.post("/links", {})["url"]
    browser = Browser(desk)
    secret = browser.submit(browser.open(url)).headers["set-cookie"].split("=", 1)[1].split(";")[0]
    headers = {"Cookie": f"tillerman={secret}", **browser.own}
    with desk.socket(f"/sessions/{session}/events", token=False, **headers) as line:
        assert json.loads(str(line.recv(20)).split("\n")[0])["seq"] == 1


def test_no_response_lets_another_origin_read_it(desk: Desk) -> None:
    asked = desk.headers(
        Origin="https://evil.example",
        Access_Control_Request_Method="GET",
        Access_Control_Request_Headers="authorization",
    )
    own = desk.headers(Origin=f"http://127.0.0.1:{desk.port}")
    for headers, status in ((asked, 403), (own, 200)):
        reply = desk.call("GET", "/health", headers=headers)
        assert reply.status == status
        assert not [name for name in reply.headers if name.startswith("access-control")]
    assert desk.call("OPTIONS", "/health", headers=asked).status == 403
    assert desk.call("OPTIONS", "/health", headers=own).status == 405
