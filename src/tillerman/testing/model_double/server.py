"""Scripted model server on loopback: agent CLIs send requests, scenarios provide the replies."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from tillerman.testing.model_double import anthropic, gemini, openai_chat, openai_responses
from tillerman.testing.model_double.api import Api, summary_reply
from tillerman.testing.model_double.http_server import (
    CutConnection,
    HttpAnswer,
    HttpRequest,
    LoopbackServer,
)
from tillerman.testing.model_double.script import (
    DEFAULT,
    Attempts,
    Close,
    ConnectionCut,
    Fail,
    ModelMessage,
    ModelRequest,
    ReplyHold,
    Scenarios,
    Script,
    Stall,
    Step,
    read_scenarios,
)

_SECRET_HEADERS = {"x-api-key", "x-goog-api-key", "authorization", "proxy-authorization", "cookie"}
_JSON = {"content-type": "application/json"}
_APIS: dict[str, Api] = {
    "messages": anthropic,
    "responses": openai_responses,
    "chat": openai_chat,
    "gemini": gemini,
}
_SSE = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class ModelDouble:
    """Serves scenarios while its `async with` block runs.

    A user message that contains `@@name@@` starts the scenario of that name (`@@name:2@@` at its
    third step); the step is the number of replies in the conversation since, so a repeated request
    gets the same reply again (or the next of its `Attempts`) and concurrent conversations do not
    interfere. A conversation that the CLI compacts keeps its position.
    """

    def __init__(self, script: Scenarios | Script = (), *, port: int = 0) -> None:
        scenarios = script if isinstance(script, Mapping) else {DEFAULT: script}
        self.scenarios: dict[str, Script] = dict(scenarios)
        self._server = LoopbackServer(self._serve, port)
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._reached: Counter[str] = Counter()
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._arrival = asyncio.Condition()
        self._replies = 0
        self.requests: list[ModelRequest] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def turns(self) -> list[ModelRequest]:
        """The requests that got a step of a scenario, in order."""
        return [request for request in self.requests if request.kind == "turn"]

    def release(self, name: str) -> None:
        """Releases every `ReplyHold` of this name, including later ones."""
        self._gates[name].set()

    def forget(self) -> None:
        """Resets to the initial state: no scenarios, no requests, every `ReplyHold` released."""
        for gate in self._gates.values():
            gate.set()
        for stored in (self.scenarios, self.requests, self._attempts, self._reached, self._gates):
            stored.clear()

    async def seen(
        self, scenario: str = DEFAULT, step: int = 0, within: float = 10.0
    ) -> ModelRequest:
        """Waits for the first request for a step."""

        def found() -> list[ModelRequest]:
            return [r for r in self.turns if (r.scenario, r.step) == (scenario, step)]

        async with asyncio.timeout(within), self._arrival:
            await self._arrival.wait_for(found)
        return found()[0]

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.__aexit__(kind, error, trace)

    async def _serve(self, http: HttpRequest, answer: HttpAnswer) -> None:
        headers = {k: v for k, v in http.headers.items() if k not in _SECRET_HEADERS}
        request = ModelRequest(http.method, http.path, headers, _json_object(http.body))
        try:
            request = self._route(request)
        except (KeyError, TypeError, AttributeError) as error:
            self.requests.append(request)
            fail = Fail(400, message=f"unreadable request: {error!r}")
            await _refuse(fail, anthropic, answer)
            return
        self.requests.append(request)
        async with self._arrival:
            self._arrival.notify_all()
        if request.kind == "probe":
            await answer.send(200, b"{}", _JSON)
            return
        api = api_of(request)
        match request.kind:
            case "turn":
                step = self._choose(request)
                self._reached[request.scenario] = request.step + isinstance(step, ModelMessage)
                await self._play(step, request, answer)
            case "summary":
                await self._play(summary_reply(request.scenario, request.step), request, answer)
            case "background":
                await self._play(api.background_reply(request), request, answer)
            case "count":
                await answer.send(200, json.dumps(api.count(request.body)).encode(), _JSON)

    def _route(self, request: ModelRequest) -> ModelRequest:
        for name, api in _APIS.items():
            if kind := api.kind(request):
                request = msgspec.structs.replace(request, kind=kind, api=name)
                break
        if request.kind in ("turn", "summary"):
            scenario, step = api_of(request).lane(request.body)
            if request.kind == "summary" and step == 0:  # the conversation may arrive as one text
                step = self._reached[scenario]
            request = msgspec.structs.replace(request, scenario=scenario, step=step)
        if request.kind == "turn":
            place = (request.scenario, request.step)
            request = msgspec.structs.replace(request, attempt=self._attempts[place])
            self._attempts[place] += 1
        return request

    def _choose(self, request: ModelRequest) -> ModelMessage | Fail:
        script = self.scenarios.get(request.scenario)
        if script is None:
            known = ", ".join(map(repr, sorted(self.scenarios))) or "none"
            return Fail(400, message=f"no scenario {request.scenario!r}; there are: {known}")
        step = _step(script, request)
        if isinstance(step, Attempts):
            return step.steps[min(request.attempt, len(step.steps) - 1)]
        return step

    async def _play(
        self, step: ModelMessage | Fail, request: ModelRequest, answer: HttpAnswer
    ) -> None:
        api = api_of(request)
        self._replies += 1
        reply_id = f"{self._replies:04}"
        if isinstance(step, Fail) and step.kind in api.SENT_IN_STREAM and api.streams(request):
            step = ModelMessage((step,))
        if isinstance(step, Fail):
            await _refuse(step, api, answer)
        elif api.streams(request):
            await answer.begin(200, _SSE)
            for beat in api.beats(step, reply_id, request):
                if isinstance(beat, bytes):
                    await answer.write(beat)
                else:
                    await self._wait(beat)
        else:
            for part in step.parts:
                if isinstance(part, Fail):
                    await _refuse(part, api, answer)
                    return
                if isinstance(part, Close):  # a message in one piece cannot lack its end
                    raise CutConnection
                if isinstance(part, Stall | ReplyHold | ConnectionCut):
                    await self._wait(part)
            await answer.send(200, api.whole(step, reply_id, request), _JSON)

    async def _wait(self, pause: Stall | ReplyHold | ConnectionCut) -> None:
        match pause:
            case Stall(seconds):
                await asyncio.sleep(seconds)
            case ReplyHold(name, limit):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limit):
                        await self._gates[name].wait()
            case ConnectionCut(after):
                await asyncio.sleep(after)
                raise CutConnection


def api_of(request: ModelRequest) -> Api:
    """The API of a request, which decodes it."""
    return _APIS[request.api]


async def _refuse(fail: Fail, api: Api, answer: HttpAnswer) -> None:
    status, body = api.failure(fail)
    later = {} if fail.retry_after is None else {"retry-after": f"{fail.retry_after:g}"}
    await answer.send(status, json.dumps(body).encode(), _JSON | later)


def _step(script: Script, request: ModelRequest) -> Step:
    if callable(script):
        try:
            return script(request)
        except Exception as error:
            return Fail(400, message=f"the script of {request.scenario!r} raised {error!r}")
    if request.step < len(script):
        return script[request.step]
    have, wanted = len(script), request.step + 1
    return Fail(400, message=f"scenario {request.scenario!r} has {have} steps, asked for {wanted}")


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


async def _run(scenarios: Scenarios, port: int, lifetime: float) -> None:
    async with ModelDouble(scenarios, port=port) as double:
        sys.stdout.write(double.base_url + "\n")
        sys.stdout.flush()
        await asyncio.sleep(lifetime)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tillerman.testing.model_double.server")
    parser.add_argument("--script", type=Path, required=True, help="scenarios as JSON")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--lifetime", type=float, default=600, help="seconds until it stops")
    arguments = parser.parse_args(argv)
    try:
        scenarios = read_scenarios(arguments.script.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        parser.error(f"{arguments.script}: {error}")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(scenarios, arguments.port, arguments.lifetime))


if __name__ == "__main__":
    main()
