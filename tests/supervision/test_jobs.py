"""A program that writes to files, and may outlive its harness for a while."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.supervision import kills
from tillerman.core.agent import Exit
from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.client import foreign_warden
from tillerman.supervision.client.child_processes import FileBackedProcess, ProcessEnded, Sizes
from tillerman.supervision.client.orphan_sweep import sweep
from tillerman.supervision.client.supervision_levels import Level
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.protocol.rendezvous import KEY, SOCKET, connect_to_warden
from tillerman.supervision.warden import exit_file
from tillerman.supervision.warden.output_pump import FEED_CAP

PATH = {"PATH": os.environ["PATH"]}
CAP = 1 << 20


@pytest.fixture
def token() -> Iterator[str]:
    made = kills.new_token(random.Random())
    yield made
    kills.end_holders(made)


@pytest.fixture
async def warden(level: Level, tmp_path: Path, marker: str) -> AsyncIterator[WardenClient]:
    started = await WardenClient.start(
        level=level, records=tmp_path / "records", marker=marker, linger=5
    )
    yield started
    await started.close()


async def run(warden: WardenClient, folder: Path, text: str, **how: object) -> FileBackedProcess:
    folder.mkdir(parents=True)
    given = {"cwd": "/", "env": PATH, "name": folder.name, "folder": folder, "cap": CAP}
    return await warden.run(["sh", "-c", text], **given | how)  # type: ignore[arg-type]


async def ended(job: FileBackedProcess) -> ProcessEnded:
    async with asyncio.timeout(20):
        found = await job.wait()
    assert found
    return found


def until_dead(pid: int) -> None:
    deadline = time.monotonic() + 20
    while ") Z" not in Path(f"/proc/{pid}/stat").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)


def until_ended(*folders: Path) -> None:
    deadline = time.monotonic() + 4
    while not all(map(ProcessEnded.read, folders)) and time.monotonic() < deadline:
        time.sleep(0.01)


async def grown_to(job: FileBackedProcess, total: int) -> Sizes:
    async with asyncio.timeout(10):
        sizes = await job.grown(total - 1)
    assert sizes
    return sizes


# -- output ----------------------------------------------------------------------------------------


async def test_output_and_error_are_complete_in_their_files_at_the_end(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(warden, tmp_path / "a", "seq 20000; echo bad >&2; exit 3")
    end = await ended(job)
    out = "".join(f"{n}\n" for n in range(1, 20001))
    assert (tmp_path / "a/stdout").read_text() == out
    assert (tmp_path / "a/stderr").read_text() == "bad\n"
    assert (end.exit, end.why) == (Exit(3, None), "")
    assert end.sizes == Sizes(len(out), 4, len(out), 4)
    assert abs(end.at - time.time()) < 60
    assert ProcessEnded.read(tmp_path / "a") == end._replace(at=round(end.at, 3))
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "a").iterdir()} == {0o600}


async def test_past_the_cap_bytes_are_counted_and_dropped_with_one_note_in_the_file(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(warden, tmp_path / "a", "head -c 3000000 /dev/zero; echo end >&2", cap=1000)
    end = await ended(job)
    assert end.sizes == Sizes(3000000, 4, 1000, 4)
    assert (tmp_path / "a/stdout").read_bytes() == (
        b"\0" * 1000 + b"\n[tillerman: output beyond 1000 bytes was dropped]\n"
    )


async def test_output_still_in_the_pipe_at_the_end_counts(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(warden, tmp_path / "a", "sleep 0.3; head -c 60000 /dev/zero", cap=1000)
    keeper = kills._parent(job.pid)
    os.kill(keeper, signal.SIGSTOP)
    await asyncio.to_thread(until_dead, job.pid)
    os.kill(keeper, signal.SIGCONT)
    assert (await ended(job)).sizes == Sizes(60000, 0, 1000, 0)


async def test_output_that_just_fits_the_cap_is_not_marked_as_cut(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(warden, tmp_path / "a", "head -c 1000 /dev/zero", cap=1000)
    assert (await ended(job)).sizes == Sizes(1000, 0, 1000, 0)
    assert (tmp_path / "a/stdout").read_bytes() == b"\0" * 1000


async def test_a_file_that_cannot_be_written_blocks_no_other_program(
    warden: WardenClient, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    full = tmp_path / "a" / "stdout"
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    from tillerman.supervision.client import child_processes

    opened = child_processes.open_files(tmp_path / "a")
    device = os.open("/dev/full", os.O_WRONLY)
    os.dup2(device, opened[1], inheritable=False)
    os.close(device)
    job = FileBackedProcess(warden._send, 99, "a")
    warden._children[99] = job
    message = (
        "run",
        99,
        [b"head", b"-c", b"200000", b"/dev/zero"],
        b"/",
        {b"PATH": PATH["PATH"].encode()},
    )
    warden._send(*message, "a", False, None, CAP, None, {}, files=opened)
    assert (await ended(job)).sizes == Sizes(200000, 0, 0, 0)
    assert full.read_bytes() == b""


async def test_a_grandchild_that_holds_the_output_delays_nothing(
    warden: WardenClient, tmp_path: Path, token: str
) -> None:
    job = await run(warden, tmp_path / "a", f"setsid sleep {token} & echo said; exit 0")
    assert (await ended(job)).exit == Exit(0, None)
    assert (tmp_path / "a/stdout").read_text() == "said\n"
    await job.kill()
    assert kills.wait_until_gone(token) == []


async def test_a_killed_process_keeps_its_output_and_reports_that_it_was_killed_on_request(
    warden: WardenClient, tmp_path: Path, token: str
) -> None:
    job = await run(warden, tmp_path / "a", f"echo said; (setsid sleep {token} &); sleep {token}")
    await grown_to(job, 5)
    await job.kill()
    end = await ended(job)
    assert (end.exit, end.why, end.sizes.stdout) == (
        Exit(None, signal.SIGKILL),
        exit_file.REQUESTED,
        5,
    )
    assert ProcessEnded.read(tmp_path / "a") == end._replace(at=round(end.at, 3))
    assert kills.wait_until_gone(token, within=0) == []


async def test_a_stopped_process_can_be_killed(warden: WardenClient, tmp_path: Path) -> None:
    job = await run(warden, tmp_path / "a", "echo x; kill -STOP $$")
    await grown_to(job, 2)
    await job.kill()
    assert (await ended(job)).exit.signal == signal.SIGKILL


async def test_a_stopped_keeper_is_killed_with_its_tree(
    warden: WardenClient, tmp_path: Path, token: str
) -> None:
    job = await run(warden, tmp_path / "a", f"echo x; sleep {token}")
    await grown_to(job, 2)
    os.kill(kills._parent(job.pid), signal.SIGSTOP)
    await job.kill()
    end = await ended(job)
    assert (end.exit.signal, end.sizes.stdout_kept) == (signal.SIGKILL, 2)
    assert ProcessEnded.read(tmp_path / "a")
    assert kills.wait_until_gone(token) == []


async def test_growth_is_reported_to_each_waiter_and_only_when_there_is_some(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(
        warden, tmp_path / "a", "read a; echo one; read b; echo two; read c", stdin=True
    )
    assert (await job.grown()) == Sizes(0, 0, 0, 0)
    first = asyncio.create_task(job.grown(0))
    second = asyncio.create_task(job.grown(4))
    await asyncio.sleep(0.05)
    assert not first.done()
    assert await job.write(b"\n") == "taken"
    assert (await asyncio.wait_for(first, 10)) == Sizes(4, 0, 4, 0)
    assert not second.done()
    assert await job.write(b"\n") == "taken"
    assert (await asyncio.wait_for(second, 10)) == Sizes(8, 0, 8, 0)
    last = asyncio.create_task(job.grown(8))
    await job.write(b"", eof=True)
    assert await asyncio.wait_for(last, 10) is None
    await ended(job)


async def test_a_signal_reaches_the_group(warden: WardenClient, tmp_path: Path) -> None:
    job = await run(
        warden,
        tmp_path / "a",
        "trap 'echo sh' USR1; (trap 'echo sub; exit' USR1; echo up; while :; do sleep 0.01; done) &"
        " wait; wait",
    )
    await grown_to(job, 3)
    job.signal(signal.SIGUSR1)
    end = await ended(job)
    assert sorted((tmp_path / "a/stdout").read_text().split()) == ["sh", "sub", "up"]
    assert end.exit == Exit(0, None)


@pytest.mark.parametrize(
    ("argv", "cwd"), [(["/no/such/program"], "/"), (["true"], "/no/such/folder")]
)
async def test_a_start_error_is_raised(
    warden: WardenClient, tmp_path: Path, argv: list[str], cwd: str
) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(FileNotFoundError):
        await warden.run(
            argv, cwd=cwd, env=PATH, name="a", folder=tmp_path / "a", cap=CAP, lasting=True
        )
    assert ProcessEnded.read(tmp_path / "a") is None


async def test_rules_that_cannot_be_enforced_prevent_the_start(
    warden: WardenClient, tmp_path: Path
) -> None:
    limits = ((9999, 1),)  # no such resource
    with pytest.raises((OSError, SupervisionUnavailable)):
        await run(
            warden, tmp_path / "a", f"touch {tmp_path}/ran", rules=(limits, None, None, None, ())
        )
    assert not (tmp_path / "ran").exists()


async def test_rules_apply_in_the_program(warden: WardenClient, tmp_path: Path) -> None:
    import resource

    limits = ((resource.RLIMIT_NOFILE, 37),)
    job = await run(warden, tmp_path / "a", "ulimit -n", rules=(limits, None, None, None, ()))
    await ended(job)
    assert (tmp_path / "a/stdout").read_text() == "37\n"


async def test_it_inherits_no_files_of_ours(warden: WardenClient, tmp_path: Path) -> None:
    job = await run(warden, tmp_path / "a", "ls /proc/self/fd", stdin=True)
    await ended(job)
    assert (tmp_path / "a/stdout").read_text().split() == ["0", "1", "2", "3"]  # 3: the listing


async def test_files_are_released_by_warden_and_harness(
    warden: WardenClient, tmp_path: Path
) -> None:
    def open_files(pid: int) -> int:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))

    before = open_files(os.getpid()), open_files(warden.pid)
    for number in range(5):
        job = await run(warden, tmp_path / f"{number}", "cat", stdin=b"x", lasting=True)
        await ended(job)
        await job.kill()
    ours, the_wardens = before
    async with asyncio.timeout(20):
        # + 2: the spare keeper, and the record that the next program uses again
        while open_files(warden.pid) != the_wardens + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert open_files(os.getpid()) == ours


# -- input -----------------------------------------------------------------------------------------


async def test_given_input_is_read_to_its_end(warden: WardenClient, tmp_path: Path) -> None:
    data = bytes(range(256)) * 2000
    job = await run(warden, tmp_path / "a", "cat", stdin=data)
    await ended(job)
    assert (tmp_path / "a/stdout").read_bytes() == data


async def test_without_input_it_reads_nothing(warden: WardenClient, tmp_path: Path) -> None:
    job = await run(warden, tmp_path / "a", "cat; echo end")
    await ended(job)
    assert (tmp_path / "a/stdout").read_text() == "end\n"
    assert await job.write(b"x") == "closed"


async def test_input_comes_in_order_until_its_end(warden: WardenClient, tmp_path: Path) -> None:
    job = await run(warden, tmp_path / "a", "cat", stdin=True)
    for part in (b"one ", b"x" * 100_000, b" two"):
        assert await job.write(part) == "taken"
    assert await job.write(b"!", eof=True) == "taken"
    assert await job.write(b"late") == "closed"
    await ended(job)
    assert (tmp_path / "a/stdout").read_bytes() == b"one " + b"x" * 100_000 + b" two!"


async def test_a_program_that_does_not_read_blocks_no_other(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(warden, tmp_path / "a", "sleep 60", stdin=True)
    async with asyncio.timeout(20):
        assert await job.write(b"x" * (FEED_CAP + (1 << 20))) == "full"
        assert await job.grown() == Sizes(0, 0, 0, 0)
        await job.kill()


async def test_a_program_that_closed_its_input_is_distinguished(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(warden, tmp_path / "a", "exec <&-; echo closed; sleep 60", stdin=True)
    await grown_to(job, 7)
    assert await job.write(b"x") == "taken"  # unknown before it is tried
    assert await job.write(b"x") == "closed"
    await job.kill()


# -- the lease -------------------------------------------------------------------------------------


async def test_detached_programs_are_found_again_and_the_others_have_ended(
    level: Level, tmp_path: Path, marker: str
) -> None:
    first = await WardenClient.start(level=level, records=tmp_path, marker=marker, linger=5)
    out = tmp_path.with_name(f"{tmp_path.name}-out")
    lasting = await run(first, out / "lasting", "echo a; read x; echo $x", stdin=True, lasting=True)
    brief = await run(first, out / "brief", "sleep 60")
    quick = await run(first, out / "quick", "sleep 0.3", lasting=True)
    first.release()
    until_ended(out / "brief", out / "quick")
    await asyncio.sleep(0.2)  # until their keepers have reported it
    assert sweep(tmp_path) == []  # under a lease
    second = await WardenClient.rejoin(first.folder)
    assert second
    assert second.running.keys() == {"lasting"}
    found = second.running["lasting"]
    assert await found.started() == await lasting.started()
    assert found.pid == lasting.pid
    assert await found.write(b"hello\n") == "taken"
    end = await ended(found)
    assert (end.exit, end.why) == (Exit(0, None), "")
    assert (out / "lasting/stdout").read_text() == "a\nhello\n"
    left = ProcessEnded.read(out / "brief")
    assert left
    assert (left.exit, left.why) == (Exit(None, signal.SIGKILL), exit_file.HARNESS)
    again = ProcessEnded.read(out / "quick")
    assert again
    assert again.exit == Exit(0, None)
    assert (brief.name, quick.name) == ("brief", "quick")
    new = await run(second, out / "new", "echo new", lasting=True)
    assert (await ended(new)).exit.clean
    await second.close()
    assert list(tmp_path.iterdir()) == []


async def test_without_a_harness_all_end_with_the_lease(
    level: Level, tmp_path: Path, marker: str, token: str
) -> None:
    warden = await WardenClient.start(
        level=level, records=tmp_path / "r", marker=marker, linger=0.5
    )
    await run(warden, tmp_path / "a", f"setsid sleep {token} & sleep {token}", lasting=True)
    warden.release()
    await asyncio.sleep(0.2)
    assert kills.holders(token)
    assert kills.wait_until_gone(token, within=0.5 + kills.WITHIN) == []
    assert kills.wait_until_gone(marker) == []
    end = ProcessEnded.read(tmp_path / "a")
    assert end
    assert (end.exit, end.why) == (Exit(None, signal.SIGKILL), exit_file.LEASE)
    assert list((tmp_path / "r").iterdir()) == []
    assert await WardenClient.rejoin(warden.folder) is None


async def test_a_returning_harness_can_end_it_all_at_once(
    level: Level, tmp_path: Path, marker: str, token: str
) -> None:
    warden = await WardenClient.start(level=level, records=tmp_path / "r", marker=marker, linger=60)
    await run(warden, tmp_path / "a", f"setsid sleep {token} & sleep {token}", lasting=True)
    warden.release()
    back = await WardenClient.rejoin(warden.folder)
    assert back
    async with asyncio.timeout(kills.WITHIN):
        await back.close()
    assert kills.wait_until_gone(token, within=0) == []
    end = ProcessEnded.read(tmp_path / "a")
    assert end
    assert end.why == exit_file.REQUESTED


async def test_a_connection_renews_the_lease(level: Level, tmp_path: Path, marker: str) -> None:
    warden = await WardenClient.start(
        level=level, records=tmp_path / "r", marker=marker, linger=0.4
    )
    await run(warden, tmp_path / "a", "sleep 60", lasting=True)
    warden.release()
    back = await WardenClient.rejoin(warden.folder)
    assert back
    await asyncio.sleep(0.8)
    assert "a" in back.running
    assert ProcessEnded.read(tmp_path / "a") is None
    await back.close()


async def test_a_warden_without_detached_programs_exits_at_once(
    level: Level, tmp_path: Path, marker: str
) -> None:
    warden = await WardenClient.start(level=level, records=tmp_path / "r", marker=marker, linger=60)
    await run(warden, tmp_path / "a", "sleep 60")
    warden.release()
    assert kills.wait_until_gone(marker) == []


async def test_a_program_detached_later_stays(level: Level, tmp_path: Path, marker: str) -> None:
    warden = await WardenClient.start(level=level, records=tmp_path / "r", marker=marker, linger=5)
    job = await run(warden, tmp_path / "a", "sleep 60")
    assert await job.last()
    warden.release()
    await asyncio.sleep(0.2)
    back = await WardenClient.rejoin(warden.folder)
    assert back
    assert back.running.keys() == {"a"}
    await back.close()


async def test_a_warden_in_use_is_waited_for(level: Level, tmp_path: Path, marker: str) -> None:
    warden = await WardenClient.start(level=level, records=tmp_path / "r", marker=marker, linger=5)
    await run(warden, tmp_path / "a", "sleep 60", lasting=True)
    waiting = asyncio.create_task(WardenClient.rejoin(warden.folder))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    warden.release()
    back = await asyncio.wait_for(waiting, 5)
    assert back
    await back.close()


async def test_another_process_may_list_signal_and_kill(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(warden, tmp_path / "a", "trap 'echo hup' HUP; while :; do sleep 0.01; done")
    other = await run(warden, tmp_path / "b", "sleep 60")
    assert await foreign_warden.programs(warden.folder) == ["a", "b"]
    await asyncio.sleep(0.2)
    assert await foreign_warden.signal(warden.folder, "a", signal.SIGHUP)
    await grown_to(job, 4)
    assert await foreign_warden.kill(warden.folder, "a")
    assert (await ended(job)).exit.signal == signal.SIGKILL
    assert not await foreign_warden.kill(warden.folder, "a")
    assert not await foreign_warden.signal(warden.folder, "nobody", signal.SIGHUP)
    assert not other._end.done()


async def test_a_client_without_the_key_is_disconnected(
    warden: WardenClient, tmp_path: Path
) -> None:
    await run(warden, tmp_path / "a", "sleep 60")
    key = warden.folder / KEY
    assert key.stat().st_mode & 0o777 == 0o600
    right = key.read_bytes()
    key.write_bytes(b"x" * len(right))
    assert await foreign_warden.programs(warden.folder) is None
    key.write_bytes(right)
    assert await foreign_warden.programs(warden.folder) == ["a"]


async def test_silent_clients_block_no_other(warden: WardenClient, tmp_path: Path) -> None:
    import socket

    silent = []
    for _ in range(40):
        end = socket.socket(socket.AF_UNIX)
        where = os.open(warden.folder, os.O_RDONLY)
        end.connect(f"/proc/self/fd/{where}/{SOCKET}")
        os.close(where)
        silent.append(end)
    job = await run(warden, tmp_path / "a", "echo on; sleep 60")
    await grown_to(job, 3)
    assert await foreign_warden.programs(warden.folder) == ["a"]
    for end in silent:
        end.close()


async def test_a_warden_without_detached_programs_has_no_socket(
    level: Level, tmp_path: Path, marker: str
) -> None:
    warden = await WardenClient.start(level=level, records=tmp_path, marker=marker)
    with pytest.raises(OSError):
        connect_to_warden(str(warden.folder), "list")
    assert await WardenClient.rejoin(warden.folder) is None
    await warden.close()


@pytest.mark.parametrize("who", ["warden", "keeper", "program"])
async def test_whichever_process_is_killed_the_tree_ends_and_the_end_is_reported(
    level: Level, tmp_path: Path, marker: str, token: str, who: str
) -> None:
    warden = await WardenClient.start(level=level, records=tmp_path / "r", marker=marker, linger=60)
    text = f"setsid sleep {token} & echo up; sleep {token}"
    job = await run(warden, tmp_path / "a", text, lasting=True)
    await grown_to(job, 3)
    pids = {"warden": warden.pid, "keeper": kills._parent(job.pid), "program": job.pid}
    os.kill(pids[who], signal.SIGKILL)
    async with asyncio.timeout(10):
        end = await job.wait() or ProcessEnded.read(tmp_path / "a")
    assert kills.wait_until_gone(token) == []
    if end is not None:  # a namespace's keeper dies with its warden
        assert end.exit == Exit(None, signal.SIGKILL)
    else:
        assert (level, who) == (Level.NAMESPACE, "warden")
    assert (tmp_path / "a/stdout").read_text() == "up\n"
    await warden.close()
    assert kills.wait_until_gone(marker) == []
