"""The hook server's socket, with real shims of both kinds as processes."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.hooks.hook_desk import Open, Ran, Running, run, until
from tillerman.core.errors import ConfigError, UsageError
from tillerman.hooks.protocol import PAYLOAD_CAP, REPLY_CAP
from tillerman.hooks.server import HookAsked, HookLimits, HookReply, HookServer, timeout_for
from tillerman.hooks.shim_builder import Shim, ready_shim


def echo(asked: HookAsked) -> None:
    reported = f"{asked.agent} {asked.event} {asked.observing} ".encode()
    asked.reply(HookReply(reported + asked.payload, b"and a word"))


@pytest.mark.parametrize(
    ("max_wait", "seconds"), [(None, 108_000), (60.0, 93), (1e9, 108_000), (0.0, 18)]
)
def test_the_timeouts_of_cli_hook_and_harness_are_ordered(
    max_wait: float | None, seconds: int
) -> None:
    assert timeout_for(max_wait) == seconds


async def test_the_cli_gets_the_reply_to_its_own_payload(opened: Open) -> None:
    server = await opened(echo)
    command = server.command("codex-exec", "preToolUse", timeout=20)
    assert await run(command, b'{"tool":"Shell"}\n\0\xff') == Ran(
        0, b'codex-exec preToolUse False {"tool":"Shell"}\n\0\xff', b"and a word"
    )


async def test_a_deny_is_exit_2_with_its_reason(opened: Open) -> None:
    server = await opened(lambda asked: asked.reply(HookReply(b"{}", b"not that\n", 2)))
    assert await run(server.command("claude", "PreToolUse", timeout=20)) == Ran(
        2, b"{}", b"not that\n"
    )


async def test_an_empty_reply_is_a_reply(opened: Open) -> None:
    server = await opened(lambda asked: asked.reply(HookReply()))
    assert await run(server.command("codex", "PreToolUse", timeout=20)) == Ran(0, b"", b"")


async def test_an_observing_hook_is_answered_too(opened: Open) -> None:
    server = await opened(echo)
    command = server.command("cursor", "sessionStart", timeout=20, observing=True)
    assert command.endswith(" -sessionStart 16.0 || exit 0")
    assert await run(command, b"x") == Ran(0, b"cursor sessionStart True x", b"and a word")


async def test_an_observing_hook_without_a_server_does_not_block(opened: Open) -> None:
    server = await opened(echo)
    command = server.command("cursor", "afterFileEdit", timeout=20, observing=True)
    await server.close()
    assert await run(command, b"x") == Ran(0, b"", b"")


@pytest.mark.parametrize("size", [0, 1, 65_536, 262_144 - 512, 3_000_000, PAYLOAD_CAP])
async def test_payloads_of_any_size_up_to_the_cap_are_sent_and_received(
    opened: Open, size: int
) -> None:
    payload = os.urandom(1000) * (size // 1000) + bytes(size % 1000)
    server = await opened(lambda asked: asked.reply(HookReply(asked.payload, asked.payload[:9])))
    command = server.command("cursor", "preToolUse", timeout=60)
    assert await run(command, payload) == Ran(0, payload, payload[:9])


async def test_a_payload_beyond_the_cap_blocks_before_any_request_is_made(opened: Open) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append)
    ran = await run(server.command("cursor", "preToolUse", timeout=60), bytes(PAYLOAD_CAP + 1))
    assert ran == Ran(2, b"", b"tillerman: the hook's input is too long\n")
    assert asked == []


@pytest.mark.parametrize(
    "reply", [HookReply(bytes(REPLY_CAP + 1)), HookReply(exit=256), HookReply(b"yes", exit=-1)]
)
async def test_a_reply_that_cannot_be_expressed_blocks(opened: Open, reply: HookReply) -> None:
    server = await opened(lambda asked: asked.reply(reply))
    ran = await run(server.command("cursor", "preToolUse", timeout=60))
    assert (ran.exit, ran.stdout) == (2, b"")


async def test_two_requests_are_answered_out_of_order(opened: Open) -> None:
    asked: dict[bytes, HookAsked] = {}
    server = await opened(lambda each: asked.update({each.payload: each}))
    command = server.command("cursor", "preToolUse", timeout=20)
    runs = [asyncio.create_task(run(command, name)) for name in (b"first", b"second")]
    await until(lambda: len(asked) == 2)
    assert asked[b"second"].reply(HookReply(b"2"))
    assert await runs[1] == Ran(0, b"2", b"")
    assert not runs[0].done()
    assert asked[b"first"].reply(HookReply(b"1"))
    assert await runs[0] == Ran(0, b"1", b"")


async def test_the_first_answer_counts_and_the_second_is_refused(opened: Open) -> None:
    messages: list[bool] = []

    def twice(asked: HookAsked) -> None:
        messages.extend(asked.reply(HookReply(stderr=word, exit=2)) for word in (b"no", b"yes"))

    server = await opened(twice)
    assert await run(server.command("cursor", "preToolUse", timeout=20)) == Ran(2, b"", b"no")
    assert messages == [True, False]


async def test_a_request_is_withdrawn_when_its_shim_disconnects(opened: Open) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append)
    running = await Running.start(server.command("cursor", "preToolUse", timeout=60))
    running.feed(b"x")
    await until(lambda: bool(asked))
    os.kill(await running.shim(), signal.SIGKILL)
    async with asyncio.timeout(10):
        assert await asked[0].gone
    assert not asked[0].reply(HookReply(b"too late"))
    ran = await running.end(None)
    assert (ran.exit, ran.stdout) == (2, b"")


@pytest.mark.parametrize("unix", [True, False])
async def test_an_answer_to_a_shim_that_just_exited_is_ignored(
    opened: Open, cache: Path, unix: bool
) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append, unix=unix, shim=ready_shim(cache, compiled=False))
    running = await Running.start(server.command("cursor", "preToolUse", timeout=60))
    running.feed(b"x")
    await until(lambda: bool(asked))
    pid = await running.shim()
    os.kill(pid, signal.SIGKILL)
    for _ in range(1000):  # without a turn for the loop, which would notice
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.01)  # noqa: ASYNC251
    asked[0].reply(HookReply(bytes(3_000_000)))
    async with asyncio.timeout(10):
        await asked[0].gone
    ran = await running.end(None)
    assert (ran.exit, ran.stdout) == (2, b"")


async def test_a_shim_that_was_answered_and_left_is_disconnected_but_not_withdrawn(
    opened: Open,
) -> None:
    asked: list[HookAsked] = []
    server = await opened(lambda each: (asked.append(each), each.reply(HookReply()))[0])
    await run(server.command("cursor", "preToolUse", timeout=20))
    async with asyncio.timeout(10):
        assert await asked[0].gone is False


async def test_an_unanswered_request_ends_with_its_shims_deadline(opened: Open) -> None:
    asked: list[HookAsked] = []
    overdue: list[int | None] = []
    server = await opened(asked.append, overdue=overdue.append)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    ran = await run(server.command("cursor", "preToolUse", timeout=1.25), b"x")
    assert loop.time() - begin >= 1.0
    assert (ran.exit, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(b"tillerman: no answer within ")
    async with asyncio.timeout(10):
        assert await asked[0].gone
    assert overdue == []


async def test_more_requests_than_may_be_open_are_refused_at_once(opened: Open) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append, limits=HookLimits(asks=2))
    command = server.command("cursor", "preToolUse", timeout=60)
    waiting = [asyncio.create_task(run(command, b"w")) for _ in range(2)]
    await until(lambda: len(asked) == 2)
    assert await run(command, b"x") == Ran(2, b"", b"tillerman: too many open requests\n")
    for each in asked:
        assert each.reply(HookReply(b"ok"))
    assert await asyncio.gather(*waiting) == [Ran(0, b"ok", b"")] * 2
    again = asyncio.create_task(run(command, b"y"))  # there is room once more
    await until(lambda: len(asked) == 3)
    asked[2].reply(HookReply(b"ok"))
    assert await again == Ran(0, b"ok", b"")


async def test_more_bytes_than_may_be_held_are_refused_without_being_read(opened: Open) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append, limits=HookLimits(held=1_000_000))
    command = server.command("cursor", "preToolUse", timeout=60)
    ran = await run(command, bytes(5_000_000))
    assert ran == Ran(2, b"", b"tillerman: too many requests at once\n")
    assert asked == []
    running = asyncio.create_task(run(command, bytes(900_000)))
    await until(lambda: bool(asked))
    asked[0].reply(HookReply(b"ok"))
    assert await running == Ran(0, b"ok", b"")


async def test_more_connections_than_the_limit_are_blocked(opened: Open) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append, limits=HookLimits(connections=1))
    command = server.command("cursor", "preToolUse", timeout=60)
    first = asyncio.create_task(run(command, b"w"))
    await until(lambda: bool(asked))
    ran = await run(command, b"x")
    assert (ran.exit, ran.stdout) == (2, b"")
    asked[0].reply(HookReply(b"ok"))
    assert await first == Ran(0, b"ok", b"")


async def test_a_listener_that_raises_blocks(opened: Open) -> None:
    def broken(asked: HookAsked) -> None:
        raise RuntimeError("broken")

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    server = await opened(broken)
    ran = await run(server.command("cursor", "preToolUse", timeout=20), b"x")
    assert (ran.exit, ran.stdout) == (2, b"")


async def test_a_folder_may_have_a_name_too_long_for_a_socket(opened: Open, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30) / "hooks"
    server = await opened(echo, folder=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["key", "socket"]
    assert (await run(server.command("cursor", "stop", timeout=20), b"x")).exit == 0
    await server.close()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["with space", "with'quote", 'with"$(touch x)`', "-dash", "ünï;"])
async def test_any_name_of_a_folder_is_quoted(opened: Open, tmp_path: Path, name: str) -> None:
    server = await opened(echo, folder=tmp_path / name)
    assert (await run(server.command("cursor", "stop", timeout=20), b"x")).exit == 0


@pytest.mark.parametrize("name", ["", "two words", "-stop", "a;b", "x" * 65, "line\n"])
async def test_no_agent_or_event_is_quoted_that_could_not_be_read_back(
    opened: Open, name: str
) -> None:
    server = await opened(echo)
    with pytest.raises(UsageError):
        server.command("cursor", name, timeout=20)
    with pytest.raises(UsageError):
        server.command(name, "stop", timeout=20)


async def test_any_timeout_of_a_cli_makes_a_deadline_that_the_shim_accepts(opened: Open) -> None:
    server = await opened(echo)
    assert (await run(server.command("cursor", "stop", timeout=1e9), b"x")).exit == 0
    assert server.command("cursor", "stop", timeout=1e9).endswith(" 86400.0 || exit 2")
    assert server.command("cursor", "stop", timeout=0).endswith(" 0.1 || exit 2")


async def test_only_the_user_can_connect(opened: Open) -> None:
    server = await opened(echo)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in server.folder.iterdir()}
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    assert modes == {"socket": 0o600, "key": 0o600}


async def test_a_link_in_place_of_the_folder_is_refused(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "hooks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        await opened(echo)


async def test_what_a_killed_owner_left_is_replaced(opened: Open, tmp_path: Path) -> None:
    folder = tmp_path / "hooks"
    folder.mkdir(0o700)
    (folder / "socket").write_text("stale")
    (folder / "key").write_text("stale")
    (folder / ".key.draft").write_text("stale")
    server = await opened(echo)
    assert (await run(server.command("cursor", "stop", timeout=20), b"x")).exit == 0


async def test_closing_releases_waiting_clients_and_leaves_nothing(opened: Open) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append)
    running = asyncio.create_task(run(server.command("cursor", "stop", timeout=60), b"x"))
    await until(lambda: bool(asked))
    await server.close()
    assert await asked[0].gone
    ran = await running
    assert (ran.exit, ran.stdout) == (2, b"")
    assert not server.folder.exists()


async def test_over_loopback_the_behaviour_is_the_same(opened: Open, cache: Path) -> None:
    python = ready_shim(cache, compiled=False)
    server = await opened(echo, unix=False, shim=python)
    command = server.command("cursor", "preToolUse", timeout=20)
    payload = os.urandom(700_000)
    assert await run(command, payload) == Ran(
        0, b"cursor preToolUse False " + payload, b"and a word"
    )
    (server.folder / "key").write_text(f"{'0' * 64} {'0' * 64}\n")
    ran = await run(command, payload)
    assert (ran.exit, ran.stdout) == (2, b"")


class Counting(selectors.DefaultSelector):
    """A selector that records the timeouts of an event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waits.append(timeout)
        return super().select(timeout)


@pytest.mark.skipif(sys.platform == "win32", reason="another kind of loop")
def test_an_idle_server_does_not_wake_up(tmp_path: Path, shim: Shim) -> None:
    """Before its first request, and after."""
    selector = Counting()
    loop = asyncio.SelectorEventLoop(selector)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def idle() -> int:
        before = -1
        for _ in range(100):
            before = len(selector.waits)
            if selector.waits and selector.waits[-1] is None:
                threading.Event().wait(0.5)
                if len(selector.waits) == before:
                    return before
            threading.Event().wait(0.05)
        raise AssertionError(f"it wakes up: {selector.waits[-10:]}")

    try:
        server = asyncio.run_coroutine_threadsafe(
            HookServer.open(tmp_path / "hooks", echo, shim=shim), loop
        ).result(10)
        before = idle()
        assert asyncio.run(run(server.command("cursor", "stop", timeout=20), b"x")).exit == 0
        assert idle() > before
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
