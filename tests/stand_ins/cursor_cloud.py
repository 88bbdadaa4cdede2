"""A stand-in for Cursor's cloud API on loopback: plays the recordings, with faults at any byte."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.stand_ins.cut_writer import CutWriter, Fault

__all__ = ["CursorCloud", "Fault", "cursor_cloud", "cursor_cloud_thread"]

RECORDINGS = Path(__file__).parents[1] / "recordings" / "cursor_cloud"
KEY = "crsr_stand1n5ecret7Qx9Zk3Vw2Lp8"


def recording(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))
    return found


def answer_of(name: str) -> Any:
    return recording(name)["response"]["body"]


class StreamedEvent(NamedTuple):
    id: str | None
    kind: str
    data: str

    def encoded(self) -> bytes:
        id = f"id: {self.id}\n" if self.id is not None else ""
        return f"{id}event: {self.kind}\ndata: {self.data}\n\n".encode()


def recorded_events(name: str = "v1_stream_run") -> list[StreamedEvent]:
    found = []
    for block in recording(name)["response"]["text"].strip("\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append(StreamedEvent(fields.get("id"), fields["event"], fields["data"]))
    return found


class Asked(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class CloudRunState:
    id: str
    agent: str
    prompt: dict[str, Any]
    events: list[StreamedEvent]
    status: str = "RUNNING"
    held: asyncio.Event | None = None  # the stream waits for it before the result
    expired: bool = False  # its stream is no longer kept

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            **answer_of("v1_get_run_running"),
            "id": self.id,
            "agentId": self.agent,
            "status": self.status,
        }
        if self.status == "FINISHED":
            found |= {key: answer_of("v1_get_run_finished")[key] for key in ("result", "git")}
        return found


@dataclass
class CloudAgentState:
    id: str
    body: dict[str, Any]
    archived: bool = False
    runs: list[CloudRunState] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        running = any(run.status == "RUNNING" for run in self.runs)
        return {
            **answer_of("v1_get_agent"),
            "id": self.id,
            "name": self.body.get("name") or "Stand-in",
            "status": "ARCHIVED" if self.archived else "ACTIVE" if running else "IDLE",
            "repos": self.body.get("repos", []),
            "latestRunId": self.runs[-1].id,
        }


@dataclass
class V0AgentState:
    id: str
    body: dict[str, Any]
    status: str = "RUNNING"
    messages: list[dict[str, str]] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        return {
            **answer_of("v0_get_agent_finished"),
            "id": self.id,
            "status": self.status,
            "source": self.body["source"],
        }


class Refused(Exception):
    def __init__(self, name: str) -> None:
        self.answer = recording(name)["response"]


class CursorCloud:
    """Its state, and what it was asked. Change `script`, `fault` and the rest as a test needs."""

    def __init__(self, key: str = KEY) -> None:
        self.key = key
        self.url = ""
        self.asked: list[Asked] = []
        self.agents: dict[str, CloudAgentState] = {}
        self.v0: dict[str, V0AgentState] = {}
        self.deleted: list[str] = []
        self.script: Callable[[], list[StreamedEvent]] = recorded_events
        self.hold = False  # streams wait before the result until the run is cancelled
        self.fault: Callable[[Asked], Fault | None] = lambda _: None
        self.etag = ""
        self.repeats = 0  # events that a resumed stream sends again
        self.page = 2
        self.artifact = b"\x89PNG artifact"
        self.between_pages: Callable[[], None] = lambda: None
        self.v0_ends_after = 2  # looks at an agent of version 0
        self._count = 0

    # -- routes ----------------------------------------------------------------------------------

    def answer(self, asked: Asked) -> tuple[int, Any]:
        """The status and the JSON of the answer; raises `Refused`."""
        wanted = base64.b64encode(f"{self.key}:".encode()).decode()
        if asked.headers.get("authorization") != f"Basic {wanted}":
            raise Refused("v1_error_401")
        version, *rest = asked.path.strip("/").split("/")
        match asked.method, version, rest:
            case "GET", _, ["me" | "models" | "repositories" as name]:
                return 200, answer_of(
                    f"{version}_me_user"
                    if name == "me" and version == "v1"
                    else f"{version}_{name}"
                )
            case "GET", "v1", ["agents"]:
                return 200, self._page(
                    [one.record() for one in reversed(self.agents.values())], asked
                )
            case "POST", "v1", ["agents"]:
                return 200, self._launch(asked.body)
            case _, "v1", ["agents", id, *more]:
                if id not in self.agents:
                    raise Refused("v1_error_404")
                return self._of_agent(asked, self.agents[id], more)
            case _, "v0", ["agents", *more]:
                return self._v0(asked, more)
        raise Refused("v1_error_404")

    def _page(self, items: list[Any], asked: Asked, key: str = "items") -> dict[str, Any]:
        start = 0
        if (cursor := asked.query.get("cursor")) is not None:
            self.between_pages()
            ids = [one["id"] for one in items]
            start = ids.index(cursor) if cursor in ids else len(items)
        size = min(self.page, int(asked.query.get("limit", "20")))
        found: dict[str, Any] = {key: items[start : start + size]}
        if start + size < len(items):
            found["nextCursor"] = items[start + size]["id"]
        return found

    def _launch(self, body: Any) -> dict[str, Any]:
        if any("url" not in repo for repo in body.get("repos", [])):
            raise Refused("v1_error_400")
        id = body.get("agentId") or f"bc-{self._number():032}"
        if id in self.agents:
            raise Refused("v1_error_409_id_conflict")
        agent = self.agents[id] = CloudAgentState(id, body)
        run = self._run(agent, body["prompt"])
        return {"agent": agent.record(), "run": run.record() | {"status": "CREATING"}}

    def _run(self, agent: CloudAgentState, prompt: Any) -> CloudRunState:
        held = asyncio.Event() if self.hold else None
        run = CloudRunState(f"run-{self._number():032}", agent.id, prompt, self.script(), held=held)
        agent.runs.append(run)
        return run

    def _of_agent(self, asked: Asked, agent: CloudAgentState, more: list[str]) -> tuple[int, Any]:
        match asked.method, more:
            case "GET", []:
                return 200, agent.record()
            case "DELETE", []:
                del self.agents[agent.id]
                self.deleted.append(agent.id)
                return 200, {"id": agent.id}
            case "POST", ["archive" | "unarchive" as word]:
                agent.archived = word == "archive"
                return 200, {"id": agent.id}
            case "GET", ["runs"]:
                return 200, self._page([run.record() for run in reversed(agent.runs)], asked)
            case "POST", ["runs"]:
                if any(run.status == "RUNNING" for run in agent.runs):
                    raise Refused("v1_error_409_busy")
                return 200, {"run": self._run(agent, asked.body["prompt"]).record()}
            case "GET", ["usage"]:
                runs = [{**answer_of("v1_usage")["runs"][0], "id": run.id} for run in agent.runs]
                return 200, answer_of("v1_usage") | {"runs": runs}
            case "GET", ["artifacts"]:
                return 200, answer_of("v1_list_artifacts")
            case "GET", ["artifacts", "download"]:
                return 200, {
                    "url": f"{self.url}/files/artifact",
                    "expiresAt": "2026-04-13T19:00:00Z",
                }
            case _, ["runs", id, *rest]:
                run = next((run for run in agent.runs if run.id == id), None)
                if run is None:
                    raise Refused("v1_error_404")
                if rest == ["cancel"]:
                    return 200, self._cancel(run)
                return 200, run.record()
        raise Refused("v1_error_404")

    def _cancel(self, run: CloudRunState) -> dict[str, str]:
        if run.status != "RUNNING":
            raise Refused("v1_error_409_not_cancellable")
        run.status = "CANCELLED"
        last = run.events[-2]
        data = json.dumps({"runId": run.id, "status": "CANCELLED"})
        run.events[-2] = last._replace(data=data)
        if run.held:
            run.held.set()
        return {"id": run.id}

    def _v0(self, asked: Asked, more: list[str]) -> tuple[int, Any]:
        match asked.method, more:
            case "GET", []:
                agents = [one.record() for one in reversed(self.v0.values())]
                return 200, self._page(agents, asked, "agents")
            case "POST", []:
                id = f"bc_{self._number()}"
                agent = self.v0[id] = V0AgentState(id, asked.body)
                agent.messages.append(self._message("user_message", asked.body["prompt"]["text"]))
                return 201, agent.record() | {"status": "CREATING"}
        agent_of = self.v0.get(more[0])
        if agent_of is None:
            raise Refused("v1_error_404")
        match asked.method, more[1:]:
            case "GET", []:
                self.v0_ends_after -= 1
                if agent_of.status == "RUNNING" and self.v0_ends_after <= 0:
                    agent_of.status = "FINISHED"
                    agent_of.messages.append(self._message("assistant_message", "Done."))
                return 200, agent_of.record()
            case "DELETE", []:
                del self.v0[agent_of.id]
                return 200, {"id": agent_of.id}
            case "GET", ["conversation"]:
                return 200, {"id": agent_of.id, "messages": agent_of.messages}
            case "POST", ["followup"]:
                agent_of.messages.append(
                    self._message("user_message", asked.body["prompt"]["text"])
                )
                agent_of.status, self.v0_ends_after = "RUNNING", 2
                return 200, {"id": agent_of.id}
            case "POST", ["stop"]:
                agent_of.status = "STOPPED"
                return 200, {"id": agent_of.id}
        raise Refused("v1_error_404")

    def _message(self, kind: str, text: str) -> dict[str, str]:
        return {"id": f"msg_{self._number():03}", "type": kind, "text": text}

    def _number(self) -> int:
        self._count += 1
        return self._count

    # -- connections -----------------------------------------------------------------------------

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            while (asked := await self._read(reader)) is not None:
                self.asked.append(asked)
                if not await self._respond(asked, CutWriter(writer, self.fault(asked))):
                    break
        writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Asked | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.split(":", 1) for line in lines)
        headers = {name.lower(): value.strip() for name, value in pairs}
        data = await reader.readexactly(int(headers.get("content-length", "0")))
        parts = urlsplit(target)
        body = json.loads(data) if data else None
        return Asked(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)

    async def _respond(self, asked: Asked, out: CutWriter) -> bool:
        """Whether the connection can be used again."""
        fault = out.fault
        if fault.refuse:
            return False
        if fault.status:
            await out.head(fault.status, fault.headers, len(fault.body))
            await out.write(fault.body)
            return not out.ended
        if asked.path.startswith("/files/"):
            await out.head(200, (("Content-Type", "image/png"),), len(self.artifact))
            await out.write(self.artifact)
            return not out.ended
        try:
            status, body = self.answer(asked)
            headers: tuple[tuple[str, str], ...] = ()
            if asked.path.endswith("/stream"):
                if fault.lose:
                    return False
                return await self._stream(asked, out)
        except Refused as refused:
            status, body = refused.answer["status"], refused.answer["body"]
            headers = tuple(refused.answer.get("headers", {}).items())
        if fault.lose:
            return False
        data = json.dumps(body).encode()
        if self.etag and asked.method == "GET":
            headers = (*headers, ("ETag", self.etag))
            if asked.headers.get("if-none-match") == self.etag:
                status, data = 304, b""
        await out.head(status, (*headers, ("Content-Type", "application/json")), len(data))
        await out.write(data)
        return not out.ended

    async def _stream(self, asked: Asked, out: CutWriter) -> bool:
        _, _, agent, _, id, _ = asked.path.strip("/").split("/")
        run = next(run for run in self.agents[agent].runs if run.id == id)
        if run.expired:
            raise Refused("v1_error_410_stream_expired")
        last = asked.headers.get("last-event-id")
        start = 0
        if last is not None:
            places = [n for n, event in enumerate(run.events) if event.id == last]
            if not places:
                raise Refused("v1_error_400_last_event_id")
            start = max(1, places[0] + 1 - self.repeats)  # `done` has the id of `result`
        headers = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
        await out.head(200, headers, None)
        if start:
            await out.chunk(run.events[0].encoded())  # the status comes with each connection
        for number in range(start, len(run.events)):
            if run.events[number].kind == "result":
                if run.held:
                    await run.held.wait()
                if run.status == "RUNNING":
                    run.status = json.loads(run.events[number].data).get("status", "FINISHED")
            await out.chunk(run.events[number].encoded())
        await out.chunk(b"")
        return not out.ended


@asynccontextmanager
async def cursor_cloud(key: str = KEY) -> AsyncIterator[CursorCloud]:
    cloud = CursorCloud(key)
    server = await asyncio.start_server(cloud.serve, "127.0.0.1", 0, limit=1 << 22)
    port = server.sockets[0].getsockname()[1]
    cloud.url = f"http://127.0.0.1:{port}"
    try:
        yield cloud
    finally:
        server.close()
        server.close_clients() if hasattr(server, "close_clients") else None


@contextmanager
def cursor_cloud_thread(key: str = KEY) -> Iterator[CursorCloud]:
    """For tests without an event loop: the stand-in runs in a thread."""
    found: Queue[tuple[CursorCloud, asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def run() -> None:
        async with cursor_cloud(key) as cloud:
            stop = asyncio.Event()
            found.put((cloud, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = Thread(target=lambda: asyncio.run(run()))
    thread.start()
    cloud, loop, stop = found.get(timeout=10)
    try:
        yield cloud
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
