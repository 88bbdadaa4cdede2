"""The first turn of a session: by the CLI itself, in the service, and in an editor."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench.service_process import Service, a_service
from tests.real.bare import run_bare
from tests.real.clis import CliError, pinned
from tests.real.stages import STAGES, Actor
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

AGENTS = ("claude", "codex")
GOALS = {"claude": 0.5, "codex": 1.0}  # times the bare CLI, through a warm agent
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PROMPT = "@@turn@@ go"
WITHIN = 60.0
LOADED = 3.0  # seconds after which a started CLI waits for its first prompt
OFF = {"TILLERMAN_SERVER_WARM_AGENTS": "none"}


def first_turn(service: Service, body: Mapping[str, object]) -> float:
    """Seconds from the request that starts the session to the end of its turn, as a client sees."""
    began = time.monotonic()
    session = service.post("/sessions", body)["id"]
    line = http.client.HTTPConnection("127.0.0.1", service.port, timeout=WITHIN)
    line.request("GET", f"/api/v1/sessions/{session}/events?since=0", headers=service.headers)
    answer = line.getresponse()
    while entry := answer.readline():
        if b'"type":"turn_ended"' in entry:
            break
    took = time.monotonic() - began
    line.close()
    if b'"reason":"completed"' not in entry:
        raise SystemExit(f"the turn failed: {entry.decode()}")
    return took


async def editor_turn(agent: str, project: Path, environment: Mapping[str, str]) -> float:
    """Seconds from the first prompt of an editor to its answer; the session is some seconds old."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tillerman", "acp", "-a", agent, "--approve", "auto"),
        cwd=project,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin
    assert process.stdout

    async def call(number: int, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        assert process.stdin
        assert process.stdout
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        async for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == number and "method" not in answer:
                return dict(answer["result"])
        raise SystemExit(f"tillerman acp ended at {method}")

    await call(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    new = await call(2, "session/new", {"cwd": str(project), "mcpServers": []})
    await asyncio.sleep(LOADED)
    began = time.monotonic()
    prompt = {"sessionId": new["sessionId"], "prompt": [{"type": "text", "text": PROMPT}]}
    answer = await call(3, "session/prompt", prompt)
    took = time.monotonic() - began
    if answer["stopReason"] != "end_turn":
        raise SystemExit(f"the turn failed: {answer}")
    process.stdin.close()
    await process.wait()
    return took


def warm(service: Service) -> None:
    until = time.monotonic() + WITHIN
    while not service.get("/health")["warm_agents"]:
        if time.monotonic() > until:
            raise SystemExit("no agent is warm")
        time.sleep(0.2)
    time.sleep(LOADED)


async def measure(agent: str, folder: Path) -> dict[str, list[float]]:
    cli = pinned(agent)[0]
    project = folder / "project"
    project.mkdir(parents=True)
    actor = Actor(STAGES[agent], cli, cli.path(), folder / "home", project)
    took: dict[str, list[float]] = {"bare": [], "warm": [], "cold": [], "editor": []}
    async with AsyncExitStack() as stack:
        double = await stack.enter_async_context(ModelDouble({"turn": [reply(Say("Done."))]}))
        actor.prepare(double.base_url)
        own = {f"TILLERMAN_AGENTS_{agent.upper()}_BINARY": str(actor.program)}
        environment = actor.environment(double.base_url, **own)
        named = actor.stage.environment(double.base_url, actor.version).keys() | {actor.key}
        body: dict[str, object] = {
            "agent": agent,
            "cwd": str(project),
            "approve": "auto",
            "prompt": PROMPT,
        }
        body |= {"env": sorted(named), "linger": 0}
        body |= {"model": actor.model} if actor.model else {}
        passed = {"TILLERMAN_ENV_PASS": ",".join(sorted(named))}
        services = {}
        for name, more in (("warm", {}), ("cold", OFF)):
            home = {"TILLERMAN_HOME": str(folder / name)}
            started = a_service(project, environment | home | more)
            services[name] = await stack.enter_async_context(started)
        for round in range(ROUNDS + 1):
            begin = time.monotonic()
            bare = (await run_bare(actor, double, PROMPT, free=True)).ended_at - begin
            if round:
                await asyncio.to_thread(warm, services["warm"])
            each = {"bare": bare}
            for name, service in services.items():
                each[name] = await asyncio.to_thread(first_turn, service, body)
            own_home = environment | {"TILLERMAN_HOME": str(folder / "editor")} | passed
            each["editor"] = await editor_turn(agent, project, own_home)
            if round:  # the first round fills caches, and there is no warm agent yet
                for name, seconds in each.items():
                    took[name].append(seconds)
    return took


async def report() -> None:
    for agent in AGENTS:
        with tempfile.TemporaryDirectory() as name:
            try:
                took = await measure(agent, Path(name))
            except CliError as missing:
                print(f"{agent:<8}{missing}")
                continue
        bare = took["bare"]
        print(f"{agent}: first turn of a session, medians of {ROUNDS}, in turn")
        print(f"  the CLI by itself     {median(bare) * 1000:6.0f} ms")
        for kind, told in (
            ("warm", "through a warm agent"),
            ("cold", "without one"),
            ("editor", "in an editor"),
        ):
            ratio = median(o / b for o, b in zip(took[kind], bare, strict=True))
            goal = f"   (goal {GOALS[agent]})" if kind != "cold" else ""
            print(f"  {told:<22}{median(took[kind]) * 1000:6.0f} ms {ratio:5.2f} x{goal}")
