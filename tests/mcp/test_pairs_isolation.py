"""Isolation together with each other feature of the workspace."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.mcp.http_desk import SERVE, client, opened, shut
from tests.mcp.mcp_desk import Machine, pid_of, started, text, tree, until
from tests.mcp.pairs_desk import (
    LEVELS,
    answer,
    digest,
    exported,
    isolated,
    make_tar,
    names,
    waiting,
    zipped,
)

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("level", LEVELS)
def test_a_protected_name_is_as_it_was_after_an_isolated_command(
    machine: Machine, level: str
) -> None:
    (machine.project / ".vscode").mkdir()
    (machine.project / ".vscode/tasks.json").write_text("{}")
    (machine.project / "change").write_text(
        "echo evil > .vscode/tasks.json; mv .vscode moved; rm -rf .vscode; mkdir .idea; : > .envrc"
    )
    wire = isolated(machine, level)
    wire.call("execute_shell", command="sh change")
    assert names(machine.project) - {"moved", "moved/tasks.json"} == {
        ".vscode", ".vscode/tasks.json", "change"
    }  # fmt: skip
    assert (machine.project / ".vscode/tasks.json").read_text() == "{}"


@pytest.mark.parametrize("level", LEVELS)
def test_an_isolated_background_process_ends_with_all_that_it_started(
    machine: Machine, level: str
) -> None:
    wire = isolated(machine, level)
    command = "for i in 1 2 3; do (setsid sleep 74.611 &) ; done; sleep 74.611"
    process = started(wire, command)
    until(lambda: len(tree("sleep\x0074.611")) == 4)
    wire.call("kill_process", process_id=process)
    until(lambda: not tree("sleep\x0074.611"))


@pytest.mark.parametrize("level", LEVELS)
def test_an_isolated_process_is_found_again_and_its_home_is_removed_at_the_end(
    machine: Machine, level: str
) -> None:
    wire = isolated(machine, level)
    (machine.project / "work").write_text("echo x > ~/mine; echo ready; exec sleep 60")
    process = started(wire, "sh work")
    until(lambda: "ready" in text(wire.call("read_process_output", process_id=process)))
    wire.process.send_signal(signal.SIGKILL)
    wire.wait()
    again = machine.greeted("--approve", "auto", "--isolation", level)
    assert "running" in text(again.call("poll_process", process_id=process))
    again.call("kill_process", process_id=process)
    assert [*machine.tillerman.rglob("mine")] == []


async def test_an_isolated_command_of_one_client_has_no_files_of_anothers_home(
    machine: Machine,
) -> None:
    door = opened(machine.start(*SERVE, "--isolation", "medium", stdin=False))
    async with client(door, "legacy") as one, client(door, "legacy") as other:
        (machine.project / "work").write_text(
            "echo mine > ~/private; echo ours > shared; echo $HOME; exec sleep 60"
        )
        began: Any = await one.call_tool(
            "execute_shell", {"command": "sh work", "run_mode": "background"}
        )
        process = began.meta["tillerman/result"]["process_id"]
        while True:
            page: Any = await one.call_tool("read_process_output", {"process_id": process})
            if lines := page.meta["tillerman/result"]["lines"]:
                break
        (machine.project / "look").write_text(f"cat shared ~/private {lines[0]}/private")
        seen: Any = await other.call_tool("execute_shell", {"command": "sh look"})
        assert "ours" in str(seen.content) and "mine" not in str(seen.content)
        await one.call_tool("kill_process", {"process_id": process})
    shut(door)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_unpacked_is_visible_to_an_isolated_command_and_what_it_makes_can_be_packed(
    machine: Machine, level: str
) -> None:
    source = make_tar(machine.folder / "in.tgz", {"a.txt": b"a\n", "deep/b.txt": b"b\n"})
    machine.greeted("--approve", "auto").call(  # at basic: other levels close what is outside
        "import_file", source=str(source), path="box", unpack=True
    )
    wire = isolated(machine, level)
    made = "cat box/a.txt box/deep/b.txt > box/c.txt && chmod 600 box/c.txt"
    assert not wire.call("execute_shell", command=made)["isError"]
    assert zipped(exported(wire.call("export_zip", paths=["box"]))) == {
        "box/a.txt": b"a\n", "box/deep/b.txt": b"b\n", "box/c.txt": b"a\nb\n"
    }  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_a_large_file_of_an_isolated_command_is_complete(machine: Machine, level: str) -> None:
    wire = isolated(machine, level)
    made = "head -c 20000000 /dev/urandom > large && sha256sum large && cat large | wc -c"
    result = wire.call("execute_shell", command=made, timeout=60)
    assert digest(machine.project / "large") in text(result) and "20000000" in text(result)
    copy = exported(wire.call("export_file", path="large"))
    assert digest(machine.project / "large") == digest(type(machine.project)(copy))


@pytest.mark.parametrize("level", LEVELS)
def test_a_command_that_waited_for_approval_runs_at_its_level_and_leaves_nothing_before(
    machine: Machine, level: str
) -> None:
    isolated(machine, level).end()
    wire = machine.greeted("--approve", "ask", "--isolation", level, "--request-timeout", "60")
    secret = machine.folder / "outside"
    secret.write_text("untold")
    call = wire.begin("execute_shell", command=f"touch made; cat {secret}")
    waiting(machine)
    assert names(machine.project) == set()
    answer(machine)
    result = wire.called(call)
    assert "untold" not in text(result) and '`isolation = "basic"`' in text(result)
    assert names(machine.project) == {"made"}


def test_a_kill_of_the_whole_server_ends_an_isolated_command_that_was_waited_for(
    machine: Machine,
) -> None:
    wire = isolated(machine, "medium")
    wire.begin("execute_shell", command="exec sleep 74.612", timeout=60)
    [pid] = until(lambda: tree("sleep\x0074.612"))
    assert pid != pid_of(wire.call("execute_shell", command="true"))
    os.kill(wire.process.pid, signal.SIGKILL)
    until(lambda: not tree("sleep\x0074.612"))
