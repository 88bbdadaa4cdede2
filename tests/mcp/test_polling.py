"""`poll_process` with `wait_ms` waits for output that the client has not got, and no longer."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.mcp.mcp_desk import TALKER, Machine, Wire, started, until

pytestmark = pytest.mark.timeout(120)

LONG = 20_000  # ms; longer than any wait for existing output
SHORT = 400


def written(house: Machine, process: str) -> int:
    """The content of its output file, read directly."""
    [file] = (house.tillerman / "state/processes").glob(f"*/{process}/stdout")
    return Path(file).stat().st_size


def poll(wire: Wire, process: str, wait_ms: int) -> float:
    began = time.monotonic()
    assert not wire.call("poll_process", process_id=process, wait_ms=wait_ms)["isError"]
    return time.monotonic() - began


def test_output_from_before_the_call_is_not_waited_for(house: Machine, wire: Wire) -> None:
    process = started(wire, "echo early; exec sleep 60")
    until(lambda: written(house, process))
    assert poll(wire, process, LONG) < LONG / 2000
    assert poll(wire, process, SHORT) >= SHORT / 1000
    wire.call("kill_process", process_id=process)


def test_a_poll_waits_if_and_only_if_all_was_shown(house: Machine, wire: Wire) -> None:
    process = started(wire, TALKER)
    until(lambda: written(house, process))
    pick = random.Random(14)
    is_new = True
    for _ in range(30):
        match pick.choice(["write", "read", "read the beginning", "poll"]):
            case "write":
                size = written(house, process)
                wire.call("write_process_input", process_id=process, text="more\n")
                until(lambda size=size: written(house, process) > size)
                is_new = True
            case "read":
                wire.call("read_process_output", process_id=process)
                is_new = False
            case "read the beginning":
                wire.call("read_process_output", process_id=process, mode="head", lines=1)
                is_new = is_new and written(house, process) > len("ready\n")
            case "poll":
                waits = poll(wire, process, LONG if is_new else SHORT)
                assert waits < LONG / 2000 if is_new else waits >= SHORT / 1000
                is_new = False
    wire.call("kill_process", process_id=process)


def test_of_one_that_went_on_after_its_timeout_the_rest_is_waited_for(
    house: Machine, wire: Wire
) -> None:
    command = "echo first; until [ -e more ]; do sleep 0.1; done; echo second; exec sleep 60"
    result = wire.call("execute_shell", command=command, timeout=1, on_timeout="background")
    process = result["_meta"]["tillerman/result"]["process_id"]
    assert poll(wire, process, SHORT) >= SHORT / 1000
    (house.project / "more").touch()
    assert poll(wire, process, LONG) < LONG / 2000
    assert written(house, process) == len("first\nsecond\n")
    wire.call("kill_process", process_id=process)
