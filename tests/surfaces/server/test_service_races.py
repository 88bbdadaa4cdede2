"""Several clients of one service at the same moment, and rights that end while they are used."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.surfaces.conftest import Bench
from tests.surfaces.page.browser import Browser
from tests.surfaces.server.service_desk import Desk
from tests.surfaces.server.test_service import alone
from tillerman.core.errors import UsageError
from tillerman.http_server.token_file import token
from tillerman.paths import Paths
from tillerman.surfaces.server import owned_sessions, service_record, streams
from tillerman.surfaces.server.tokens import MOST_TOKENS, Links, TokenStore

__all__ = ["alone"]

pytestmark = pytest.mark.timeout(180)

HELLO = json.dumps([{"say": "Hello there."}])
HANGS = [{"say": "one"}, {"hang": True}]


@pytest.mark.parametrize("attempt", range(3))
def test_detached_turns_that_start_together_share_one_service(alone: Bench, attempt: int) -> None:
    def run(number: int) -> str:
        done = alone.run("run", "-a", "mock", "--approve", "auto", "--detach", HELLO)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    with ThreadPoolExecutor(5) as pool:
        sessions = list(pool.map(run, range(5)))
    assert len(set(sessions)) == 5
    assert alone.run("serve", "--status").returncode == 0


def test_a_detached_turn_needs_no_home_folder(alone: Bench) -> None:
    run = ("run", "-a", "mock", "--approve", "auto", "--detach", HELLO)
    done = alone.run(*run, HOME=str(alone.home / "missing"))
    assert done.returncode == 0, done.stderr


def test_turns_have_ended_when_a_service_is_stopped(alone: Bench) -> None:
    run = ("run", "-a", "mock", "--approve", "auto", "--detach", json.dumps(HANGS))
    sessions = [alone.run(*run).stdout.strip() for _ in range(5)]
    assert alone.run("serve", "--stop", "--force").returncode == 0
    store = alone.home.parent / "tillerman/state/store.db"
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
        open_turns = database.execute("SELECT count(*) FROM sessions WHERE open_turn IS NOT NULL")
        assert open_turns.fetchone() == (0,)
    assert len(set(sessions)) == 5


def test_looking_whether_a_service_runs_does_not_keep_one_from_starting(tmp_path: Path) -> None:
    paths = _paths(tmp_path)
    with service_record.held(paths):
        pass
    lock = os.open(service_record.folder_of(paths) / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    timer = threading.Timer(0.05, os.close, (lock,))
    timer.start()
    with service_record.held(paths):
        assert service_record.is_held(paths)
    timer.join()


def test_a_second_service_is_refused_soon(tmp_path: Path) -> None:
    paths = _paths(tmp_path)
    with service_record.held(paths):
        began = time.monotonic()
        with pytest.raises(UsageError, match="already running"), service_record.held(paths):
            pass
        assert time.monotonic() - began < 2


def _paths(folder: Path) -> Paths:
    from tillerman.paths import find_paths

    return find_paths({"TILLERMAN_HOME": str(folder), "HOME": str(folder)})


def test_a_token_file_is_created_once_and_whole(tmp_path: Path) -> None:
    for number in range(30):
        file = tmp_path / str(number) / "token"
        with ThreadPoolExecutor(8) as pool:
            found = set(pool.map(token, [file] * 8))
        assert len(found) == 1
        assert [one.name for one in file.parent.iterdir()] == ["token"]


def test_a_stream_ends_when_its_token_is_revoked(desk: Desk) -> None:
    session = desk.start(HANGS)
    browser = Browser(desk, "read")
    made = desk.post("/tokens", {"scope": "read"})
    own = {"Authorization": f"Bearer {made['token']}"}
    ends = []

    def watch(path: str) -> None:
        with desk.stream(path, **own) as events, pytest.raises(AssertionError, match="ended"):
            while True:
                events.entry()
        ends.append(path)

    def talk() -> None:
        path = f"/sessions/{session}/events"
        with desk.socket(path, token=False, **own) as line, pytest.raises(ConnectionClosed):
            while True:
                line.recv(30)
        ends.append("socket")

    def look() -> None:
        with browser.frames(f"/s/{session}/stream?since=0&first=0") as frames:
            for _ in frames:
                pass
        ends.append("page")

    threads = [
        threading.Thread(target=watch, args=(f"/sessions/{session}/events",)),
        threading.Thread(target=watch, args=("/requests/events",)),
        threading.Thread(target=talk),
        threading.Thread(target=look),
    ]
    with desk.stream(f"/sessions/{session}/events") as kept:
        for thread in threads:
            thread.start()
        while desk.get("/health")["streams"] < 5:
            time.sleep(0.05)
        for one in desk.get("/tokens"):
            desk.call("DELETE", f"/tokens/{one['id']}")
        for thread in threads:
            thread.join(3 * streams.TOKEN_CHECKED)
        assert len(ends) == 4, ends
        desk.call("POST", f"/sessions/{session}/cancel", {})
        kept.until("turn_ended")


def test_damaged_tokens_refuse_those_in_them_and_nobody_else(desk: Desk) -> None:
    made = desk.post("/tokens", {"scope": "read"})
    file = desk.folder / "tokens.json"
    whole = file.read_bytes()
    for damaged in (b"", b"[", b"{}", whole[:-1], b"\xff", b'[{"id": 1}]', b'[{"id":"\xad"}]'):
        file.write_bytes(damaged)
        assert desk.call("GET", "/health").status == 200
        other = desk.call(
            "GET", "/health", headers=desk.headers(Authorization=f"Bearer {made['token']}")
        )
        assert (other.status, other.kind) == (503, "refused")
        listed = desk.bench.run("serve", "token", "--list")
        assert listed.returncode == 2
        assert "damaged" in listed.stderr
    file.write_bytes(whole)
    assert desk.get("/tokens")


def test_a_link_that_cannot_be_traded_is_not_used_up(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "server")
    links = Links(tokens)
    code = links.create("read")
    made = [tokens.create("read")[0].id for _ in range(MOST_TOKENS)]
    with pytest.raises(UsageError, match="tokens already"):
        links.redeem(code)
    tokens.revoke(made[0])
    assert links.redeem(code)
    assert links.redeem(code) is None


def test_too_many_browsers_are_told_so(desk: Desk) -> None:
    tokens = TokenStore(desk.folder)
    browser = Browser(desk)
    code = desk.post("/links", {})["url"].split("code=")[1]
    for _ in range(MOST_TOKENS - len(tokens.valid())):
        tokens.create("read")
    refused = browser.submit("/in", {"code": code})
    assert (refused.status, refused.kind) == (400, "usage_error")


def test_no_more_sessions_than_allowed_start_at_once() -> None:
    class Slow:
        """Of the harness, only what starting uses."""

        def in_folder(self, folder: Path) -> Slow:
            return self

        async def start(self, *given: object, **options: object) -> object:
            await asyncio.sleep(0.05)
            raise UsageError("none", hint="")

    async def run() -> list[str]:
        owned = owned_sessions.OwnedSessions(Slow())  # type: ignore[arg-type]
        starts = (
            owned.start("mock", Path("/"), {}, title=None, linger=0)
            for _ in range(owned_sessions.MOST_SESSIONS + 10)
        )
        found = await asyncio.gather(*starts, return_exceptions=True)
        return [type(one).__name__ for one in found]

    kinds = asyncio.run(run())
    assert kinds.count("SessionBusy") == 10


def test_the_config_of_a_folder_counts_as_it_is_when_a_session_starts(desk: Desk) -> None:
    home = desk.bench.home
    settings = home.parent / "tillerman"
    settings.mkdir(parents=True, exist_ok=True)
    for folder in (home, desk.bench.project):
        (settings / "config.toml").write_text('approve = "auto"\n')
        for preset, outcome in (("auto", "completed"), ("none", "denied"), ("auto", "completed")):
            (settings / "config.toml").write_text(f'approve = "{preset}"\n')
            steps = json.dumps([{"run": "echo hello > a.txt"}])
            body = {"agent": "mock", "cwd": str(folder), "prompt": steps}
            session = desk.post("/sessions", body)["id"]
            seen = [one["event"] for one in desk.ended(session)]
            (done,) = [one for one in seen if one["type"] == "tool_finished"]
            assert done["outcome"] == outcome, (folder, preset)
