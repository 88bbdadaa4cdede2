"""MCP servers of the real Claude Code, and results over the size limit."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.real.claude_desk import ClaudeDesk, ends, finished, of, run, shown, started
from tillerman.core.events import PermissionRequested, Text, ToolFinished, TurnEnded
from tillerman.testing.model_double.anthropic import tool_results
from tillerman.testing.model_double.script import ModelToolCall, Say, reply

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

TINY = {
    "tiny": {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}
}
TEN_MB = 10_000_000


def flood(size: int) -> list[object]:
    return [
        reply(ModelToolCall("mcp__tiny__flood", {"size": size}, id="toolu_flood")),
        reply(Say("That was much.")),
    ]


async def test_a_server_given_to_the_session_is_called_and_its_calls_are_decided(
    desk: ClaudeDesk,
) -> None:
    desk.double.scenarios["mcp"] = [
        reply(ModelToolCall("mcp__tiny__shout", {"text": "hi"}, id="toolu_shout")),
        reply(Say("Loud.")),
    ]
    session = await desk.start(servers=TINY)

    log = await run(session, "@@mcp@@")

    call = started(log, "toolu_shout")
    assert (call.tool, call.name, call.title) == ("MCP", "mcp__tiny__shout", "MCP `tiny.shout`")
    assert [event.tool for event in of(log, PermissionRequested)] == ["MCP"]
    assert finished(log, "toolu_shout") == ToolFinished(
        call_id="toolu_shout", outcome="completed", content=(Text("HI"),)
    )
    assert tool_results(desk.double.turns[1].body) == {"toolu_shout": "HI"}


async def test_ten_megabytes_from_a_tool_are_stored_by_the_cli(desk: ClaudeDesk) -> None:
    desk.double.scenarios["flood"] = flood(TEN_MB)
    session = await desk.start(servers=TINY)

    log = await run(session, "@@flood@@")

    result = finished(log, "toolu_flood")
    assert len(shown(result)) < 5_000
    stored = re.search(r"saved to (\S+\.txt)", shown(result))
    assert stored
    assert Path(stored[1]).stat().st_size == TEN_MB
    assert ends(log) == [TurnEnded(reason="completed")]
    assert session.result().text == "That was much."


async def test_ten_megabytes_that_the_cli_passes_on_stay_within_the_caps(
    desk: ClaudeDesk,
) -> None:
    desk.double.scenarios["flood"] = flood(TEN_MB)
    session = await desk.start(servers=TINY, environment={"MAX_MCP_OUTPUT_TOKENS": "100000000"})

    log = await run(session, "@@flood@@")

    assert "<persisted-output>" in shown(finished(log, "toolu_flood"))
    assert ends(log) == [TurnEnded(reason="completed")]
    [entry] = [e for e in log if isinstance(e.event, ToolFinished)]
    raw = json.loads(desk.raw(entry))
    assert len(desk.raw(entry)) <= 1024 * 1024
    if desk.claude.version == "2.1.197":  # its line has all of it; later versions cut it
        assert raw["length"] > TEN_MB
        spilled = desk.paths.spill / session.id / raw["spill"]
        assert spilled.stat().st_size == raw["length"]
    else:
        assert raw["type"] == "user"


async def test_a_result_over_the_cap_is_cut_in_its_event_and_whole_in_its_file(
    desk: ClaudeDesk,
) -> None:
    desk.double.scenarios["flood"] = flood(30_000)
    session = await desk.start(servers=TINY, output_cap=5_000)

    log = await run(session, "@@flood@@")

    [part] = finished(log, "toolu_flood").content
    assert isinstance(part, Text)
    assert len(part.text) < 5_200
    assert part.cut and part.cut.spill
    whole = (desk.paths.spill / session.id / part.cut.spill).read_text()
    assert whole == ("0123456789abcde\n" * 1875)[:30_000]
    assert tool_results(desk.double.turns[1].body)["toolu_flood"] == whole


async def test_a_server_that_does_not_start_does_not_stop_the_turn(desk: ClaudeDesk) -> None:
    desk.double.scenarios["mcp"] = [reply(Say("Without it."))]
    session = await desk.start(servers={"broken": {"command": "no-such-program"}})

    log = await run(session, "@@mcp@@")

    assert session.result().text == "Without it."
    assert ends(log) == [TurnEnded(reason="completed")]


async def test_server_settings_reach_it_and_are_on_no_command_line(
    desk: ClaudeDesk,
) -> None:
    desk.double.scenarios["mcp"] = [
        reply(ModelToolCall("mcp__tiny__shout", {"text": "hi"}, id="toolu_shout")),
        reply(Say("Loud.")),
    ]
    note = desk.folder / "note"
    script = 'printf %s "$TINY_TOKEN" > "$1"; shift; exec "$@"'
    server = TINY["tiny"]
    words = ["-c", script, "sh", str(note), server["command"], *server["args"]]
    token = "t1ny-canary-5Rk2vQ8x"
    session = await desk.start(
        servers={"tiny": {"command": "sh", "args": words, "env": {"TINY_TOKEN": token}}}
    )

    await run(session, "@@mcp@@")

    assert note.read_text() == token
    lines = [_command_line(folder) for folder in Path("/proc").glob("[0-9]*")]
    assert [line for line in lines if b"--mcp-config=" in line and bytes(desk.folder) in line]
    assert [line for line in lines if token.encode() in line] == []


def _command_line(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""
