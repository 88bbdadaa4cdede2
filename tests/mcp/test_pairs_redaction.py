"""Redaction together with each other feature of the workspace."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.mcp.http_desk import SERVE, client, opened, shut
from tests.mcp.mcp_desk import Machine, started, text, until
from tests.mcp.pairs_desk import (
    LEVELS,
    SECRET,
    answer,
    assert_hidden,
    exported,
    isolated,
    log_text,
    make_tar,
    zipped,
)

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("level", LEVELS)
def test_a_secret_that_an_isolated_command_prints_is_redacted(machine: Machine, level: str) -> None:
    (machine.project / "key").write_text(SECRET)
    result = isolated(machine, level).call("execute_shell", command="cat key; cat key >&2; exit 3")
    assert "[secret" in text(result)
    assert_hidden(result)
    assert_hidden(log_text(machine))


def test_a_protected_file_is_restored_with_its_secret_and_the_report_has_none(
    machine: Machine,
) -> None:
    (machine.project / ".env").write_text(f"KEY={SECRET}\n")
    (machine.project / "change").write_text(f"mv .env old; echo KEY=x{SECRET} > .env; cat .env")
    wire = machine.greeted("--approve", "auto")
    result = wire.call("execute_shell", command="sh change")
    assert (machine.project / ".env").read_text() == f"KEY={SECRET}\n"
    assert_hidden(result)
    assert_hidden(log_text(machine))


WAYS_TO_REPLACE = {
    "renamed over": 'printf %s "$new" > draft; mv draft .env',
    "truncated and written": 'printf %s "$new" > .env',
    "appended to": 'printf %s "$new" >> .env',
    "swapped for a link": 'printf %s "$new" > draft; ln -s draft link; mv link .env',
    "removed and created": 'rm -f .env; printf %s "$new" > .env',
    "moved away and created": 'mv .env old; printf %s "$new" > .env; cat old',
    "edited while a command runs": '(sleep 0.1; printf %s "$new" > .env) & sleep 0.2; wait',
}
AROUND = ("x", "Z", "9", "_", "-", "m", "\x1b[31m", "%3D", "é", "\\n", "=", " ", "'")


@pytest.mark.parametrize("way", WAYS_TO_REPLACE)
def test_a_replaced_secrets_file_shows_no_secret_in_any_context(machine: Machine, way: str) -> None:
    """Without mounts the new content exists until it is restored, and may be read."""
    (machine.project / ".env").write_text(f"KEY={SECRET}\n")
    for number, around in enumerate(AROUND):
        (machine.project / f"new-{number}").write_text(f"KEY={around}{SECRET}{around}\n")
    (machine.project / "change").write_text(
        f'for one in new-*; do new="$(cat $one)"; {WAYS_TO_REPLACE[way]}; cat .env; rm -f link;'
        " cat $one; cat $one >&2; cp $one not-protected; done; true"
    )
    wire = machine.greeted("--approve", "auto")
    result = wire.call("execute_shell", command="sh change")
    assert "[secret:github-token]" in text(result)
    assert_hidden(result)
    assert_hidden(wire.call("read_file", path="not-protected"))
    assert_hidden(wire.call("read_file", path=".env"))
    assert_hidden(log_text(machine))
    assert (machine.project / ".env").read_text() == f"KEY={SECRET}\n"


def test_a_secret_that_a_background_process_writes_in_two_parts_is_redacted(
    machine: Machine,
) -> None:
    (machine.project / "talk").write_text(
        f"printf %s {SECRET[:20]}; sleep 0.3; echo {SECRET[20:]}; exec sleep 60"
    )
    wire = machine.greeted("--approve", "auto")
    process = started(wire, "sh talk")
    [file] = (machine.tillerman / "state/processes").glob(f"*/{process}/stdout")
    until(lambda: SECRET in file.read_text())  # the file has what was written
    tail = {"src": "stdout", "n": 5}
    messages = [
        wire.call("poll_process", process_id=process, tail=tail),
        wire.call("read_process_output", process_id=process),
        wire.call("search_process_output", process_id=process, pattern="ghp"),
        wire.ask("resources/read", {"uri": f"tillerman://processes/{process}/stdout"}),
        wire.call("list_processes"),
    ]
    assert_hidden(messages)


def test_a_secret_of_a_process_that_is_found_again_stays_redacted(machine: Machine) -> None:
    (machine.project / "key").write_text(SECRET)
    wire = machine.greeted("--approve", "auto")
    process = started(wire, "cat key; echo; exec sleep 60")
    wire.process.send_signal(signal.SIGKILL)
    wire.wait()
    again = machine.greeted("--approve", "auto")
    result = again.call("read_process_output", process_id=process)
    assert "[secret" in text(result)
    assert_hidden(result)


async def test_a_secret_is_redacted_for_every_client_over_http(machine: Machine) -> None:
    (machine.project / "key").write_text(SECRET)
    door = opened(machine.start(*SERVE, stdin=False))
    async with client(door) as modern, client(door, "legacy") as legacy:
        for made in (modern, legacy):
            began: Any = await made.call_tool(
                "execute_shell", {"command": "cat key", "run_mode": "async"}
            )
            process = began.meta["tillerman/result"]["process_id"]
            await made.call_tool("poll_process", {"process_id": process, "wait_ms": 5000})
            page = await made.call_tool("read_process_output", {"process_id": process})
            whole = await made.read_resource(f"tillerman://processes/{process}/stdout")
            assert "[secret" in str(page) and "[secret" in str(whole)
            assert_hidden(str(page) + str(whole))
    shut(door)


def test_a_secret_in_an_archive_is_written_and_packed_as_it_is_and_shown_redacted(
    machine: Machine,
) -> None:
    source = make_tar(machine.folder / "in.tgz", {"in/key.txt": f"KEY={SECRET}\n".encode()})
    wire = machine.greeted("--approve", "auto")
    result = wire.call("import_file", source=str(source), path="box", unpack=True)
    assert not result["isError"], text(result)
    shown = wire.call("read_file", path="box/in/key.txt")
    assert "[secret" in text(shown)
    assert_hidden(shown)
    packed = wire.call("export_zip", paths=["box"])
    assert_hidden(packed)
    assert zipped(exported(packed)) == {"box/in/key.txt": f"KEY={SECRET}\n".encode()}


@pytest.mark.parametrize("at", [11_990, 12_000 - len(SECRET), 11_975])
def test_a_secret_where_a_large_output_is_cut_is_not_shown_in_part(
    machine: Machine, at: int
) -> None:
    """Both ends of an output are shown, and the cut is within the secret."""
    (machine.project / "large").write_bytes(
        b"x" * (at - 1) + b" " + SECRET.encode() + b" " + b"y" * 100_000
    )
    wire = machine.greeted("--approve", "auto")
    assert_hidden(wire.call("execute_shell", command="cat large"))
    (machine.project / "large").write_bytes(
        b"y" * 100_000 + b" " + SECRET.encode() + b" " + b"x" * (18_000 - (12_000 - at))
    )
    assert_hidden(wire.call("execute_shell", command="cat large"))
    assert_hidden(log_text(machine))


def test_a_secret_in_a_command_that_waits_for_approval_is_not_shown_to_anybody(
    machine: Machine,
) -> None:
    wire = machine.greeted("--approve", "ask", "--request-timeout", "60")
    call = wire.begin("execute_shell", command=f"touch made; echo {SECRET}")
    request = answer(machine)
    assert_hidden(request)
    result = wire.called(call)
    assert not result["isError"] and (machine.project / "made").exists()
    assert_hidden(result)
    assert_hidden(log_text(machine))
