"""The client of the cloud API against faults: errors, cut connections, slow bytes, lost answers."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.agents.cursor_cloud.conftest import FAST, Connect
from tests.stand_ins.cursor_cloud import (
    KEY,
    Asked,
    CursorCloud,
    Fault,
    StreamedEvent,
    cursor_cloud,
    recorded_events,
    recording,
)
from tillerman.agents.cursor_cloud.backoff import Backoff, retry_after
from tillerman.agents.cursor_cloud.client import CursorCloudClient
from tillerman.agents.cursor_cloud.connection import ApiSettings, check_settings
from tillerman.agents.cursor_cloud.failures import CloudRequestFailed, read_error
from tillerman.agents.cursor_cloud.sse_parser import EventStreamParser, ServerEvent
from tillerman.core.agent import Prompt
from tillerman.core.cloud import CloudLaunch
from tillerman.core.errors import ConfigError, NotSignedIn
from tillerman.core.events import encode

NO_CACHE = Path("/nonexistent")
RUNS = int(os.environ.get("TILLERMAN_CLOUD_RUNS", "25"))


def launch(text: str = "x") -> CloudLaunch:
    return CloudLaunch(Prompt(text), repository="https://github.com/your-org/your-repo")


def once(fault: Fault, when: str = "") -> Any:
    """The fault for the first request whose method and path have these words."""
    left = [fault]

    def of(asked: Asked) -> Fault | None:
        return left.pop() if left and when in f"{asked.method} {asked.path}" else None

    return of


def status(number: int, name: str = "", **headers: str) -> Fault:
    body = json.dumps(recording(name)["response"]["body"]).encode() if name else b"{}"
    pairs = tuple((key.replace("_", "-"), value) for key, value in headers.items())
    return Fault(status=number, headers=pairs, body=body)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "exit_code"),
    [
        ("v1_error_400", "agent_failed", 1),
        ("v1_error_401", "not_signed_in", 3),
        ("v1_error_403", "not_signed_in", 3),
        ("v1_error_404", "agent_failed", 1),
        ("v1_error_409_busy", "agent_failed", 1),
        ("v1_error_409_not_cancellable", "agent_failed", 1),
        ("v1_error_410_stream_expired", "history_lost", 1),
    ],
)
async def test_an_error_names_its_reason_and_the_next_step_and_is_not_sent_again(
    client: CursorCloudClient, cloud: CursorCloud, name: str, kind: str, exit_code: int
) -> None:
    answer = recording(name)["response"]
    cloud.fault = lambda _: status(answer["status"], name)
    with pytest.raises(CloudRequestFailed) as raised:
        await client.connection.get("/v1/me")
    error = raised.value
    said = answer["body"]
    assert (
        said["error"]["message"] if isinstance(said["error"], dict) else said["message"]
    ) in str(error)
    assert (error.failure.kind, error.exit_code) == (kind, exit_code)
    assert error.hint or kind == "history_lost"
    assert len(cloud.asked) == 1


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b'{"error":{"code":"agent_busy","message":"Busy"}}', "agent_busy", "Busy"),
        (b'{"code":"agent_busy","message":"Busy"}', "agent_busy", "Busy"),
        (b'{"error":"agent_busy","message":"Busy"}', "agent_busy", "Busy"),
        (b'{"error":"Unauthorized","message":"Invalid"}', "", "Invalid"),
        (b'{"error":"Too Many Requests"}', "", "Too Many Requests"),
        (b"<html>Bad\n gateway</html>", "", "<html>Bad gateway</html>"),
        (b"", "", ""),
        (b"[1]", "", "[1]"),
        (b'{"error":7,"message":null}', "", ""),
    ],
)
def test_all_forms_of_an_error_are_read(body: bytes, code: str, message: str) -> None:
    answer = read_error(body)
    assert (answer.code, answer.message) == (code, message)


@pytest.mark.parametrize("number", [429, 500, 502, 503, 504])
async def test_a_busy_or_failing_server_is_asked_again(
    client: CursorCloudClient, cloud: CursorCloud, number: int
) -> None:
    cloud.fault = once(status(number))
    assert (await client.identity()).key_name == "Production API Key"
    assert len(cloud.asked) == 2


async def test_a_server_that_keeps_failing_is_given_up(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    cloud.fault = lambda _: status(500, "v1_error_500")
    with pytest.raises(CloudRequestFailed, match="An unexpected error occurred") as raised:
        await client.identity()
    assert raised.value.hint
    assert len(cloud.asked) == FAST.tries


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_obeyed_in_both_forms(
    client: CursorCloudClient, cloud: CursorCloud, form: str
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    cloud.fault = once(status(429, "v1_error_429", Retry_After="1" if form == "seconds" else date))
    start = time.monotonic()
    await client.identity()
    assert time.monotonic() - start > 0.9


async def test_a_server_that_asks_for_a_long_wait_is_reported(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    cloud.fault = lambda _: status(429, "v1_error_429", Retry_After="3600")
    with pytest.raises(CloudRequestFailed) as raised:
        await client.identity()
    assert raised.value.failure.retry_after == 3600
    assert "3600 s" in raised.value.hint
    assert len(cloud.asked) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0), ("120", 120.0), (" 7 ", 7.0), ("Thu, 01 Jan 1970 00:01:00 GMT", 60.0),
        ("Wed, 31 Dec 1969 23:00:00 GMT", 0.0), ("soon", None), ("", None), (None, None),
        ("-5", None), ("1.5", None), ("9" * 400, 999999999.0), ("٣", None),
    ],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, now=0) == seconds


def test_the_jitter_is_full_and_bounded() -> None:
    backoff = Backoff(base=1, cap=8)
    for attempt, most in ((1, 1), (2, 2), (3, 4), (4, 8), (9, 8), (10**6, 8)):
        delays = [backoff.delay(attempt) for _ in range(300)]
        assert 0 <= min(delays) < 0.2 * most and 0.8 * most < max(delays) <= most
    assert backoff.delay(1, retry_after=5) == 5


async def test_cut_and_slow_answers_are_read_in_the_end(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    whole = (await client.models())[0]
    for fault in (
        Fault(refuse=True),
        Fault(lose=True),
        Fault(cut=5),
        Fault(cut=200),
        Fault(slow=0.0001),
    ):
        cloud.fault = once(fault)
        assert (await client.models())[0] == whole


async def test_a_silent_server_is_given_up(connect: Connect, cloud: CursorCloud) -> None:
    client = connect(backoff=FAST._replace(tries=1), silence=0.2)
    cloud.fault = lambda _: Fault(slow=1.0)
    with pytest.raises(CloudRequestFailed, match=r"no answer from 127\.0\.0\.1"):
        await client.identity()


async def test_an_answer_that_is_no_json_object_is_an_error_of_ours(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    for body in (b"[]", b"<html>", b"\xff", b"[" * 100_000):
        cloud.fault = once(Fault(status=200, body=body))
        with pytest.raises(CloudRequestFailed, match="cannot be read"):
            await client.identity()


async def test_a_redirect_is_not_followed_so_that_no_other_host_gets_the_key(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    async with cursor_cloud() as other:
        cloud.fault = lambda _: status(302, Location=f"{other.url}/v1/me")
        with pytest.raises(CloudRequestFailed, match="302"):
            await client.identity()
        assert not other.asked


@pytest.mark.parametrize("url", ["http://api.example.com", "https://a:b@x.example", "ftp://x", "x"])
def test_a_url_to_which_no_key_may_be_sent_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_settings(KEY, url)
    assert raised.value.hint and KEY not in str(raised.value)


@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_missing_key_says_where_to_get_one(key: str | None) -> None:
    with pytest.raises(NotSignedIn) as raised:
        check_settings(key, None)
    assert "CURSOR_API_KEY" in raised.value.hint


# -- launches --------------------------------------------------------------------------------------


def test_the_generated_faults_differ() -> None:
    kinds = {random_fault(Random(seed)) for seed in range(200)}
    assert len(kinds) > 30


def random_fault(random: Random) -> Fault | None:
    """About every second request fails."""
    return random.choice([
        None, None, None,
        Fault(refuse=True),
        Fault(lose=True),
        Fault(cut=random.randrange(1, 600)),
        Fault(status=random.choice([429, 500, 502, 503, 504]), body=b"{}"),
    ])  # fmt: skip


async def check_launches(runs: int, *, v0: bool) -> int:
    """Launches with random faults; returns how many failed. Each is launched once or failed."""
    failed = 0
    for seed in range(runs):
        random = Random(seed)
        async with cursor_cloud() as cloud:
            cloud.fault = lambda _, random=random: random_fault(random)  # type: ignore[misc]
            cloud.v0_ends_after = 10**9
            client = CursorCloudClient(
                ApiSettings(KEY, cloud.url, FAST, 5.0), NO_CACHE, first_poll=0.01
            )
            wanted = launch(f"task {seed}")
            if v0:
                wanted = CloudLaunch(wanted.prompt, repository=wanted.repository, branch="b")
            try:
                agent = await client.launch(wanted)
            except CloudRequestFailed as error:
                failed += 1
                assert error.hint
                assert len(cloud.agents) + len(cloud.v0) <= 1, seed
            else:
                assert [*cloud.agents, *cloud.v0] == [agent.id], seed
            finally:
                await client.connection.close()
    return failed


@pytest.mark.parametrize("v0", [False, True], ids=["v1", "v0"])
async def test_nothing_is_launched_twice_whatever_is_cut(v0: bool) -> None:
    assert await check_launches(RUNS, v0=v0) < RUNS / 2


@pytest.mark.torture
@pytest.mark.parametrize("v0", [False, True], ids=["v1", "v0"])
async def test_nothing_is_launched_twice_in_two_hundred_runs(v0: bool) -> None:
    assert await check_launches(200, v0=v0) < 100


@pytest.mark.parametrize("fault", [Fault(lose=True), Fault(cut=30), Fault(status=500, body=b"{}")])
async def test_a_launch_whose_answer_is_lost_is_found(
    client: CursorCloudClient, cloud: CursorCloud, fault: Fault
) -> None:
    """Also after a 500 that came although nothing was launched: it is launched then."""
    cloud.fault = once(fault, "POST /v1/agents")
    agent = await client.launch(launch())
    assert list(cloud.agents) == [agent.id]
    posted = [asked for asked in cloud.asked if asked.method == "POST"]
    assert len(posted) == (2 if fault.status else 1)
    assert len({asked.body["agentId"] for asked in posted}) == 1


async def test_a_launch_of_version_0_whose_answer_is_lost_is_found_and_never_sent_again(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    await client.launch(CloudLaunch(Prompt("x"), repository="https://a.example/b/c", branch="b"))
    cloud.fault = once(Fault(lose=True), "POST /v0/agents")
    wanted = CloudLaunch(Prompt("y"), repository="https://a.example/b/c", branch="b")
    agent = await client.launch(wanted)
    assert cloud.v0[agent.id].messages[0]["text"] == "y"
    cloud.fault = once(Fault(refuse=True), "POST /v0/agents")
    before = len(cloud.v0)
    with pytest.raises(CloudRequestFailed, match="not known whether it was launched"):
        await client.launch(wanted)
    assert len(cloud.v0) == before


@pytest.mark.parametrize("v0", [False, True], ids=["v1", "v0"])
async def test_a_follow_up_whose_answer_is_lost_is_not_sent_again(
    client: CursorCloudClient, cloud: CursorCloud, v0: bool
) -> None:
    branch = "b" if v0 else None
    cloud.v0_ends_after = 10**9
    wanted = CloudLaunch(Prompt("x"), repository="https://a.example/b/c", branch=branch)
    id = (await client.launch(wanted)).id
    if not v0:
        cloud.agents[id].runs[0].status = "FINISHED"
    path = f"POST {'/v0' if v0 else '/v1'}/agents/{id}/"
    cloud.fault = once(Fault(lose=True), path)
    await client.follow_up(id, Prompt("more"))
    cloud.fault = once(Fault(refuse=True), path)
    if not v0:
        cloud.agents[id].runs[-1].status = "FINISHED"
    with pytest.raises(CloudRequestFailed, match="not known whether it was sent"):
        await client.follow_up(id, Prompt("lost"))
    count = len(cloud.v0[id].messages) if v0 else len(cloud.agents[id].runs)
    assert count == 2


# -- streams ---------------------------------------------------------------------------------------


def long_script(length: int = 60) -> list[StreamedEvent]:
    """Each event can be told from all others; some texts are equal, since that is real."""
    first, *_, result, done = recorded_events()
    middle = [
        StreamedEvent(f"{number}-0", "assistant", json.dumps({"text": f"{number % 7} "}))
        for number in range(length)
    ]
    return [first, *middle, result, done]


async def check_streams(runs: int) -> int:
    """Follows runs over connections that are cut at random bytes; returns how many were opened."""
    connections = 0
    wanted = [(event.id, event.kind, event.data) for event in long_script()[:-1]]
    size = sum(len(event.encoded()) for event in long_script())
    for seed in range(runs):
        random = Random(seed)
        async with cursor_cloud() as cloud:
            cloud.script = long_script

            def fault(asked: Asked, random: Random = random) -> Fault | None:
                if not asked.path.endswith("/stream"):
                    return random.choice([None, None, Fault(cut=random.randrange(1, 300))])
                if random.random() < 0.15:
                    return random_fault(random)
                return Fault(cut=random.randrange(1, size)) if random.random() < 0.8 else None

            client = CursorCloudClient(ApiSettings(KEY, cloud.url, FAST, 5.0), NO_CACHE)
            agent = await client.launch(launch())
            cloud.fault = fault
            assert agent.run
            got = [
                (event.id, event.kind, event.data)
                async for event in client.stream(agent.id, agent.run).events()
            ]
            assert got == wanted, seed
            connections += sum(asked.path.endswith("/stream") for asked in cloud.asked)
            await client.connection.close()
    return connections


async def test_no_event_is_lost_or_doubled_whatever_is_cut() -> None:
    assert await check_streams(RUNS) > 1.5 * RUNS


@pytest.mark.torture
async def test_no_event_is_lost_or_doubled_in_two_hundred_runs() -> None:
    assert await check_streams(200) > 300


async def test_a_stream_that_is_cut_in_an_event_is_resumed_after_the_last_whole_one(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    agent = await client.launch(launch())
    events = recorded_events()
    place = next(n for n, event in enumerate(events) if event.id == "1713033006000-0")
    head = 85  # and the sizes of the chunks
    cut = head + sum(len(event.encoded()) + 6 for event in events[:place]) + 30
    cloud.fault = once(Fault(cut=cut), "/stream")
    got = [event async for event in client.stream(agent.id, agent.run or "").events()]
    assert [(event.id, event.kind) for event in got] == [(e.id, e.kind) for e in events[:-1]]
    resumed = cloud.asked[-1]
    assert (
        resumed.headers["last-event-id"]
        == recording("v1_stream_run_resumed")["request"]["headers"]["Last-Event-ID"]
    )


async def test_a_stream_that_is_no_longer_kept_is_replaced_by_the_result(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    agent = await client.launch(launch())
    run = cloud.agents[agent.id].runs[0]
    run.expired, run.status = True, "FINISHED"
    [event] = [event async for event in client.stream(agent.id, run.id).events()]
    assert json.loads(event.data)["result"] == "Added README.md with installation instructions."


@pytest.mark.parametrize("repeats", [False, True], ids=["forgets the id", "repeats the last"])
async def test_what_a_server_sends_again_is_passed_on_once(
    client: CursorCloudClient, cloud: CursorCloud, repeats: bool
) -> None:
    cloud.script = long_script
    cloud.repeats = 3 if repeats else 0
    agent = await client.launch(launch())
    faults = [Fault(cut=1500), Fault(cut=900)]
    if not repeats:
        faults.insert(1, status(400, "v1_error_400_last_event_id"))
    cloud.fault = lambda asked: faults.pop(0) if faults and asked.path.endswith("/stream") else None
    got = [event.data async for event in client.stream(agent.id, agent.run or "").events()]
    assert got == [event.data for event in long_script()[:-1]]
    resumed = [a.headers.get("last-event-id") for a in cloud.asked if a.path.endswith("/stream")]
    assert (None in resumed[1:]) is not repeats


async def test_an_error_event_resumes_the_stream_and_a_run_that_has_ended_ends_it(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    cloud.script = lambda: recorded_events("v1_stream_run_error")
    agent = await client.launch(launch())
    cloud.agents[agent.id].runs[0].status = "ERROR"
    events = [event async for event in client.stream(agent.id, agent.run or "").events()]
    assert events[-1].kind == "result"
    assert json.loads(events[-1].data)["status"] == "ERROR"


async def test_an_event_may_be_split_anywhere_and_use_any_line_end() -> None:
    text = "id: 1\nevent: a\ndata: x\ndata: é\n\n: note\nid: 2\ndata:y\n\nevent: half\ndata: z"
    wanted = [ServerEvent("a", "x\né", "1"), ServerEvent("message", "y", "2")]
    for end in ("\n", "\r\n", "\r"):
        data = b"\xef\xbb\xbf" + text.replace("\n", end).encode()
        for size in (1, 2, 3, 7, len(data)):
            parser = EventStreamParser()
            parts = [data[start : start + size] for start in range(0, len(data), size)]
            assert [e for part in parts for e in parser.feed(part)] == wanted, (end, size)


# -- the key ---------------------------------------------------------------------------------------


async def test_the_key_is_in_no_error_and_no_event_even_if_the_server_repeats_it(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    leak = json.dumps({"error": {"code": "x", "message": f"bad key {KEY}"}}).encode()
    cloud.fault = lambda _: Fault(status=400, body=leak)
    with pytest.raises(CloudRequestFailed) as raised:
        await client.launch(launch())
    chain: BaseException | None = raised.value
    while chain is not None:
        assert KEY not in f"{chain!r} {chain} {chain.__dict__}"
        chain = None if chain.__suppress_context__ else chain.__cause__ or chain.__context__
    cloud.fault = lambda _: None
    said = StreamedEvent("1-0", "assistant", json.dumps({"text": f"the key is {KEY}"}))
    cloud.script = lambda: [recorded_events()[0], said, *recorded_events()[-2:]]
    id = (await client.launch(launch())).id
    events = [event async for news in client.watch(id) for event in news.events]
    text = b"".join(encode(event) for event in events)
    assert KEY.encode() not in text and b"[secret:" in text


async def test_concurrent_requests_share_one_client(client: CursorCloudClient) -> None:
    found = await asyncio.gather(*(client.identity() for _ in range(20)))
    assert len({one.key_name for one in found}) == 1
