"""Background processes, restarts, HTTP clients, archives, large files and approvals: by pairs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.http_desk import HELLO, SERVE, client, opened, shut
from tests.mcp.mcp_desk import TALKER, Machine, started, text, tree, until
from tests.mcp.pairs_desk import answer, digest, exported, make_tar, names, waiting, zipped

pytestmark = pytest.mark.timeout(120)

LARGE = 10_000_000  # bytes


# -- background processes --------------------------------------------------------------------------


def test_a_background_process_that_is_found_again_still_reads_its_input(machine: Machine) -> None:
    wire = machine.greeted("--approve", "auto")
    process = started(wire, TALKER)
    wire.call("write_process_input", process_id=process, text="before\n")
    wire.process.send_signal(signal.SIGKILL)
    wire.wait()
    again = machine.greeted("--approve", "auto")
    again.call("write_process_input", process_id=process, text="after\n", eof=True)
    until(lambda: "finished" in text(again.call("poll_process", process_id=process, wait_ms=500)))
    page = again.call("read_process_output", process_id=process)["_meta"]["tillerman/result"]
    assert page["lines"] == ["ready", "heard before", "heard after"]


async def test_background_processes_of_two_clients_do_not_mix_their_output(
    machine: Machine,
) -> None:
    door = opened(machine.start(*SERVE, stdin=False))

    async def talk(mode: str, word: str) -> list[str]:
        async with client(door, mode) as made:
            began: Any = await made.call_tool(
                "execute_shell", {"command": TALKER, "run_mode": "background"}
            )
            which = {"process_id": began.meta["tillerman/result"]["process_id"]}
            for number in range(20):
                parsed = {"text": f"{word}{number}\n", "eof": number == 19}
                await made.call_tool("write_process_input", {**which, **parsed})
            while True:
                poll: Any = await made.call_tool("poll_process", {**which, "wait_ms": 500})
                if poll.meta["tillerman/result"]["status"] == "finished":
                    break
            page: Any = await made.call_tool("read_process_output", which)
            lines: list[str] = page.meta["tillerman/result"]["lines"]
            return lines

    found = await asyncio.gather(talk("legacy", "a"), talk("legacy", "b"), talk("auto", "c"))
    for word, lines in zip("abc", found, strict=True):
        assert lines == ["ready", *(f"heard {word}{number}" for number in range(20))]
    shut(door)


def test_a_folder_that_a_background_process_writes_can_be_packed(machine: Machine) -> None:
    wire = machine.greeted("--approve", "auto")
    (machine.project / "writer").write_text(
        "mkdir -p box; i=0; while :; do i=$((i+1)); echo $i > box/$((i % 50)); done"
    )
    process = started(wire, "sh writer")
    until((machine.project / "box/49").exists)
    for _ in range(3):
        packed = zipped(exported(wire.call("export_zip", paths=["box"])))
        assert {f"box/{number}" for number in range(50)} >= set(packed)
        assert len(packed) >= 45  # one may be empty or on its way, and is left out with a note
    wire.call("kill_process", process_id=process)


def test_a_large_output_of_a_background_process_can_be_read_whole_by_pages(
    machine: Machine,
) -> None:
    wire = machine.greeted("--approve", "auto")
    process = started(wire, "seq -f %0400g 1 3000; exec sleep 60")
    [file] = (machine.tillerman / "state/processes").glob(f"*/{process}/stdout")
    until(lambda: file.stat().st_size == 3000 * 401)
    lines: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = wire.call(
            "read_process_output", process_id=process, mode="range", offset=offset, lines=100
        )["_meta"]["tillerman/result"]
        lines += page["lines"]
        offset = page["next_offset"]
    assert lines == [f"{number:0400}" for number in range(1, 3001)]


def test_while_an_approval_waits_processes_go_on_and_other_calls_are_answered(
    machine: Machine,
) -> None:
    (machine.tillerman).mkdir(exist_ok=True)
    (machine.tillerman / "config.toml").write_text('[[rules]]\nallow = true\ncommand = "sleep *"\n')
    wire = machine.greeted("--approve", "ask", "--request-timeout", "60")
    process = started(wire, "sleep 60")
    call = wire.begin("execute_shell", command="touch made")
    waiting(machine)
    began = time.monotonic()
    assert "running" in text(wire.call("poll_process", process_id=process))
    assert not wire.call("list_directory")["isError"]
    assert time.monotonic() - began < 10
    assert not wire.answered(call)
    answer(machine, "deny")
    assert wire.called(call)["isError"] and not (machine.project / "made").exists()


# -- restarts --------------------------------------------------------------------------------------


def test_after_a_restart_a_client_learns_that_its_http_session_has_ended(machine: Machine) -> None:
    door = opened(machine.start(*SERVE, stdin=False))
    _, reported, _ = door.knock("POST", "/mcp", door.headers(), HELLO)
    session = reported["mcp-session-id"]
    shut(door)
    door = opened(machine.start(*SERVE, stdin=False))
    headers = door.headers(Mcp_Session_Id=session)
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert door.knock("POST", "/mcp", headers, ping)[0] == 404
    assert door.knock("POST", "/mcp", door.headers(), HELLO)[0] == 200
    shut(door)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("call", ["runs", "waits for approval"])
async def test_a_server_that_stops_during_a_call_over_http_ends_it_and_reports_no_bug(
    machine: Machine, mode: str, call: str
) -> None:
    words = [*SERVE[:-1], "auto" if call == "runs" else "ask", "--request-timeout", "60"]
    door = opened(machine.start(*words, stdin=False))
    ended = asyncio.Event()
    mark = f"74.9{len(mode)}{len(call)}"

    async def calling() -> None:
        try:
            async with client(door, mode) as made:
                await made.call_tool("execute_shell", {"command": f"touch x; exec sleep {mark}"})
        finally:
            ended.set()

    calls = asyncio.ensure_future(calling())
    if call == "runs":
        await asyncio.to_thread(until, lambda: tree(mark))
    else:
        await asyncio.to_thread(waiting, machine)
    await asyncio.to_thread(shut, door)
    async with asyncio.timeout(20):
        await ended.wait()
    await asyncio.gather(calls, return_exceptions=True)
    assert not tree(mark)
    if call != "runs":
        assert machine.json("requests", "list", "--json") == []


def test_a_server_killed_while_it_unpacks_leaves_only_whole_files(
    machine: Machine,
) -> None:
    files = {f"folder/{number}": os.urandom(200_000) for number in range(150)}
    source = make_tar(machine.folder / "in.tgz", files)
    wire = machine.greeted("--approve", "auto")
    wire.begin("import_file", source=str(source), path="box", unpack=True)
    until((machine.project / "box/folder/20").exists)
    wire.process.send_signal(signal.SIGKILL)
    wire.wait()
    machine.greeted("--approve", "auto")
    found = {path for path in names(machine.project) if (machine.project / path).is_file()}
    assert found <= {f"box/{name}" for name in files}
    for path in found:
        assert (machine.project / path).read_bytes() == files[path.removeprefix("box/")]


def test_a_server_that_is_killed_while_it_writes_a_large_file_leaves_the_old_or_the_new(
    machine: Machine,
) -> None:
    old, new = "old\n", "n" * LARGE
    for delay in (0.0, 0.03, 0.06, 0.1, 0.2):
        (machine.project / "file").write_text(old)
        wire = machine.greeted("--approve", "auto")
        wire.begin("write_file", path="file", content=new)
        time.sleep(delay)
        wire.process.send_signal(signal.SIGKILL)
        wire.wait()
        assert (machine.project / "file").read_text() in (old, new)
        assert names(machine.project) == {"file"}


def test_a_call_that_waited_when_its_server_was_killed_has_no_effect(machine: Machine) -> None:
    wire = machine.greeted("--approve", "ask", "--request-timeout", "60")
    wire.begin("execute_shell", command="touch made")
    waiting(machine)
    wire.process.send_signal(signal.SIGKILL)
    wire.wait()
    again = machine.greeted("--approve", "auto")
    assert not again.call("execute_shell", command="true")["isError"]
    assert names(machine.project) == set()


# -- clients over HTTP, archives, large files, approvals -------------------------------------------


async def test_two_clients_that_unpack_at_once_have_all_files_whole(machine: Machine) -> None:
    sources = []
    for at in range(2):
        files = {f"{at}/{number}": f"{at} {number}\n".encode() * 500 for number in range(60)}
        sources.append((make_tar(machine.folder / f"{at}.tgz", files), files))
    door = opened(machine.start(*SERVE, stdin=False))
    async with client(door) as one, client(door, "legacy") as other:
        calls = [
            made.call_tool("import_file", {"source": str(source), "path": "box", "unpack": True})
            for made, (source, _) in zip((one, other), sources, strict=True)
        ]
        results: list[Any] = await asyncio.gather(*calls)
    assert not any(result.is_error for result in results), results
    for _, files in sources:
        for name, content in files.items():
            assert (machine.project / "box" / name).read_bytes() == content
    shut(door)


async def test_a_large_file_is_written_over_http_and_one_too_large_affects_no_other_client(
    machine: Machine,
) -> None:
    door = opened(machine.start(*SERVE, stdin=False))
    too_large = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * (17 << 20)}).encode()
    async with client(door) as made:
        written: Any = await made.call_tool("write_file", {"path": "a", "content": "a" * LARGE})
        assert not written.is_error
        try:
            status = door.knock("POST", "/mcp", door.headers(), too_large)[0]
        except ConnectionError:
            status = 413  # it was closed before all was sent
        assert status == 413
        again: Any = await made.call_tool("read_file", {"path": "a", "limit": 1})
        assert not again.is_error
    assert (machine.project / "a").stat().st_size == LARGE
    shut(door)


async def test_a_client_whose_call_waits_does_not_hold_up_another(machine: Machine) -> None:
    words = ("mcp", "serve", "--http", "0", "--approve", "ask", "--request-timeout", "60")
    door = opened(machine.start(*words, stdin=False))
    async with client(door, "legacy") as one, client(door) as other:
        waits = asyncio.ensure_future(one.call_tool("execute_shell", {"command": "touch made"}))
        request = await asyncio.to_thread(waiting, machine)
        async with asyncio.timeout(10):
            listed: Any = await other.call_tool("list_directory", {})
        assert not listed.is_error and not waits.done()
        done = await asyncio.to_thread(
            machine.run, "requests", "answer", request["request_id"], "allow"
        )
        assert done.returncode == 0
        result: Any = await waits
        assert not result.is_error
    assert names(machine.project) == {"made"}
    shut(door)


def test_a_large_file_comes_out_of_an_archive_and_goes_into_one_whole(machine: Machine) -> None:
    content = os.urandom(3 * LARGE)
    source = make_tar(machine.folder / "in.tgz", {"large.bin": content})
    wire = machine.greeted("--approve", "auto")
    result = wire.call("import_file", source=str(source), path="box", unpack=True)
    assert not result["isError"], text(result)
    assert (machine.project / "box/large.bin").read_bytes() == content
    assert zipped(exported(wire.call("export_zip", paths=["box"]))) == {"box/large.bin": content}
    copy = Path(exported(wire.call("export_file", path="box/large.bin")))
    assert digest(copy) == digest(machine.project / "box/large.bin")


@pytest.mark.parametrize("word", ["allow", "deny"])
def test_an_archive_that_waits_for_approval_is_unpacked_only_when_it_is_allowed(
    machine: Machine, word: str
) -> None:
    source = make_tar(machine.folder / "in.tgz", {"a": b"a", "deep/b": b"b"})
    wire = machine.greeted("--approve", "ask", "--request-timeout", "60")
    call = wire.begin("import_file", source=str(source), path="box", unpack=True)
    answer(machine, word)
    assert names(machine.project) == set() or word == "allow"
    asked = 1
    while not wire.answered(call) and asked < 3:
        if machine.json("requests", "list", "--json"):
            answer(machine, word)
            asked += 1
    result = wire.called(call)
    assert result["isError"] is (word == "deny"), text(result)
    files = {"box", "box/a", "box/deep", "box/deep/b"} if word == "allow" else set()
    assert names(machine.project) == files


def test_a_large_write_that_waits_is_written_whole_when_it_is_allowed(machine: Machine) -> None:
    content = "".join(f"line {number}\n" for number in range(400_000))
    wire = machine.greeted("--approve", "ask", "--request-timeout", "60")
    call = wire.begin("write_file", path="large", content=content)
    request = answer(machine)
    assert len(json.dumps(request)) < len(content)  # the request shows a part of it
    assert not wire.called(call)["isError"]
    assert (machine.project / "large").read_text() == content
