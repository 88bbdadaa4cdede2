"""The second model's HTTP server: a thread for each connection, in the test's own process."""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from tests.real.second_model import anthropic_stream, chat_stream, gemini_stream
from tests.real.second_model.anthropic_stream import AnthropicStream
from tests.real.second_model.asked import api_of, scene_of, side_answer, streams
from tests.real.second_model.chat_stream import ChatStream
from tests.real.second_model.gemini_stream import GeminiStream
from tests.real.second_model.responses_stream import ResponsesStream
from tests.real.second_model.script import Broken, Failure, Reply, Step, Text
from tests.real.second_model.variation import Variation

Stream = AnthropicStream | ResponsesStream | ChatStream | GeminiStream
STREAMS: dict[str, type[Stream]] = {
    "anthropic": AnthropicStream,
    "responses": ResponsesStream,
    "chat": ChatStream,
    "gemini": GeminiStream,
}
ERRORS = {
    "anthropic": anthropic_stream.error,
    "responses": chat_stream.error,
    "chat": chat_stream.error,
    "gemini": gemini_stream.error,
}
MODELS = ("claude-sonnet-4-5", "gpt-5.1-codex", "gemini-2.5-pro", "qwen3-coder-plus")


class Asked(msgspec.Struct, frozen=True):
    """One received request; for a scene, its step and the attempt at that step."""

    method: str
    path: str
    scene: str | None = None
    step: int = 0
    attempt: int = 0
    body: Any = None


class SecondModel:
    """Plays `scenes`: the n-th reply of a conversation is the scene's n-th step. A step is what its
    first, second, … attempt gets; the last one repeats."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.scenes: dict[str, Sequence[Sequence[Step]]] = {}
        self.asked: list[Asked] = []
        self._number = 0  # of requests, so that no two replies have one id
        self._attempts: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.model = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> SecondModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def next_step(self, method: str, path: str, body: dict[str, Any]) -> tuple[Step, Variation]:
        """The answer to this request, and its variation."""
        found = scene_of(body)
        with self._lock:
            self._number += 1
            vary = Variation(self.seed * 100_000 + self._number)
            if found is None or found[0] not in self.scenes:
                self.asked.append(Asked(method, path, body=body))
                return Reply((Text(side_answer(body)),)), vary
            attempt = self._attempts.get(found, 0)
            self._attempts[found] = attempt + 1
            self.asked.append(Asked(method, path, *found, attempt, body))
        scene, step = found
        steps = self.scenes[scene]
        if step >= len(steps):
            return Failure(400), vary
        return steps[step][min(attempt, len(steps[step]) - 1)], vary

    def forget(self) -> None:
        """Clears the received requests: a scene starts again."""
        with self._lock:
            self.asked.clear()
            self._attempts.clear()

    def note(self, method: str, path: str, body: Any = None) -> None:
        with self._lock:
            self.asked.append(Asked(method, path, body=body))


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is no error; all others are printed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def model(self) -> SecondModel:
        return self.server.model  # type: ignore[attr-defined,no-any-return]

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing into a test's output."""

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_HEAD(self) -> None:
        self.model.note("HEAD", self.path)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.model.note("GET", self.path)
        route = self.path.partition("?")[0].rstrip("/")
        if route.endswith("/models"):
            self._json(200, google_models() if "/v1beta" in route else listed_models())
        elif "/models/" in route:
            self._json(200, listed_model(route.rpartition("/")[2]))
        else:
            self._json(404, {"error": {"type": "not_found_error", "message": "Not found"}})

    def do_POST(self) -> None:
        body = self._body()
        api = api_of(self.path)
        if api is None:
            self.model.note("POST", self.path, body)
            self._other(body)
            return
        if api == "gemini":
            body["model"] = self.path.rpartition("/models/")[2].partition(":")[0]
        step, vary = self.model.next_step("POST", self.path, body)
        if isinstance(step, Failure):
            if api == "gemini" and step.status == 529:  # which is no status of Google's
                step = msgspec.structs.replace(step, status=503)
            content, headers = ERRORS[api](step, vary)
            self._json(step.status, content, headers)
            return
        stream = STREAMS[api](step, body, vary)
        if isinstance(step, Reply) and not streams(self.path, body):
            self._json(200, stream.whole())
            return
        self._stream(step, stream, vary)

    def _other(self, body: dict[str, Any]) -> None:
        if self.path.partition("?")[0].endswith("/count_tokens"):
            self._json(200, {"input_tokens": max(1, len(json.dumps(body)) // 4)})
        elif ":countTokens" in self.path:
            self._json(200, {"totalTokens": max(1, len(json.dumps(body)) // 4)})
        else:
            self._json(404, {"error": {"type": "not_found_error", "message": "Not found"}})

    def _body(self) -> dict[str, Any]:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            decoded = json.loads(raw or b"{}")
        except ValueError:
            return {}
        return decoded if isinstance(decoded, dict) else {}

    def _json(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, step: Reply | Broken, stream: Stream, vary: Variation) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        frames = list(stream.body())
        if isinstance(step, Broken):
            if step.ending == "error":
                frames.append(stream.failure())
            for frame in frames:
                self._chunk(frame)
            time.sleep(0.5)  # some clients discard what arrives together with the end
            if step.ending == "dropped":
                self.close_connection = True
            else:
                self._chunk(b"")
            return
        frames += stream.finish()
        delivery = step.delivery
        if delivery.keep_alive and (idle := stream.keep_alive()):
            frames = [each for frame in frames for each in (frame, idle)]
        for number, data in enumerate(vary.writes(frames, delivery)):
            if delivery.half and number == 1 and len(data) > 1:
                cut = vary.middle(len(data))
                self._chunk(data[:cut])
                time.sleep(delivery.half)
                self._chunk(data[cut:])
            else:
                self._chunk(data)
            time.sleep(delivery.pause)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


def listed_model(name: str) -> dict[str, Any]:
    """A row of OpenAI's list and of Anthropic's at once: each reads its own fields."""
    return {
        "id": name,
        "object": "model",
        "created": 1735689600,
        "owned_by": "service",
        "type": "model",
        "display_name": name,
        "created_at": "2025-01-01T00:00:00Z",
    }


def listed_models() -> dict[str, Any]:
    rows = [listed_model(name) for name in MODELS]
    return {"object": "list", "data": rows, "has_more": False}


def google_models() -> dict[str, Any]:
    methods = ["generateContent", "countTokens"]
    rows = [{"name": f"models/{each}", "supportedGenerationMethods": methods} for each in MODELS]
    return {"models": rows}
