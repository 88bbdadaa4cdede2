"""Throughput of a Claude Code stream, from its pipe to the durable log and `--json` (events/s)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from tillerman.agents import load
from tillerman.agents.claude.wire import ClaudeWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.events import encode
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Launch
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.store.database import Database

LINES = int(os.environ.get("BENCH_LINES", "200000"))
PEER = Path(sys.prefix) / "bench"  # installed by `make bench`

Figure = tuple[str, float]


def write_stream(path: Path) -> None:
    """One turn of many deltas, as the CLI writes them."""
    ids = {
        "session_id": "56949055-492f-45ec-9b5c-3cfa7f91fd49",
        "parent_tool_use_id": None,
        "uuid": "cfd3fc43-fcea-4589-8046-a8ed277e77d1",
    }
    begin = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": []}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    end = {"type": "result", "subtype": "success", "is_error": False, "result": "", "usage": {},
           "duration_ms": 1, "duration_api_ms": 1, "num_turns": 1}  # fmt: skip
    with path.open("w") as out:
        print(json.dumps({"type": "system", "subtype": "init", "model": "m", **ids}), file=out)
        for event in (begin, block):
            print(json.dumps({"type": "stream_event", "event": event, **ids}), file=out)
        for number in range(LINES):
            delta = {"type": "text_delta", "text": f"word {number} "}
            event = {"type": "content_block_delta", "index": 0, "delta": delta}
            print(json.dumps({"type": "stream_event", "event": event, **ids}), file=out)
        print(json.dumps({**end, **ids}), file=out)


def read_raw(path: Path) -> float:
    """Bytes through a pipe, discarded."""
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as child:
        assert child.stdout
        begin = time.perf_counter()
        while os.read(child.stdout.fileno(), 1 << 18):
            pass
        return LINES / (time.perf_counter() - begin)


def decode_all(path: Path, decode: Callable[[bytes], Any]) -> float:
    lines = path.read_bytes().splitlines()
    begin = time.perf_counter()
    for line in lines:
        decode(line)
    return LINES / (time.perf_counter() - begin)


def peer_parser() -> Callable[[bytes], Any] | None:
    """The parser of claude-agent-sdk, without the rest of it."""
    if not PEER.exists():
        return None
    package = types.ModuleType("claude_agent_sdk")
    package.__path__ = [str(PEER / "claude_agent_sdk")]
    sys.modules["claude_agent_sdk"] = package
    internal = types.ModuleType("claude_agent_sdk._internal")
    internal.__path__ = [str(PEER / "claude_agent_sdk/_internal")]
    sys.modules["claude_agent_sdk._internal"] = internal
    from claude_agent_sdk._internal.message_parser import parse_message

    return lambda line: parse_message(json.loads(line))


class RecordedWire(ClaudeWire):
    """Claude's wire with `cat` as its program."""

    path: Path

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return Launch(["sh", "-c", f"read prompt; exec cat {self.path}"])

    def greet(self) -> Iterable[dict[str, Any]]:
        return []

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        return [{"go": True}]


async def run_session(path: Path, folder: Path, show: Callable[[Any], None]) -> float:
    RecordedWire.path = path
    agent = StdioAgent(load("claude").info, RecordedWire)
    database = Database.open(folder / "store.db")
    sessions = Sessions(find_paths({"TILLERMAN_HOME": str(folder)}), database)
    environment = {"PATH": os.defpath, "HOME": str(folder)}
    run_settings = RunSettings(
        approve="none",
        environment=environment,
        secrets=[("ANTHROPIC_API_KEY", "sk-ant-not-a-real-key-0123")],
        turn_cap=1 << 40,
    )
    begin = time.perf_counter()
    session = await sessions.start(agent, session_spec(cwd=folder), run_settings)
    count = 0
    await session.prompt("go")
    async for page in session.pages_until_idle():
        show(page)
        count += len(page)
    took = time.perf_counter() - begin
    assert count > LINES, f"{count} entries of {LINES} lines"
    await sessions.close()
    database.close()
    return LINES / took


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "stream.jsonl"
        write_stream(path)
        wire = ClaudeWire(session_spec(cwd=folder))
        figures = [
            ("raw bytes through a pipe", read_raw(path)),
            ("msgspec.json.decode", decode_all(path, msgspec.json.decode)),
        ]
        if parse := peer_parser():
            figures.append(("claude-agent-sdk's parser", decode_all(path, parse)))
        figures.append(("tillerman's wire", decode_all(path, lambda line: list(wire.decode(line)))))
        with (folder / "out.jsonl").open("wb") as out:
            for title, show in (
                ("pipe to durable log", lambda page: None),
                (
                    "pipe to durable log and --json",
                    lambda page: out.write(b"".join(encode(entry) + b"\n" for entry in page)),
                ),
            ):
                home = folder / title.replace(" ", "-")
                home.mkdir()
                figures.append((title, asyncio.run(run_session(path, home, show))))
    return figures


def main() -> None:
    figures = measure()
    decode = dict(figures)["msgspec.json.decode"]
    for title, rate in figures:
        print(f"{title:<32}{rate:>12,.0f} events/s {rate / decode:>7.2f} x msgspec decode")


if __name__ == "__main__":
    main()
