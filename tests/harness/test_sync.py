"""The synchronous API: in scripts, from threads, under an interrupt, and inside a running loop."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from types import FrameType

import pytest

import tillerman
from tests.harness.api_desk import check_log, entries, script
from tillerman import sync
from tillerman.core.events import MessageChunk
from tillerman.paths import find_paths

HELLO = script({"say": "Hello."})


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[sync.SyncHarness]:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    with sync.open(cwd=tmp_path, paths=paths) as harness:
        yield harness


def loop_threads() -> int:
    return sum(thread.name == "tillerman" for thread in threading.enumerate())


def test_a_session_answers_streams_and_is_resumed(harness: sync.SyncHarness) -> None:
    with harness.start("mock", approve="auto") as session:
        assert session.ask(HELLO).text == "Hello."
        events = [entry.event for entry in session.run(HELLO)]
        assert "".join(one.text for one in events if isinstance(one, MessageChunk)) == "Hello."
    with harness.resume(session) as again:
        assert again.ask(HELLO).turn == 3
    assert harness.find("last").id == session.id
    check_log(entries(again.aio))


def test_leaving_the_loop_early_cancels_the_turn(harness: sync.SyncHarness) -> None:
    session = harness.start("mock", approve="auto")
    for entry in session.run(script({"say": "one two three"}, {"hang": True})):
        if isinstance(entry.event, MessageChunk):
            break
    session.idle()
    assert session.result().status == "cancelled"
    assert session.ask(HELLO).status == "completed"


@pytest.mark.parametrize("stop", [None, 1, 3])
def test_a_query_yields_the_turn_and_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int | None
) -> None:
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    before = loop_threads()
    prompt = HELLO if stop is None else script({"say": "one two three"}, {"hang": True})
    seen = list(islice(sync.query(prompt, agent="mock", approve="none", cwd=tmp_path), stop))
    assert (len(seen) > 3) if stop is None else (len(seen) == stop)
    assert loop_threads() == before
    with sync.open(cwd=tmp_path) as harness, harness.resume("last") as session:
        assert session.result(1).status == ("completed" if stop is None else "cancelled")


def test_callbacks_may_be_functions_or_coroutine_functions(harness: sync.SyncHarness) -> None:
    async def allow(request: object) -> tillerman.Answer:
        return tillerman.Answer("allow")

    for callback in (allow, lambda request: tillerman.Answer("allow")):
        with harness.start("mock", approve="ask", on_permission=callback) as session:
            done = session.ask(script({"write": "a.txt", "text": "1"}))
        assert [call.outcome for call in done.calls] == ["completed"]


def test_a_callback_that_calls_the_synchronous_api_fails_and_does_not_hang(
    harness: sync.SyncHarness,
) -> None:
    def ask_again(request: object) -> tillerman.Answer:
        return tillerman.Answer(session.ask(HELLO).text)

    session = harness.start("mock", approve="ask", on_permission=ask_again)
    done = session.ask(script({"write": "a.txt", "text": "1"}))
    assert [call.outcome for call in done.calls] == ["denied"]


def test_two_threads_use_one_harness_and_one_session(harness: sync.SyncHarness) -> None:
    session = harness.start("mock", approve="auto")

    def ask(number: int) -> str:
        return session.ask(script({"say": f"Number {number}."})).text

    def start(number: int) -> str:
        with harness.start("mock", approve="auto") as own:
            return own.ask(script({"say": f"Own {number}."})).text

    with ThreadPoolExecutor(4) as pool:
        shared = list(pool.map(ask, range(4)))
        own = list(pool.map(start, range(4)))
    assert shared == [f"Number {number}." for number in range(4)]
    assert own == [f"Own {number}." for number in range(4)]
    check_log(entries(session.aio))


async def test_it_works_inside_a_running_loop(tmp_path: Path) -> None:
    """As in a notebook."""
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    with sync.open(cwd=tmp_path, paths=paths) as harness:
        assert harness.start("mock", approve="auto").ask(HELLO).text == "Hello."


def test_use_after_close_is_an_error_and_closing_twice_is_not(tmp_path: Path) -> None:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    before = loop_threads()
    harness = sync.open(cwd=tmp_path, paths=paths)
    session = harness.start("mock", approve="auto")
    session.ask(HELLO)
    session.close()
    session.close()
    with pytest.raises(tillerman.SessionClosed):
        session.ask(HELLO)
    with pytest.raises(tillerman.SessionClosed):
        list(session.run(HELLO))
    harness.close()
    harness.close()
    session.close()
    for use in (
        lambda: harness.start("mock"),
        lambda: harness.resume("last"),
        lambda: harness.find("last"),
        harness.list,
        lambda: session.ask(HELLO),
        lambda: list(session.run(HELLO)),
    ):
        with pytest.raises(tillerman.TillermanError, match="closed"):
            use()
    assert loop_threads() == before


def test_an_error_of_the_start_leaves_no_thread(tmp_path: Path) -> None:
    before = loop_threads()
    with pytest.raises(tillerman.UsageError):
        sync.ask(HELLO, agent="mock", mode="Plan")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sync.open(bogus=1)  # type: ignore[call-arg]
    assert loop_threads() == before


def test_an_answer_is_given_while_another_thread_waits(harness: sync.SyncHarness) -> None:
    session = harness.start("mock", approve="ask")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(session.ask, script({"write": "a.txt", "text": "1"}))
        while not session.aio._runner.open_requests:
            time.sleep(0.01)
        [request] = session.aio._runner.open_requests
        session.answer(request, tillerman.Answer("allow"))
        assert [call.outcome for call in asked.result(20).calls] == ["completed"]


INTERRUPTED = """
import sys
from tillerman import sync
from tillerman.core.events import TurnStarted

with sync.open() as harness:
    session = harness.start("mock", approve="auto")
    hang = '[{"say": "x"}, {"hang": true}]'
    try:
        if sys.argv[1] == "ask":
            print("ready", flush=True)
            session.ask(hang)
        else:
            for entry in session.run(hang):
                if isinstance(entry.event, TurnStarted):
                    print("ready", flush=True)
    except KeyboardInterrupt:
        session.idle()
        print("interrupted", session.result().status if session.transcript().turns else "none")
        print(session.ask('[{"say": "Still here."}]').text)
"""


@pytest.mark.parametrize("way", ["ask", "run"])
@pytest.mark.parametrize("delay", [0.0, 0.4, 1.0])
def test_an_interrupt_cancels_the_turn_and_the_session_continues(
    tmp_path: Path, way: str, delay: float
) -> None:
    program = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", INTERRUPTED, way],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout
    assert program.stdout.readline() == "ready\n"
    time.sleep(delay)
    program.send_signal(signal.SIGINT)
    output, errors = program.communicate(timeout=40)
    assert (program.returncode, errors) == (0, "")
    reported = output.splitlines()
    assert reported[0] in ("interrupted cancelled", "interrupted none")
    assert reported[1] == "Still here."


INTERRUPTED_AT_ANY_INSTANT = """
import random
import signal
import sys
from tillerman import sync
from tillerman.core.events import TurnStarted

chance = random.Random(sys.argv[1])
signal.signal(signal.SIGALRM, signal.default_int_handler)

def interrupt_soon():
    longest = chance.choice((5e-5, 2e-4, 1e-3, 2e-2))
    signal.setitimer(signal.ITIMER_REAL, 1e-6 + longest * chance.random())

with sync.open() as harness:
    session = harness.start("mock", approve="auto")
    hang = '[{"say": "x"}, {"hang": true}]'
    for _ in range(60):
        way = chance.choice(("ask", "run"))
        try:
            if way == "ask":
                interrupt_soon()
                session.ask(hang)
            for entry in session.run(hang):
                if isinstance(entry.event, TurnStarted):
                    interrupt_soon()
        except KeyboardInterrupt:
            pass
        session.idle()
        status = session.result().status if session.transcript().turns else "none"
        if status != "cancelled" and (way, status) != ("ask", "none"):
            print(way, status)
    print(session.ask('[{"say": "Still here."}]').text)
"""


@pytest.mark.parametrize("seed", range(3))
def test_an_interrupt_at_any_instant_cancels_the_turn(tmp_path: Path, seed: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED_AT_ANY_INSTANT, str(seed)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "Still here.\n")


class _Interrupt:
    """Raises KeyboardInterrupt before the instruction of this number in the synchronous API."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> _Interrupt | None:
        if frame.f_code.co_filename != sync.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.seen += 1
            if self.seen == self.number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupted_at(number: int, use: Callable[[], object]) -> bool | None:
    """Whether the use was interrupted at this instruction; None if it has no more than that."""
    interrupt = _Interrupt(number)
    interrupted = False
    sys.settrace(interrupt)
    try:
        use()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        sys.settrace(None)
    return interrupted if interrupt.seen >= number else None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", ["ask", "run"])
def test_an_interrupt_at_any_instruction_cancels_the_turn(
    harness: sync.SyncHarness, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = harness.start("mock", approve="auto", options={"pace": "0"})
    uses: dict[str, Callable[[], object]] = {
        "ask": lambda: session.ask(HELLO),
        "run": lambda: list(session.run(HELLO)),
    }
    for number in chain(range(1, 130), range(130, 10_000, 7)):
        if (interrupted := interrupted_at(number, uses[way])) is None:
            break
        assert interrupted
        session.idle()
    assert number > 50
    assert session.ask(HELLO).text == "Hello."
    gc.collect()
    check_log(entries(session.aio))
    assert [record.getMessage() for record in caplog.records] == []


def test_the_program_that_forgets_to_close_ends(tmp_path: Path) -> None:
    code = (
        "from tillerman import sync\n"
        "session = sync.open().start('mock', approve='auto')\n"
        f"print(session.ask({HELLO!r}).text)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert (ran.returncode, ran.stdout) == (0, "Hello.\n")
