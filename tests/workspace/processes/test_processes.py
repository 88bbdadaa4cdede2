"""Shell commands of a session, from their start to a day after their end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.supervision import kills
from tests.workspace.process_server import ENV, Server, open_processes
from tillerman.core.timestamps import rfc3339
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.store.database import Database
from tillerman.store.process_table import ProcessTable
from tillerman.supervision.client import foreign_warden
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.processes.process_records import expire, forget, resolve_all_lost
from tillerman.workspace.processes.shell_processes import MOST, Processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

UNKNOWN = "process {} not found or access denied"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "tillerman"


@pytest.fixture
def table(home: Path) -> Iterator[ProcessTable]:
    database = Database.open(home / "store.db")
    yield ProcessTable(database)
    database.close()


@pytest.fixture
async def processes(home: Path, table: ProcessTable) -> AsyncIterator[Processes]:
    opened = await open_processes(home, "mine", table, linger=5)
    yield opened
    await opened.close()


@pytest.fixture
def token() -> Iterator[str]:
    made = kills.new_token(random.Random())
    yield made
    kills.end_holders(made)


async def start(
    processes: Processes, command: str, mode: str = "async", **how: Any
) -> WorkspaceProcess:
    given = {"cwd": Path("/"), "env": ENV, "mode": mode}
    return await processes.start(command, **given | how)


async def run(
    processes: Processes, command: str, timeout: float = 20, **how: Any
) -> WorkspaceProcess:
    on_timeout = how.pop("on_timeout", "kill")
    started = await start(processes, command, "sync", **how)
    return await processes.wait_or_kill(started, timeout, on_timeout)


def text(processes: Processes, process: WorkspaceProcess, stream: str = "stdout") -> str:
    return (processes.folder(process.id) / stream).read_text()


def alive(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}").exists()


# -- running ---------------------------------------------------------------------------------------


async def test_a_command_is_run_by_the_shell_and_waited_for(processes: Processes) -> None:
    done = await run(processes, "echo $((1+1)); echo bad >&2; pwd; exit 3", cwd=Path("/usr"))
    assert (done.status, done.code, done.signal, done.why) == ("failed", 3, None, None)
    assert text(processes, done) == "2\n/usr\n"
    assert text(processes, done, "stderr") == "bad\n"
    assert (done.stdout_bytes, done.stdout_kept, done.stderr_bytes) == (7, 7, 4)
    assert done.ended_at is not None
    assert done.began_at <= done.ended_at
    assert (await run(processes, "true")).status == "finished"
    assert (await run(processes, "kill -9 $$")).status == "killed"


async def test_its_folder_and_files_are_private_to_the_user(
    processes: Processes, home: Path
) -> None:
    done = await run(processes, "true")
    folder = processes.folder(done.id)
    assert folder == home / "processes" / "mine" / done.id
    modes = {path: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert {path.name: oct(mode) for path, mode in modes.items()} == {
        done.id: "0o700",
        "stdout": "0o600",
        "stderr": "0o600",
        "end": "0o600",
    }


async def test_it_gets_the_environment_that_is_given_and_no_other(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "of the server")
    done = await run(processes, "env", env={"ONE": "1", "PATH": ENV["PATH"]})
    names = {line.partition("=")[0] for line in text(processes, done).splitlines()}
    assert names - {"PWD", "SHLVL", "_"} == {"ONE", "PATH", "TILLERMAN_MARKER"}


async def test_it_is_recorded_before_its_id_is_returned(
    processes: Processes, home: Path, token: str
) -> None:
    process = await start(processes, f"sleep {token}")
    other = sqlite3.connect(f"file:{home}/store.db?mode=ro", uri=True)
    rows = other.execute("SELECT id, session, warden IS NOT NULL FROM processes").fetchall()
    other.close()
    assert rows == [(process.id, "mine", 1)]
    assert (process.status, alive(process.pid)) == ("running", True)


async def test_a_background_start_does_not_wait_for_the_command(
    processes: Processes, token: str
) -> None:
    first = await start(processes, f"sleep {token}", "background")
    second = await start(processes, f"sleep {token}")
    found = processes.list()
    assert [one.id for one in found] == [first.id, second.id]
    assert {one.status for one in found} == {"running"}
    assert [one.id for one in processes.list("running")] == [first.id, second.id]
    assert processes.list("finished") == []


async def test_past_its_timeout_the_whole_tree_is_killed(processes: Processes, token: str) -> None:
    done = await run(processes, f"echo up; setsid sleep {token} & sleep {token}", timeout=0.3)
    assert (done.status, done.signal, done.why) == ("killed", 9, "it took longer than 0.3 s")
    assert done.stdout_bytes == 3
    assert kills.wait_until_gone(token) == []


async def test_past_its_timeout_it_may_continue_in_the_background(
    processes: Processes, token: str
) -> None:
    going = await run(processes, "read x; echo $x", 0.2, on_timeout="background", stdin=True)
    assert (going.status, going.mode) == ("running", "background")
    await processes.write(going.id, b"late\n")
    done = await processes.wait(going.id, 20)
    assert (done.status, done.mode) == ("finished", "background")
    assert text(processes, done) == "late\n"


async def test_a_cancelled_call_leaves_no_process(processes: Processes, token: str) -> None:
    for pause in (0, 0.002, 0.01, 0.3):
        task = asyncio.create_task(run(processes, f"sleep {token}"))
        await asyncio.sleep(pause)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await processes.close()
    assert {one.status for one in processes.list()} <= {"killed"}
    assert kills.wait_until_gone(token) == []


async def test_no_more_than_twenty_run_at_once(processes: Processes, token: str) -> None:
    started = await asyncio.gather(
        *(start(processes, f"sleep {token}") for _ in range(MOST + 5)), return_exceptions=True
    )
    refused = [one for one in started if isinstance(one, Refused)]
    running = [one for one in started if isinstance(one, WorkspaceProcess)]
    assert (len(running), len(refused)) == (MOST, 5)
    assert refused[0].message == "20 processes of this session are already running"
    assert "kill_process" in refused[0].hint
    await processes.kill(running[0].id)
    assert (await start(processes, "true")).id


@pytest.mark.parametrize(
    ("command", "how", "words"),
    [
        ("true", {"cwd": Path("/no/such/folder")}, "/no/such/folder does not exist"),
        ("true", {"cwd": Path("/etc/passwd")}, "not a folder"),
        ("echo \0", {}, "NUL"),
        ("echo " + "x" * 200_000, {}, "too long to be started"),
        ("true", {"stdin": b"x" * (1 << 20) + b"x"}, "exceed the input limit"),
        ("x" * 3_000_000, {}, "too long to be started"),
    ],
)
async def test_a_command_that_cannot_start_is_refused_with_a_message(
    processes: Processes, command: str, how: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        await start(processes, command, **how)
    assert [one.status for one in processes.list()] in ([], ["failed"])
    assert (await run(processes, "true")).status == "finished"


async def test_the_level_of_isolation_applies(processes: Processes, home: Path) -> None:
    outside = home / "outside"
    done = await run(
        processes, f"echo in > inside; echo out > {outside}", cwd=home / "work", isolation="medium"
    )
    assert (done.status, outside.exists()) == ("failed", False)
    assert (home / "work/inside").read_text() == "in\n"
    assert not (processes.folder(done.id) / "scratch").exists()


async def test_a_command_that_cannot_read_the_key_cannot_come_back_to_the_warden(
    processes: Processes, home: Path
) -> None:
    """Otherwise it could have any program run unconfined."""
    assert (await run(processes, "true")).status == "finished"
    (folder,) = (home / "spawns").iterdir()
    for level, status in (("basic", "finished"), ("medium", "failed")):
        done = await run(processes, f"cat {folder}/key", isolation=level, cwd=home / "work")
        assert done.status == status


# -- looking ---------------------------------------------------------------------------------------


async def test_a_process_of_another_session_is_as_unknown_as_one_that_never_was(
    processes: Processes, home: Path, table: ProcessTable, token: str
) -> None:
    others = await open_processes(home, "others", table, linger=5)
    theirs = await start(others, f"sleep {token}")
    for unknown in (theirs.id, "p0000000000", "../mine", ""):
        for call in (
            processes.get(unknown),
            processes.wait(unknown, 1),
            processes.changed(unknown, 0, 1),
            processes.kill(unknown),
            processes.write(unknown, b"x"),
            processes.move_to_background(unknown),
        ):
            with pytest.raises(Refused) as caught:
                await call
            assert caught.value.message == UNKNOWN.format(unknown)
        with pytest.raises(Refused):
            processes.folder(unknown)
    assert processes.list() == []
    assert alive(theirs.pid)
    await others.close()


async def test_it_reports_how_much_was_written_while_it_runs(processes: Processes) -> None:
    process = await start(processes, "echo 12345; echo 1 >&2; sleep 60")
    grown = await processes.changed(process.id, 7, 10)
    assert (grown.stdout_bytes, grown.stderr_bytes, grown.status) == (6, 2, "running")
    found = await processes.get(process.id)
    assert (found.stdout_bytes, found.stdout_kept) == (6, 6)
    assert processes.list()[0].stdout_bytes == 6


async def test_waiting_returns_on_a_change_or_the_end(processes: Processes) -> None:
    process = await start(processes, "read a; echo $a; read b", stdin=True)
    still = await processes.changed(process.id, 0, 0.1)
    assert (still.status, still.stdout_bytes) == ("running", 0)
    waiting = asyncio.create_task(processes.changed(process.id, 0, 20))
    await processes.write(process.id, b"word\n")
    assert (await waiting).stdout_bytes == 5
    waiting = asyncio.create_task(processes.changed(process.id, 5, 20))
    await processes.write(process.id, b"", eof=True)
    assert (await waiting).status == "failed"
    assert (await processes.changed(process.id, 5, 20)).status == "failed"


async def test_waiting_costs_no_cpu(processes: Processes) -> None:
    """No polling: neither the warden nor the keeper runs while nothing happens."""
    process = await start(processes, "sleep 60")
    assert process.pid
    keeper = kills._parent(process.pid)
    those = (keeper, kills._parent(keeper))
    waiting = asyncio.create_task(processes.changed(process.id, 0, 30))
    await asyncio.sleep(0.3)
    before = [_switches(pid) for pid in those]
    await asyncio.sleep(1)
    assert [_switches(pid) for pid in those] == before
    assert not waiting.done()
    waiting.cancel()


def _switches(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt"))


# -- acting ----------------------------------------------------------------------------------------


async def test_a_signal_may_be_handled(processes: Processes) -> None:
    process = await start(
        processes, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep .01; done"
    )
    await processes.changed(process.id, 0, 10)
    done = await processes.kill(process.id, signal.SIGTERM)
    assert (done.status, done.code) == ("finished", 0)
    assert text(processes, done) == "up\nbye\n"
    assert await processes.kill(process.id) == done


async def test_no_number_but_a_signals_is_sent(processes: Processes) -> None:
    process = await start(processes, "sleep 60")
    for number in (0, -9, 4711):
        with pytest.raises(Refused, match="is not a signal"):
            await processes.kill(process.id, number)
    assert (await processes.get(process.id)).status == "running"


async def test_input_can_only_be_written_while_it_is_open(processes: Processes) -> None:
    shut = await start(processes, "sleep 60")
    with pytest.raises(Refused, match="is closed"):
        await processes.write(shut.id, b"x")
    done = await run(processes, "cat", stdin=b"given")
    with pytest.raises(Refused, match="is closed"):
        await processes.write(done.id, b"x")
    assert text(processes, done) == "given"
    deaf = await start(processes, "sleep 60", stdin=True)
    with pytest.raises(Refused, match="does not read its input"):
        await processes.write(deaf.id, b"x" * (3 << 20))


async def test_a_command_that_never_stops_writing_fills_no_memory_and_no_disk(
    home: Path, table: ProcessTable
) -> None:
    processes = await open_processes(home, "mine", table, cap=1 << 20)
    before = _memory()
    done = await run(processes, "head -c 300000000 /dev/zero")
    assert (done.stdout_bytes, done.stdout_kept) == (300_000_000, 1 << 20)
    assert (processes.folder(done.id) / "stdout").stat().st_size < (1 << 20) + 200
    assert _memory() - before < 16 << 20
    await processes.close()


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_when_the_session_ends_everything_ends(
    home: Path, table: ProcessTable, token: str
) -> None:
    processes = await open_processes(home, "mine", table, linger=60)
    for mode in ("async", "background"):
        await start(processes, f"setsid sleep {token} & sleep {token}", mode)
    await processes.close()
    assert kills.wait_until_gone(token) == []
    assert {(one.status, one.why) for one in table.list()} == {("killed", "the session ended")}
    with pytest.raises(Refused, match="the session has ended"):
        await start(processes, "true")
    assert list((home / "spawns").iterdir()) == []


async def test_after_its_warden_was_killed_the_next_command_has_another(
    processes: Processes, token: str
) -> None:
    process = await start(processes, f"sleep {token}", "background")
    assert process.pid
    os.kill(kills._parent(kills._parent(process.pid)), signal.SIGKILL)
    done = await processes.wait(process.id, 20)
    assert (done.status, done.signal, done.why) == ("killed", 9, "its warden was killed")
    assert kills.wait_until_gone(token) == []
    assert (await run(processes, "true")).status == "finished"


# -- restarts --------------------------------------------------------------------------------------


async def test_a_server_that_stops_leaves_background_processes_running(
    home: Path, table: ProcessTable, token: str
) -> None:
    first = await open_processes(home, "mine", table, linger=20)
    lasting = await start(
        first, f"echo up; read x; echo $x; sleep {token}", "background", stdin=True
    )
    brief = await start(first, f"sleep {token}")
    await first.release()
    await asyncio.sleep(0.2)
    assert (alive(lasting.pid), alive(brief.pid)) == (True, False)
    second = await open_processes(home, "mine", table, linger=20)
    found = {one.id: one for one in second.list()}
    assert found[brief.id].status == "killed"
    assert found[brief.id].why == "its server ended"
    assert found[lasting.id].status == "running"
    assert found[lasting.id].pid == lasting.pid
    await second.write(lasting.id, b"again\n")
    assert (await second.changed(lasting.id, 3, 10)).stdout_bytes == 9
    done = await second.kill(lasting.id)
    assert (done.status, done.why) == ("killed", "it was killed on request")
    assert text(second, done) == "up\nagain\n"
    await second.close()


def test_a_killed_server_finds_its_background_processes_again(
    home: Path, token: str, table: ProcessTable
) -> None:
    first = Server(home, ["a", "b"], linger=20)
    lasting = [first.start(name, f"echo {name}; sleep {token}") for name in ("a", "b", "a")]
    brief = first.start("a", f"sleep {token}", "async")
    quick = first.start("a", "sleep 0.5; exit 7")
    first.kill()
    time.sleep(1)
    assert [alive(one["pid"]) for one in (*lasting, brief)] == [True, True, True, False]
    second = Server(home, ["a", "b"], linger=20)
    rows = {one["id"]: one for one in second.ask("a", "list") + second.ask("b", "list")}
    assert rows.keys() == {one["id"] for one in (*lasting, brief, quick)}
    assert [rows[one["id"]]["status"] for one in lasting] == ["running"] * 3
    assert [rows[one["id"]]["pid"] for one in lasting] == [one["pid"] for one in lasting]
    assert (rows[brief["id"]]["status"], rows[brief["id"]]["why"]) == ("killed", "its server ended")
    assert (rows[quick["id"]]["status"], rows[quick["id"]]["code"]) == ("failed", 7)
    second.stop("close")
    assert kills.wait_until_gone(token) == []
    assert {one.status for one in table.list()} == {"killed", "failed"}


def test_processes_without_a_returning_server_end_with_their_lease(
    home: Path, token: str, table: ProcessTable
) -> None:
    first = Server(home, ["a"], linger=0.5)
    process = first.start("a", f"sleep {token}")
    first.kill()
    assert kills.wait_until_gone(token, within=2.5) == []
    second = Server(home, ["another"])
    assert second.ask("another", "list") == []
    (row,) = table.list()
    assert row.id == process["id"]
    assert (row.status, row.why) == ("killed", "no server reclaimed it in time")
    second.stop("close")


def test_a_process_running_when_all_were_killed_is_lost_and_reported(
    home: Path, token: str, table: ProcessTable
) -> None:
    first = Server(home, ["a"], linger=20)
    process = first.start("a", f"echo x; sleep {token}")
    keeper = kills._parent(process["pid"])
    those = (keeper, kills._parent(keeper), first.process.pid)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in those:
            os.kill(pid, number)
    first.close()
    second = Server(home, ["a"])
    (row,) = second.ask("a", "list")
    assert (row["id"], row["status"]) == (process["id"], "lost")
    assert kills.wait_until_gone(token) == []
    second.stop("close")


async def test_a_row_of_another_boot_is_lost(home: Path, table: ProcessTable) -> None:
    row = WorkspaceProcess(
        id="p1",
        session="mine",
        command="x",
        cwd="/",
        mode="background",
        isolation="basic",
        status="running",
        pid=os.getpid(),
        started="1",
        boot="another",
        began_at="2026-01-01T00:00:00Z",
        warden="gone",
    )
    table.add(row).result(10)
    processes = await open_processes(home, "mine", table)
    (found,) = processes.list()
    assert (found.status, found.why) == ("lost", "the machine was restarted")
    await processes.close()


async def test_processes_owned_by_another_server_are_left(
    processes: Processes, home: Path, table: ProcessTable, token: str
) -> None:
    process = await start(processes, f"sleep {token}", "background")
    await resolve_all_lost(table, home / "processes", home / "spawns")
    found = table.get(process.id)
    assert found
    assert (found.live, alive(process.pid)) == (True, True)


async def test_a_process_that_was_never_reported_is_ended(
    home: Path, table: ProcessTable, token: str
) -> None:
    """Its server was killed before it was recorded."""
    first = await open_processes(home, "mine", table, linger=20)
    reported = await start(first, f"sleep {token}", "background")
    unreported = await start(first, f"sleep {token}", "background")
    table.remove([unreported.id]).result(10)
    await first.release()
    second = await open_processes(home, "mine", table, linger=20)
    assert [one.id for one in second.list("running")] == [reported.id]
    assert (alive(reported.pid), alive(unreported.pid)) == (True, False)
    await second.close()


async def test_another_process_can_kill_one(
    processes: Processes, home: Path, table: ProcessTable, token: str
) -> None:
    process = await start(processes, f"sleep {token}")
    row = table.get(process.id)
    assert row
    assert row.warden
    assert await foreign_warden.kill(home / "spawns" / row.warden, process.id)
    assert (await processes.wait(process.id, 10)).status == "killed"


# -- a day later -----------------------------------------------------------------------------------


async def test_a_day_after_its_end_a_process_is_removed_with_its_output(
    processes: Processes, home: Path, table: ProcessTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = await run(processes, "echo old"), await run(processes, "echo new")
    runs = await start(processes, "sleep 60")
    ago = rfc3339(datetime.now(UTC) - timedelta(hours=24, seconds=1))
    database = table._database
    database.write(
        lambda connection: connection.execute(
            "UPDATE processes SET ended_at = ?, began_at = ? WHERE id = ?", (ago, ago, old.id)
        ).fetchall()
    ).result(10)
    await expire(table, home / "processes")
    assert {one.id for one in table.list()} == {new.id, runs.id}
    there = {path.name for path in (home / "processes/mine").iterdir()}
    assert old.id not in there and there >= {new.id, runs.id}


async def test_a_folder_without_a_row_is_removed_after_a_day(
    processes: Processes, home: Path, table: ProcessTable
) -> None:
    done = await run(processes, "true")
    async with asyncio.timeout(10):
        while table.get(done.id) is None:  # noqa: ASYNC110 - recorded by the store's thread
            await asyncio.sleep(0.01)
    old, new = home / "processes/other/p1", home / "processes/other/p2"
    for folder in (old, new):
        folder.mkdir(parents=True)
    for folder in (old, processes.folder(done.id)):
        os.utime(folder, (1, 1))
    await expire(table, home / "processes")
    assert [folder.exists() for folder in (old, new, processes.folder(done.id))] == [0, 1, 1]


async def test_a_deleted_session_removes_all_of_it(
    home: Path, table: ProcessTable, token: str
) -> None:
    first = await open_processes(home, "mine", table, linger=20)
    await start(first, f"setsid sleep {token} & sleep {token}", "background")
    await run(first, "echo done")
    await first.release()
    await forget("mine", table, home / "processes", home / "spawns")
    assert kills.wait_until_gone(token, within=0) == []
    assert (table.list(), (home / "processes/mine").exists()) == ([], False)
    assert list((home / "spawns").iterdir()) == []
