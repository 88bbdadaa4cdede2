"""An editor on the pipes of `tillerman acp`: sends lines, collects what comes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

MAX_WAIT = 20.0
Message = dict[str, Any]
Handler = Callable[[Message], Any]  # of its requests: the result, or raises `RpcRefused`


class RpcRefused(Exception):
    def __init__(self, error: Message) -> None:
        super().__init__(error["message"])
        self.error = error


class Editor:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.messages: list[Message] = []  # everything that came
        self.handlers: dict[str, Handler] = {}
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self._next = 10_000
        self._came = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, folder: Path, environment: Mapping[str, str], *words: str, agent: str = "mock"
    ) -> Self:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tillerman", "acp", *(["-a", agent] if agent else []), *words),
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 * 1024 * 1024,
        )
        return cls(process)

    async def initialize(self, **capabilities: Any) -> Any:
        told = {"protocolVersion": 1, "clientCapabilities": capabilities}
        return await self.call("initialize", **told)

    async def new(self, folder: Path, **more: Any) -> str:
        told = await self.call("session/new", cwd=str(folder), mcpServers=[], **more)
        return str(told["sessionId"])

    async def prompt(self, session: str, *steps: Any) -> Any:
        """Prompts the mock agent with these steps."""
        text = steps[0] if steps and isinstance(steps[0], str) else json.dumps(steps)
        return await self.call(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}]
        )

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(self.send(method, **params))

    def send(self, method: str, **params: Any) -> int:
        """Sends a request; returns its id."""
        self._next += 1
        id = self._next
        self._answers[id] = asyncio.get_running_loop().create_future()
        self.write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    async def answer(self, id: int) -> Any:
        async with asyncio.timeout(MAX_WAIT):
            return await self._answers[id]

    def notify(self, method: str, **params: Any) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def write(self, message: Any) -> None:
        self.write_line(json.dumps(message).encode())

    def write_line(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")

    async def until(self, found: Callable[[Message], bool]) -> Message:
        """The first message of this kind, which may have come already."""
        async with asyncio.timeout(MAX_WAIT), self._came:
            while True:
                for message in self.messages:
                    if found(message):
                        return message
                await self._came.wait()

    async def until_update(self, kind: str, where: Callable[[Message], bool] = bool) -> Message:
        def found(message: Message) -> bool:
            update = message.get("params", {}).get("update", {})
            return update.get("sessionUpdate") == kind and where(update)

        message = await self.until(found)
        update: Message = message["params"]["update"]
        return update

    def updates(self, *kinds: str, session: str | None = None) -> list[Message]:
        found = [
            message["params"]["update"]
            for message in self.messages
            if message.get("method") == "session/update"
            and session in (None, message["params"]["sessionId"])
        ]
        return [update for update in found if not kinds or update["sessionUpdate"] in kinds]

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.updates(kind))

    def requests(self, method: str) -> list[Message]:
        return [message for message in self.messages if message.get("method") == method]

    async def leave(self) -> int:
        """Closes the input; returns the exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        async with asyncio.timeout(MAX_WAIT):
            await self._reading
            return await self.process.wait()

    async def close(self) -> None:
        self._reading.cancel()
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), MAX_WAIT)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()

    async def _read(self) -> None:
        assert self.process.stdout
        while line := await self.process.stdout.readline():
            message = json.loads(line)  # stdout carries the protocol and nothing else
            assert message["jsonrpc"] == "2.0", message
            if "method" not in message and (answer := self._answers.get(message["id"])):
                if "error" in message:
                    answer.set_exception(RpcRefused(message["error"]))
                else:
                    answer.set_result(message["result"])
            elif "method" in message and "id" in message:
                self._handle(message)
            async with self._came:
                self.messages.append(message)
                self._came.notify_all()

    def _handle(self, message: Message) -> None:
        handler = self.handlers.get(message["method"])
        if handler is None:
            return
        try:
            result = handler(message["params"])
        except RpcRefused as refusal:
            self.write({"jsonrpc": "2.0", "id": message["id"], "error": refusal.error})
        else:
            self.write({"jsonrpc": "2.0", "id": message["id"], "result": result})


def choose(kind: str) -> Handler:
    """Answers a permission request with the first option of this kind."""

    def chosen(params: Message) -> Message:
        option = next(one for one in params["options"] if one["kind"] == kind)
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    return chosen
