"""Protected names together with background processes, restarts, clients and files."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.mcp.http_desk import SERVE, client, opened, shut
from tests.mcp.mcp_desk import Machine, started, text, until
from tests.mcp.pairs_desk import answer, make_tar, names

pytestmark = pytest.mark.timeout(120)

WRITER = "while :; do echo evil > .envrc; mkdir -p .idea; echo evil > .idea/x; sleep 0.05; done"


def test_a_background_process_that_writes_protected_names_again_and_again_is_undone(
    machine: Machine,
) -> None:
    (machine.project / "writer").write_text(WRITER)
    wire = machine.greeted("--approve", "auto")
    process = started(wire, "sh writer")
    until(lambda: names(machine.project) & {".envrc", ".idea"})
    until(lambda: names(machine.project) == {"writer"})
    wire.call("kill_process", process_id=process)
    until(lambda: names(machine.project) == {"writer"})
    assert machine.json("protected", "list", "--json")


def test_what_a_process_wrote_while_there_was_no_server_is_undone_by_the_next(
    machine: Machine,
) -> None:
    (machine.project / ".envrc").write_text("good\n")
    (machine.project / "late").write_text(
        "until [ -e go ]; do sleep 0.05; done\n"
        "echo evil > .envrc; mkdir .idea; touch done; sleep 60"
    )
    wire = machine.greeted("--approve", "auto")
    started(wire, "sh late")
    wire.process.send_signal(signal.SIGKILL)
    wire.wait()
    (machine.project / "go").touch()
    until((machine.project / "done").exists)
    machine.greeted("--approve", "auto")
    until(lambda: names(machine.project) == {".envrc", "late", "go", "done"})
    until(lambda: (machine.project / ".envrc").read_text() == "good\n")


async def test_protected_names_that_two_clients_write_at_once_are_undone(machine: Machine) -> None:
    (machine.project / ".envrc").write_text("good\n")
    (machine.project / "write").write_text("echo evil > .envrc; echo evil > .env.$1; echo wrote")
    door = opened(machine.start(*SERVE, stdin=False))
    async with client(door) as one, client(door, "legacy") as other:
        calls = [
            made.call_tool("execute_shell", {"command": f"sh write {number}"})
            for number, made in enumerate([one, other] * 4)
        ]
        results: list[Any] = await asyncio.gather(*calls)
    assert all("wrote" in str(result.content) for result in results)
    assert names(machine.project) == {".envrc", "write"}
    assert (machine.project / ".envrc").read_text() == "good\n"
    shut(door)


def test_an_archive_with_protected_names_is_refused_and_nothing_of_it_is_unpacked(
    machine: Machine,
) -> None:
    protected = [".env", ".git/hooks/pre-commit", ".vscode/tasks.json", ".mcp.json"]
    files = dict.fromkeys(protected, b"evil\n") | {"fine.txt": b"fine\n"}
    source = make_tar(machine.folder / "in.tgz", files)
    wire = machine.greeted("--approve", "auto")
    result = wire.call("import_file", source=str(source), path=".", unpack=True)
    assert "unpack it without that file" in text(result)
    assert [path for path in files if (machine.project / path).exists()] == []


@pytest.mark.parametrize("how", ["auto", "watch"])
def test_a_protected_file_too_large_to_copy_is_unchanged_or_reported(
    machine: Machine, how: str
) -> None:
    """If it is mounted read-only its size does not matter; if it is watched it does."""
    machine.tillerman.mkdir(exist_ok=True)
    (machine.tillerman / "config.toml").write_text(f'[enforcement]\nprotected = "{how}"\n')
    (machine.project / ".envrc").write_bytes(b"x" * (2 << 20))
    (machine.project / "change").write_text("echo evil > .envrc")
    wire = machine.greeted("--approve", "auto")
    result = wire.call("execute_shell", command="sh change")
    is_unchanged = (machine.project / ".envrc").stat().st_size == 2 << 20
    is_reported = ".envrc" in text(result) and "too large" in text(result)
    assert is_reported is not is_unchanged, text(result)
    assert is_reported or how == "auto", text(result)


def test_a_command_that_was_approved_does_not_keep_a_protected_name_either(
    machine: Machine,
) -> None:
    (machine.project / "make").write_text("echo evil > .envrc; touch made")
    wire = machine.greeted("--approve", "ask", "--request-timeout", "60")
    call = wire.begin("execute_shell", command="sh make")
    answer(machine)
    result = wire.called(call)
    assert ".envrc" in text(result)
    assert names(machine.project) == {"make", "made"}
