"""Conformance tests of an agent: checks that it implements the agent protocol.

A third party's test is one line:

    check_agent(agent, Path("recordings"))

Every agent: its declarations agree, and it raises `Unsupported` for what it does not declare; it
is reported as advisory (`AdvisoryAgent`) unless it declares that it asks before writes and
commands. An agent with a wire: what it declares reaches its program, and no line makes it raise.
Each recording: it decodes to its events, or if they are not given is recognized to the end of a
turn, with any chunk size; no key that is dropped, renamed or of another type makes it raise; and
wherever it breaks off, every turn that began ends once. Randomly corrupted streams of recorded
lines give the same events with any chunk size.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import re
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NoReturn, get_args

import msgspec

from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.capability_check import undeclared_asks
from tillerman.core.agent import Agent, File, Prompt, SessionSpec
from tillerman.core.agent_admin import METHODS
from tillerman.core.capabilities import CAPABILITIES
from tillerman.core.errors import Unsupported
from tillerman.core.events import Event, TurnEnded, Unrecognized, decode_event, encode
from tillerman.core.session_options import with_options
from tillerman.core.tools import ToolClass
from tillerman.core.wire import AttachmentBytes, WireReply
from tillerman.testing.broken_streams import NONSENSE, corrupted
from tillerman.testing.conformance_cases import CASES, check
from tillerman.testing.recording_player import (
    PROMPT,
    SPEC,
    RecordedHost,
    TurnCount,
    listener,
    play_conversation,
    receive,
)
from tillerman.testing.recordings import Recording, changes, load
from tillerman.testing.scenario import Scenario

CHUNKS = (1, 7, 64, 65536)
TOKEN = "conformance-7321"
EFFORT = "high"  # every agent has it: others are refused
IMAGE = File("token.png", "image/png", TOKEN.encode())

ASKED: Mapping[str, dict[str, Any]] = {  # capability -> a session that requires it
    "model": {"model": TOKEN},
    "modes": {"mode": "plan"},
    "resume": {"resume": TOKEN},
    "effort": {"effort": EFFORT},
    "system": {"system": TOKEN},
    "folders": {"folders": (Path("/") / TOKEN,)},
    "mcp": {"servers": {TOKEN: {"command": TOKEN}}},
    "tools": {"allowed_tools": (TOKEN,)},
    "schema": {"output_schema": {"title": TOKEN, "type": "object"}},
    "limits": {"max_turns": 7321},
}


class NonConforming(AssertionError):
    """The requirement that the agent does not meet, and where."""


class AdvisoryAgent(UserWarning):
    """The agent conforms, but only preset `auto` starts it: it does not declare that it asks."""


FarSide = Callable[[dict[str, Any]], Iterable[dict[str, Any]]]


def check_agent(
    agent: Agent,
    recordings: Path | None = None,
    *,
    scene: Scenario | None = None,
    cuts: int = 20,
    streams: int = 200,
    far_side: FarSide | None = None,
) -> None:
    """Raises `NonConforming` for the first requirement that is not met.

    Each recording is cut off at `cuts` positions, and `streams` random corruptions are tried.
    `far_side` returns the program's answer to a message, for a wire with a handshake. With a
    `scene` the agent also runs every case of `tillerman.testing.conformance_cases` that it
    declares to support.
    """
    check_info(agent)
    _run(check_refusals(agent))
    if scene:
        _run(check_scene(scene))
    if not isinstance(agent, StdioAgent):
        return
    check_wire(agent, far_side)
    found = load(recordings) if recordings else []
    if recordings and not found:
        _fail(f"there is no wire.jsonl under {recordings}")
    seen: set[tuple[str, ...]] = set()
    for recording in found:
        check_decoding(agent, recording)
        _run(check_cuts(agent, recording, cuts))
    for recording in sorted(found, key=lambda one: len(one.lines)):  # each path in the shortest
        check_changes(agent, recording, seen)
    check_streams(agent, [line for recording in found for line in recording.lines], streams)


# -- any agent -------------------------------------------------------------------------------------


def check_info(agent: Agent) -> None:
    info = agent.info
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", info.name):
        _fail(f"its name {info.name!r} is not lower-case letters, digits, - and _")
    if not info.title.strip():
        _fail("it has no title")
    if unknown := sorted(info.can - set(CAPABILITIES)):
        _fail(f"it declares {unknown}, which are not in CAPABILITIES")
    messages = sorted(set(METHODS) & info.can)
    if missing := [word for word in messages if not isinstance(agent, METHODS[word])]:
        _fail(f"it declares {missing} but lacks the methods for it")
    if "fork" in info.can and "resume" not in info.can:
        _fail("it declares fork but not resume")
    if info.binary and not info.install:
        _fail(f"it needs {info.binary!r} but has no install command")
    if wrong := [name for name in info.variables if not re.fullmatch(r"[A-Z][A-Z0-9_]*\*?", name)]:
        _fail(f"these are not variable names: {wrong}")
    if unknown := sorted(info.asks - set(get_args(ToolClass))):
        _fail(f"it declares that it asks before {unknown} calls, which are not tool classes")
    if not inspect.iscoroutinefunction(getattr(agent, "open", None)):
        _fail("its `open` is not an async method")
    if undeclared := undeclared_asks(info):
        warnings.warn(
            f"{info.name} is advisory: it does not declare in AgentInfo.asks that it asks before "
            f"every {' and '.join(undeclared)} call, so a session starts with it only under "
            "--approve auto or --accept-advisory",
            AdvisoryAgent,
            stacklevel=3,
        )


async def check_refusals(agent: Agent) -> None:
    for word, asked in ASKED.items():
        if word in agent.info.can:
            continue
        host = _EmptyHost()
        try:
            await agent.open(with_options(SPEC, **asked), host)
        except Unsupported:
            continue
        except _Started:
            pass
        except Exception as error:
            _fail(f"without {word!r} it must raise Unsupported for {asked}, not {error!r}")
        _fail(f"it does not declare {word!r}, but accepts {asked} instead of raising Unsupported")


async def check_scene(scene: Scenario) -> None:
    for case in CASES.values():
        verdict = await check(scene, case)
        if verdict.outcome == "fails":
            _fail(f"{case.name}: {verdict.why}")


class _Started(Exception):
    """The agent tried to run a program."""


class _EmptyHost(RecordedHost):
    def find(self, binary: str) -> NoReturn:
        raise _Started


# -- an agent with a wire --------------------------------------------------------------------------


def check_wire(agent: StdioAgent, far_side: FarSide | None = None) -> None:
    wire = agent.wire(SPEC)
    if wire.lifetime not in ("session", "turn"):
        _fail(f"its wire has lifetime {wire.lifetime!r}, not `session` or `turn`")
    if wire.lifetime == "turn" and "steer" in agent.info.can:
        _fail("it declares steer, but its process accepts no further input")
    if TOKEN not in _sent(agent, SPEC, Prompt(TOKEN), far_side):
        _fail("the prompt does not reach its program")
    for word in sorted(agent.info.can & set(ASKED)):
        spec = with_options(SPEC, **ASKED[word])
        report, plain = (_sent(agent, one, PROMPT, far_side) for one in (spec, SPEC))
        sought = EFFORT if word == "effort" else TOKEN
        if report == plain or (sought not in report and word not in ("modes", "limits")):
            _fail(f"it declares {word!r}, but {ASKED[word]} does not reach its program")
    if "images" in agent.info.can:
        data = base64.b64encode(IMAGE.data).decode()
        if data not in _sent(agent, SPEC, Prompt("look", (IMAGE,)), far_side):
            _fail("it declares images, but their bytes do not reach its program")
    for line in NONSENSE:
        reported = _decode(agent, line)
        if not reported or not all(isinstance(one, Unrecognized) for one in reported):
            _fail(f"{line[:60]!r} must become Unrecognized, not {reported}")


def _sent(
    agent: StdioAgent, spec: SessionSpec, prompt: Prompt, far_side: FarSide | None = None
) -> str:
    """Everything that a first turn sends to the program."""
    wire = agent.wire(spec)
    per_turn = wire.lifetime == "turn"
    launch = wire.launch(spec, prompt if per_turn else None)
    messages = [*wire.greet(), *([] if per_turn else wire.prompt(prompt))]
    for message in messages if far_side else ():  # grows during the iteration
        for line in map(encode, far_side(message) if far_side else ()):
            messages += [one.message for one in wire.decode(line) if isinstance(one, WireReply)]
    words = repr([launch.argv, dict(launch.env), launch.places])
    stdin = (launch.stdin or b"").decode("utf-8", "replace")
    return words + stdin + msgspec.json.encode(messages).decode()


# -- recordings ------------------------------------------------------------------------------------


def check_decoding(agent: StdioAgent, recording: Recording) -> None:
    reported = _decode(agent, *recording.lines)
    if recording.expected is not None:
        _compare(recording, reported)
    else:
        _check_understood(recording, reported)
    if len(recording.parts) == 1 and _ends_unbegun(reported):
        _fail(f"{recording.name}: a turn ends that never started")
    data = b"".join(line + b"\n" for line in recording.lines)
    whole = receive(agent, data, len(data) or 1)
    for size in CHUNKS:
        if receive(agent, data, size) != whole:
            _fail(f"{recording.name}: chunks of {size} bytes give different events")


def check_changes(agent: StdioAgent, recording: Recording, seen: set[tuple[str, ...]]) -> None:
    lines = recording.lines
    for number, line in enumerate(lines):
        for what, changed in changes(line, seen):
            try:
                _decode(agent, *lines[:number], changed, *lines[number + 1 :])
            except NonConforming as error:
                _fail(f"{recording.name}: with {what}, {error}")


async def check_cuts(agent: StdioAgent, recording: Recording, cuts: int) -> None:
    size = sum(len(line) + 1 for line in recording.lines)
    offsets = {round(n * size / max(cuts, 1)) for n in range(cuts + 1)}
    for offset in sorted(offsets):
        events, turns = await play_conversation(agent, recording.parts, cut=offset)
        if turns.open or turns.unbegun:
            _fail(
                f"{recording.name}: cut after {offset} of {size} bytes, {turns.begun} turns began,"
                f" {turns.open} did not end, {turns.unbegun} ended that never started;"
                f" the last events are {events[-3:]}"
            )


def check_streams(agent: StdioAgent, lines: Sequence[bytes], count: int, *, seed: int = 0) -> None:
    """Randomly corrupted streams of these lines give the same events with any chunk size."""
    random = Random(seed)
    for number in range(count):
        data = corrupted(lines, random)
        first, *others = (receive(agent, data, size) for size in CHUNKS)
        for size, events in zip(CHUNKS[1:], others, strict=True):
            if events != first:
                _fail(f"stream {number} of seed {seed} depends on chunks of {size}: {data!r}")
        for event in first:
            _check_storable(event)


def _compare(recording: Recording, messages: Sequence[Event | WireReply]) -> None:
    got = [
        encode({"reply": one.message} if isinstance(one, WireReply) else one) for one in messages
    ]
    expected = recording.expected or ()
    for number, (one, other) in enumerate(zip(got, expected, strict=False), 1):
        if msgspec.json.decode(one) != msgspec.json.decode(other):
            where = f"{recording.name}/events.jsonl:{number}"
            _fail(f"{where} expects\n  {other.decode()}\nbut the wire emits\n  {one.decode()}")
    if len(got) != len(expected):
        more = (got + list(expected))[min(len(got), len(expected)) :]
        _fail(
            f"{recording.name}: {len(expected)} events are expected, but there are {len(got)};"
            f" the first difference is\n  {more[0].decode()}"
        )


def _check_understood(recording: Recording, messages: Sequence[Event | WireReply]) -> None:
    """Requires recognized events: without expectations, a wire that ignores all would pass."""
    for one in messages:
        if isinstance(one, Unrecognized):
            _fail(f"{recording.name}: unrecognized: {one.raw[:200]!r}: {one.why}")
    if len(recording.parts) == 1 and not any(isinstance(one, TurnEnded) for one in messages):
        _fail(f"{recording.name}: no turn ends; if that is intended, add an events.jsonl")
    if not messages:
        _fail(f"{recording.name}: its lines yield no events")


def _decode(agent: StdioAgent, *lines: bytes) -> list[Event | WireReply]:
    """The decoded events and replies; the bytes of an image are represented by its hash."""
    wire = listener(agent)
    messages: list[Event | WireReply] = []
    for line in lines:
        if not line.strip():
            continue
        try:
            now = [one for one in wire.decode(line) if not isinstance(one, AttachmentBytes)]
        except Exception as error:
            raise NonConforming(f"its wire raised {error!r} for {line[:200]!r}") from error
        for one in now:
            _check_storable(one)
        messages += now
    return messages


def _check_storable(one: Event | WireReply) -> None:
    """An event with wrong types can be created, but not decoded from the log."""
    try:
        if isinstance(one, WireReply):
            encode(one.message)
            return
        again = decode_event(encode(one))
    except Exception as error:
        raise NonConforming(f"{error!r} when {one!r} is encoded") from error
    if again != one:
        _fail(f"{one!r} is read again from the log as {again!r}")


def _ends_unbegun(messages: Iterable[object]) -> bool:
    turns = TurnCount()
    turns.begin()
    turns.receive(messages)
    return turns.unbegun > 0


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Runs in a separate thread, so that a test may be async or not."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def _fail(message: str) -> NoReturn:
    raise NonConforming(message)
