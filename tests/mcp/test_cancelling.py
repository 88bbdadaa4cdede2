"""Cancelled calls, and progress notifications of long ones."""

from __future__ import annotations

import sys
import time

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.mcp.mcp_desk import Machine, Wire, text, tree, until

pytestmark = pytest.mark.timeout(120)


def test_a_cancelled_command_is_killed_with_its_tree(house: Machine, wire: Wire) -> None:
    mark = "61.4217"
    inner = f"sh -c 'trap \"\" TERM INT HUP; setsid sleep {mark} & sleep {mark}; wait'"
    call = wire.begin("execute_shell", command=f"{inner} & {inner} & sleep {mark}", timeout=60)
    until(lambda: len(tree(mark)) >= 5)
    wire.report("notifications/cancelled", {"requestId": call, "reason": "enough"})
    until(lambda: not tree(mark), seconds=2)
    assert not wire.answered(call)
    finished = until(
        lambda: [e["event"] for e in house.log() if e["event"]["type"] == "tool_finished"]
    )
    assert finished[-1]["outcome"] == "cancelled"
    listed = wire.call("list_processes")["_meta"]["tillerman/result"]["processes"]
    assert [one["status"] for one in listed] == ["killed"]


def test_cancelling_a_finished_or_unknown_call_does_no_harm(wire: Wire) -> None:
    for request in (9999, "nothing", None, -1, [], 10**400):
        wire.report("notifications/cancelled", {"requestId": request})
    wire.report("notifications/cancelled")
    assert wire.ask("ping")["result"] == {}
    assert not wire.call("execute_shell", command="echo still here")["isError"]


def test_notifications_are_sent_only_on_request(wire: Wire) -> None:
    wire.notes.clear()
    arguments = {"command": "echo working; sleep 2.3"}
    parsed = {"name": "execute_shell", "arguments": arguments}
    assert "result" in wire.ask("tools/call", parsed)
    assert wire.notes == []
    assert "result" in wire.ask("tools/call", parsed | {"_meta": {"progressToken": "t1"}})
    [note] = wire.notes
    assert note["method"] == "notifications/progress"
    params = note["params"]
    assert (params["progressToken"], params["message"]) == ("t1", "working")
    assert 30 <= params["total"] < 60  # the time before the command began counts too
    assert 0 < params["progress"] < 30


async def test_the_sdks_client_receives_notifications_and_can_cancel(machine: Machine) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tillerman", "mcp", "serve", "--approve", "auto"],
        env=machine.environment,
        cwd=machine.project,
    )
    mark = "62.4218"
    received: list[tuple[float | None, str | None]] = []
    reported = anyio.Event()

    async def news(progress: float, total: float | None, message: str | None) -> None:
        received.append((total, message))
        reported.set()

    async with Client(server) as client:
        with anyio.CancelScope() as scope:

            async def stop_when_heard() -> None:
                await reported.wait()
                scope.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop_when_heard)
                await client.call_tool(
                    "execute_shell",
                    {"command": f"echo at work; sleep {mark}", "timeout": 60},
                    progress_callback=news,
                )
        assert scope.cancelled_caught
        deadline = time.monotonic() + 2
        while tree(mark):
            assert time.monotonic() < deadline
            await anyio.sleep(0.02)
        result = await client.call_tool("execute_shell", {"command": "echo next"})
        assert not result.is_error
    total, text = received[0]
    assert 60 <= total < 90 and text == "at work"


def test_a_command_past_its_time_is_killed_or_continues(wire: Wire) -> None:
    mark = "63.4219"
    result = wire.call("execute_shell", command=f"echo begun; sleep {mark}", timeout=0.5)
    assert result["isError"] and "longer than 0.5 s" in text(result) and "begun" in text(result)
    assert tree(mark) == []
    result = wire.call(
        "execute_shell", command=f"sleep {mark}", timeout=0.5, on_timeout="background"
    )
    assert not result["isError"]
    process = result["_meta"]["tillerman/result"]["process_id"]
    assert tree(mark)
    wire.call("kill_process", process_id=process)
    until(lambda: not tree(mark))
