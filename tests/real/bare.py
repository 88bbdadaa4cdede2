"""An agent CLI by itself, without tillerman between it and the scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tests.real.stages import Actor
from tillerman.testing.model_double.server import ModelDouble

MAX_WAIT = 90.0  # seconds for one answer
_LONGEST_LINE = 16 * 1024 * 1024

Message = dict[str, Any]


@dataclass
class BareRun:
    """The result: the exit code of a one-shot run, or each prompt's answer in a dialogue."""

    code: int | None = None
    answers: list[Message] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    heard_at: list[float] = field(default_factory=list)  # each line of it, on the monotonic clock
    ended_at: float = 0.0  # the last prompt's answer, or the end of a one-shot

    def receive(self, line: bytes) -> None:
        self.output.append(line.decode())
        self.heard_at.append(time.monotonic())

    @property
    def text(self) -> str:
        """The text of a dialogue's message chunks."""
        updates = [json.loads(line).get("params", {}).get("update", {}) for line in self.output]
        chunks = [u for u in updates if u.get("sessionUpdate") == "agent_message_chunk"]
        return "".join(chunk["content"].get("text", "") for chunk in chunks)


async def run_bare(
    actor: Actor,
    double: ModelDouble,
    *prompts: str,
    free: bool = False,
    servers: dict[str, list[str]] | None = None,
) -> BareRun:
    """Sends the prompts in one conversation (ACP), or one after the other; each permission request
    is allowed once. `servers` are MCP servers, by name and command."""
    actor.prepare(double.base_url)
    by_arguments = actor.stage.servers(servers) if servers else ()
    arguments = by_arguments + ((actor.stage.free if free else None) or actor.stage.bare)
    by_acp = {} if by_arguments else servers or {}
    run = BareRun()
    if actor.stage.speaks_acp:
        async with _started(actor, double, arguments) as process:
            await _Dialogue(process, run).talk(actor, prompts, by_acp)
        return run
    for prompt in prompts:
        async with _started(actor, double, (*arguments, prompt)) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            async with asyncio.timeout(MAX_WAIT):
                async for line in process.stdout:
                    run.receive(line.rstrip(b"\n"))
                run.code = await process.wait()
            run.ended_at = time.monotonic()
    return run


@contextlib.asynccontextmanager
async def _started(
    actor: Actor, double: ModelDouble, arguments: tuple[str, ...]
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        actor.program,
        *arguments,
        env=actor.environment(double.base_url),
        cwd=actor.project,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        limit=_LONGEST_LINE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


class _Dialogue:
    """A minimal ACP client."""

    def __init__(self, process: asyncio.subprocess.Process, run: BareRun) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._run = run
        self._calls = 0

    async def talk(
        self, actor: Actor, prompts: tuple[str, ...], servers: dict[str, list[str]]
    ) -> None:
        unable = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        await self._call("initialize", protocolVersion=1, clientCapabilities=unable)
        mcp = [
            {"name": name, "command": command, "args": arguments, "env": []}
            for name, (command, *arguments) in servers.items()
        ]
        opened = await self._call("session/new", cwd=str(actor.project), mcpServers=mcp)
        assert "result" in opened, opened
        session = opened["result"]["sessionId"]
        for prompt in prompts:
            blocks = [{"type": "text", "text": prompt}]
            answer = await self._call("session/prompt", sessionId=session, prompt=blocks)
            self._run.answers.append(answer.get("result", answer))
            self._run.ended_at = time.monotonic()
        self._stdin.close()
        with contextlib.suppress(TimeoutError):  # some run until they get a signal
            self._run.code = await asyncio.wait_for(self._process.wait(), 3)

    async def _call(self, method: str, **params: Any) -> Message:
        self._calls += 1
        number = self._calls
        self._send({"id": number, "method": method, "params": params})
        async with asyncio.timeout(MAX_WAIT):
            async for line in self._stdout:
                message: Message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    return message
                self._run.receive(line)
                if "id" in message:
                    self._send({"id": message["id"]} | _reply(message))
        raise AssertionError(f"no answer to {method}; it said {self._run.output[-3:]}")

    def _send(self, message: Message) -> None:
        self._stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")


def _reply(request: Message) -> Message:
    if request["method"] != "session/request_permission":
        return {"error": {"code": -32601, "message": "Method not found"}}
    options = request["params"]["options"]
    once = next(option for option in options if option["kind"] == "allow_once")
    return {"result": {"outcome": {"outcome": "selected", "optionId": once["optionId"]}}}
