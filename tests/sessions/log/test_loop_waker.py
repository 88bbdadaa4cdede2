"""How the store's thread calls into a loop: completely, in order, and with few wake-ups."""

from __future__ import annotations

import asyncio
import threading

from tillerman.sessions.log.loop_waker import LoopWaker


async def from_a_thread(calls: list[tuple[object, ...]]) -> None:
    """Schedules all of them before the loop runs."""
    loop = asyncio.get_running_loop()
    bell = LoopWaker.of(loop)

    def ring() -> None:
        for callback, *args in calls:
            bell.call(loop, callback, *args)  # type: ignore[arg-type]

    thread = threading.Thread(target=ring)
    thread.start()
    thread.join()


async def test_calls_of_a_thread_come_in_order() -> None:
    received: list[int] = []
    await from_a_thread([(received.append, number) for number in range(100)])
    assert received == []
    await asyncio.sleep(0)
    assert received == list(range(100))


async def test_a_call_within_a_call_runs_too() -> None:
    loop, received = asyncio.get_running_loop(), asyncio.Event()
    await from_a_thread([(LoopWaker.of(loop).call, loop, received.set)])
    async with asyncio.timeout(5):
        await received.wait()


async def test_a_call_that_fails_does_not_affect_the_others() -> None:
    loop, received = asyncio.get_running_loop(), asyncio.Event()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    error = RuntimeError("mine alone")

    def fail() -> None:
        raise error

    await from_a_thread([(fail,), (received.set,)])
    async with asyncio.timeout(5):
        await received.wait()
    assert failures == [error]


def test_every_loop_has_a_waker_of_its_own() -> None:
    loops = [asyncio.new_event_loop() for _ in range(2)]
    one, other = map(LoopWaker.of, loops)
    assert one is not other
    assert LoopWaker.of(loops[0]) is one
    for loop in loops:
        loop.close()
