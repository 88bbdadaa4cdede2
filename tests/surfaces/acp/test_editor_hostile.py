"""Lines that no editor should send, and an editor that does not read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

from tests.surfaces.acp.conftest import StartEditor
from tests.surfaces.acp.editor import Editor
from tillerman.surfaces.acp.methods import MOST_SESSIONS

LINES = 10_000
METHODS = (
    "initialize", "authenticate", "session/new", "session/load", "session/resume", "session/fork",
    "session/list", "session/close", "session/delete", "session/prompt", "session/set_mode",
    "session/set_model", "session/set_config_option", "session/cancel", "$/cancel_request",
    "fs/read_text_file", "nothing",
)  # fmt: skip
KEYS = (
    "sessionId", "cwd", "mcpServers", "prompt", "modeId", "modelId", "configId", "value", "cursor",
    "methodId", "clientCapabilities", "additionalDirectories", "requestId",
)  # fmt: skip


def value(random: Random, depth: int = 3) -> Any:
    kinds = ["null", "bool", "int", "big", "float", "text", "path", "list", "dict"]
    match random.choice(kinds if depth else kinds[:7]):
        case "null":
            return None
        case "bool":
            return random.random() < 0.5
        case "int":
            return random.randrange(-5, 5)
        case "big":
            return random.choice([2**63, -(2**70), 10**40])
        case "float":
            return random.choice([0.5, -1e308, 1e-9])
        case "text":
            return random.choice(["", "x", "\ud800", "a\0b", "last", "\u202e", "{", "x" * 3000])
        case "path":
            return random.choice(["/", "/no/such", "relative", "file:///x", "/\0"])
        case "list":
            return [value(random, depth - 1) for _ in range(random.randrange(3))]
    return {random.choice(KEYS): value(random, depth - 1) for _ in range(random.randrange(4))}


def line(random: Random) -> bytes:
    match random.randrange(6):
        case 0:
            return random.randbytes(random.randrange(1, 60)).replace(b"\n", b"")
        case 1:
            return json.dumps(value(random)).encode()
        case 2:
            return b"[" * random.randrange(1, 5000)
        case 3:
            return (
                b'{"jsonrpc":"2.0","id":' + random.choice([b"1e999", b"NaN", b"[1]", b"{}"]) + b"}"
            )
    message = {"jsonrpc": random.choice(["2.0", "1.0", None]), "params": value(random)}
    if random.random() < 0.8:
        message["method"] = random.choice(METHODS)
    if random.random() < 0.7:
        message["id"] = f"hostile-{random.random()}" if random.random() < 0.7 else value(random)
    if random.random() < 0.2:
        message[random.choice(["result", "error"])] = value(random)
    whole = json.dumps(message).encode()
    return whole if random.random() < 0.8 else whole[: random.randrange(len(whole))]


async def test_ten_thousand_lines_of_nonsense_leave_it_answering(
    editor: Editor, project: Path
) -> None:
    session = await editor.new(project)
    random = Random(18)
    assert editor.process.stdin
    for number in range(LINES):
        editor.write_line(line(random))
        if number % 100 == 0:
            await editor.process.stdin.drain()
    told = await editor.prompt(session, {"say": "still here"})
    assert told["stopReason"] == "end_turn"
    assert editor.said() == "still here"
    codes = {one["error"]["code"] for one in editor.messages if "error" in one}
    assert codes <= {-32700, -32600, -32601, -32602, -32603, -32002, -32000, -32800}
    internal = [
        one["error"] for one in editor.messages if one.get("error", {}).get("code") == -32603
    ]
    bugs = [one for one in internal if "bug in tillerman" in str(one.get("data"))]
    assert bugs == []


async def test_a_line_that_is_too_long_is_refused_by_its_id(editor: Editor, project: Path) -> None:
    assert editor.process.stdin
    head = b'{"jsonrpc":"2.0","id":77,"method":"session/list","params":{"x":"'
    editor.write_line(head + b"x" * (65 * 1024 * 1024) + b'"}}')
    await editor.process.stdin.drain()
    refused = await editor.until(lambda message: message.get("id") == 77)
    assert refused["error"]["code"] == -32700
    assert await editor.new(project)


async def test_an_id_in_use_and_too_many_requests_are_refused(
    editor: Editor, project: Path
) -> None:
    session = await editor.new(project)
    text = json.dumps([{"hang": True}])
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    for id in [*range(1000, 1300), 1000]:
        editor.write({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})
    await editor.until(lambda m: "too many requests" in str(m.get("error")))
    editor.notify("session/cancel", sessionId=session)
    for id in range(1000, 1200):
        ended = await editor.until(lambda m, id=id: m.get("id") == id and "result" in m)
        assert ended["result"]["stopReason"] == "cancelled"
    await editor.until(lambda m: "in use" in str(m.get("error")))
    assert (await editor.prompt(session, {"say": "again"}))["stopReason"] == "end_turn"


async def test_an_editor_that_does_not_read_slows_only_itself(
    open_editor: StartEditor, project: Path
) -> None:
    slow, quick = await open_editor(), await open_editor()
    session = await slow.new(project)
    await slow.prompt(session, {"say": "earlier"})
    await quick.call("session/load", sessionId=session, cwd=str(project), mcpServers=[])
    transport = slow.process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
    transport.pause_reading()
    words = " ".join(f"word{number}" for number in range(400))
    steps = json.dumps([{"repeat": 200, "steps": [{"say": words}]}, {"say": "the end"}])
    prompt = slow.send(
        "session/prompt", sessionId=session, prompt=[{"type": "text", "text": steps}]
    )
    await quick.until_update("agent_message_chunk", lambda u: u["content"]["text"].endswith("end"))
    assert "the end" in quick.said()
    memory = _resident(slow.process.pid)
    await asyncio.sleep(0.5)
    assert _resident(slow.process.pid) < memory + 30_000, "nothing is queued for who does not read"
    transport.resume_reading()
    assert (await slow.answer(prompt))["stopReason"] == "end_turn"
    assert slow.said() == quick.said()


def _resident(pid: int) -> int:
    """Kilobytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


async def test_sessions_that_are_opened_at_once_do_not_exceed_the_limit(
    editor: Editor, project: Path
) -> None:
    params = {"cwd": str(project), "mcpServers": []}
    asked = [editor.send("session/new", **params) for _ in range(MOST_SESSIONS + 6)]
    refused = 0
    for id in asked:
        told = await editor.until(lambda m, id=id: m.get("id") == id)
        refused += "sessions are open" in str(told.get("error"))
    assert refused == 6
