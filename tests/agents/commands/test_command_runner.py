"""An agent's own commands, run to their end as real processes: bounded in time and output."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tillerman.agents.commands import locate
from tillerman.agents.commands.runner import MOST_OUTPUT, CommandRunner, SecretInArguments
from tillerman.agents.jsonrpc.peer import RpcPeer
from tillerman.agents.jsonrpc.sequential_requests import RpcRefused, call
from tillerman.core.agent import AgentInfo, Exit, SecretFile
from tillerman.core.agent_admin import CommandResult, Dialog, Installed
from tillerman.core.errors import AgentError, AgentNotInstalled

INFO = AgentInfo("acme", "Acme", binary="acme", install="pip install acme")


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[CommandRunner]:
    async with agent_commands(tmp_path) as running:
        yield running


def agent_commands(folder: Path, **more: object) -> CommandRunner:
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "ACME_KEY": "k"}
    marker = f"errands-{os.urandom(4).hex()}"
    return CommandRunner(
        environment, agent="acme", cwd=folder, records=folder / "records", marker=marker, **more  # type: ignore[arg-type]
    )  # fmt: skip


def program(folder: Path, body: str) -> str:
    path = folder / "acme"
    path.write_text(f"#!{sys.executable} -I\nimport json, os, sys, time\n{body}")
    path.chmod(0o755)
    return str(path)


async def test_a_command_gets_its_arguments_its_input_and_its_environment(
    run: CommandRunner, tmp_path: Path
) -> None:
    body = "print(sys.argv[1:], sys.stdin.read(), os.environ['ACME_KEY'], os.environ['MORE'])"
    path = program(tmp_path, body + "; print('e', file=sys.stderr); sys.exit(3)")
    ran = await run([path, "a b"], env={"MORE": "m"}, input=b"words")
    assert ran == CommandResult(Exit(3, None), b"['a b'] words k m\n", b"e\n")
    assert (run.variable("ACME_KEY"), run.variable("HOME")) == ("k", None)


async def test_a_command_that_does_not_exit_is_killed_with_its_tree(
    run: CommandRunner, tmp_path: Path
) -> None:
    path = program(tmp_path, "print('x', flush=True); os.system('sleep 6017 & sleep 6017')")
    start = time.monotonic()
    ran = await run([path], limit=1)
    assert ran == CommandResult(Exit(124, None), b"x\n", b"")
    assert time.monotonic() - start < 10
    assert not await _running("sleep 6017")


async def test_a_flood_of_output_is_read_and_its_beginning_stored(
    run: CommandRunner, tmp_path: Path
) -> None:
    path = program(tmp_path, "sys.stdout.write('x' * 20_000_000)")
    ran = await run([path])
    assert (ran.exit, len(ran.stdout)) == (Exit(0, None), MOST_OUTPUT)


async def test_many_run_at_the_same_time(run: CommandRunner, tmp_path: Path) -> None:
    path = program(tmp_path, "time.sleep(0.5); print(sys.argv[1])")
    start = time.monotonic()
    ran = await asyncio.gather(*(run([path, str(number)]) for number in range(8)))
    assert [one.stdout for one in ran] == [f"{number}\n".encode() for number in range(8)]
    assert time.monotonic() - start < 4


async def test_a_command_that_cannot_run_is_an_error_that_names_it(
    run: CommandRunner, tmp_path: Path
) -> None:
    broken = tmp_path / "acme"
    broken.write_bytes(b"\x7fELF no program")
    broken.chmod(0o755)
    with pytest.raises(AgentError, match=f"{broken} cannot be run: Exec format error"):
        await run([str(broken)])


async def test_a_secret_value_is_on_no_command_line(tmp_path: Path) -> None:
    path = program(tmp_path, "print(open(sys.argv[1][7:]).read())")
    async with agent_commands(tmp_path, private=[("TOKEN", "s3cret")]) as run:
        with pytest.raises(SecretInArguments, match="the value of TOKEN"):
            await run([path, '{"env": {"TOKEN": "s3cret"}}'])
        ran = await run([path, SecretFile("--file=", b"s3cret")])
    assert ran.stdout == b"s3cret\n"


# -- reading what they say -------------------------------------------------------------------------


async def test_a_version_is_found_in_any_output(run: CommandRunner, tmp_path: Path) -> None:
    install = "pip install acme"
    assert await locate.installed(run, INFO) == Installed("acme", None, None, install)
    for reported, version in {
        "acme-cli 1.22.3-beta.4+7 (Acme)": "1.22.3-beta.4+7",
        "\\x1b[1mv0.9\\x1b[0m": "0.9",
        "soon": None,
    }.items():
        path = program(tmp_path, f"print('{reported}')")
        assert await locate.installed(run, INFO) == Installed("acme", path, version, install)


async def test_a_command_that_fails_is_an_error_with_its_last_output(
    run: CommandRunner, tmp_path: Path
) -> None:
    with pytest.raises(AgentNotInstalled, match="no `acme` on PATH"):
        await locate.output(run, INFO, ["mcp", "list"])
    program(tmp_path, "print('ok') if 'fine' in sys.argv else sys.exit('\\x1b[31mno such server')")
    assert await locate.output(run, INFO, ["mcp", "fine"]) == b"ok\n"
    with pytest.raises(AgentError, match=r"(?m)^`acme mcp remove` failed: no such server$"):
        await locate.output(run, INFO, ["mcp", "remove", "x"])
    program(tmp_path, "time.sleep(600)")
    with pytest.raises(AgentError, match=r"(?m)^`acme mcp list` did not end in time$"):
        await locate.output(run, INFO, ["mcp", "list"], limit=0.5)


# -- dialogs ---------------------------------------------------------------------------------------

SERVER = """
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "hello":
        print(json.dumps({"method": "news", "params": {}}))
        print("no JSON at all")
        print(json.dumps({"id": "q1", "method": "fs/read", "params": {}}), flush=True)
    elif message.get("id") == "q1":
        declined = message["error"]["code"]
        print(json.dumps({"id": 0, "result": {"declined": declined}}), flush=True)
    elif message.get("method") == "list":
        print(json.dumps({"id": 1, "result": [1, 2]}), flush=True)
    elif message.get("method") == "refuse":
        error = {"code": -32000, "message": "sign in first"}
        print(json.dumps({"id": 0, "error": error}), flush=True)
time.sleep(600)
"""


def listing() -> Dialog[tuple[object, object]]:
    peer = RpcPeer(version=False)
    hello = yield from call(peer, "hello", {})
    listed = yield from call(peer, "list", {}, after=[peer.notify("ready")])
    return hello, listed


async def test_a_dialog_asks_step_by_step_and_ends_the_program(
    run: CommandRunner, tmp_path: Path
) -> None:
    path = program(tmp_path, SERVER)
    start = time.monotonic()
    assert await run.dialog([path], listing()) == ({"declined": -32601}, [1, 2])
    assert time.monotonic() - start < 10
    assert not await _running(path)


async def test_a_refusal_of_the_agent_is_an_error_with_its_code(
    run: CommandRunner, tmp_path: Path
) -> None:
    path = program(tmp_path, SERVER)
    with pytest.raises(RpcRefused, match="the agent rejected 'refuse': sign in first") as caught:
        await run.dialog([path], call(RpcPeer(), "refuse", {}))
    assert caught.value.error.code == -32000


async def test_a_dialog_with_a_program_that_ends_early_is_an_error(
    run: CommandRunner, tmp_path: Path
) -> None:
    path = program(tmp_path, "print('{}'); print('no licence', file=sys.stderr)")
    with pytest.raises(AgentError, match=r"(?m)^`acme` exited before it answered: no licence$"):
        await run.dialog([path], listing())
    path = program(tmp_path, "time.sleep(600)")
    with pytest.raises(AgentError, match=r"(?m)^`acme` did not answer within 0\.5 s$"):
        await run.dialog([path], listing(), limit=0.5)


async def _running(words: str) -> bool:
    """Whether a process with these arguments still exists shortly after it should have ended."""
    for _ in range(100):
        lines = [
            file.read_bytes().replace(b"\0", b" ")
            for folder in Path("/proc").glob("[0-9]*")
            if (file := folder / "cmdline").exists()
        ]
        if not any(words.encode() in line for line in lines):
            return False
        await asyncio.sleep(0.05)
    return True
