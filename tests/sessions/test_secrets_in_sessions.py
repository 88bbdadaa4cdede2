"""Secrets in real sessions, streamed by a real child: nothing stored or shown contains one."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import CHECKOUT
from tests.sessions.secret_places import WAYS, Fragments, canary, stored_files
from tests.sessions.session_desk import Desk
from tests.stand_ins.warm_python import run_tillerman
from tillerman.core import tools
from tillerman.core.agent import File
from tillerman.core.events import (
    AgentExited,
    Answer,
    Entry,
    MessageChunk,
    Notice,
    PermissionRequested,
    QuestionAsked,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    Unrecognized,
    UserMessage,
)
from tillerman.sessions.session import Session
from tillerman.supervision.secrets import Secrets

SECRET = 'kW3-sesame/4711+open"0815~zzQ7'
SECRETS = [("MAGIC", SECRET)]
MARK = "[secret:MAGIC]"
FRAGMENTS = Fragments([SECRET])
MAX_WAIT = 20.0

Steps = list[dict[str, Any]]


def nothing_found(desk: Desk, *sessions: str, fragments: Fragments = FRAGMENTS) -> None:
    for place, data in stored_files(desk, sessions).items():
        assert fragments.found_in(data) == [], place


def scripted(desk: Desk, *turns: Steps) -> str:
    script = desk.folder / "script.json"
    script.write_text(json.dumps(turns))
    return str(script)


async def play(
    desk: Desk, *steps: dict[str, Any], **run_settings: Any
) -> tuple[Session, list[Entry]]:
    """The script of the turn is in a file, because the prompt is another place to check."""
    session = await desk.start(scripted(desk, list(steps)), secrets=SECRETS, **run_settings)
    entries = [entry async for entry in session.run("go")]
    await session.close()
    return session, [*entries, *desk.sessions.log.since(session.id, entries[-1].seq)]


def only(entries: Sequence[Entry], kind: type) -> Any:
    (event,) = [entry.event for entry in entries if isinstance(entry.event, kind)]
    return event


# -- words in pieces -------------------------------------------------------------------------------


async def stream(desk: Desk, canaries: Sequence[str], ways: Sequence[str]) -> int:
    """Every canary in every way, cut at every point, alternating between messages and thoughts."""
    names = [(f"CANARY_{number}", value) for number, value in enumerate(canaries)]
    secrets = Secrets(dict(names))
    steps: Steps = []
    wanted: dict[str, str] = {}
    for number, value in enumerate(canaries):
        for way in ways:
            text = f"env | {WAYS[way](value)}; end"
            whole = secrets.redact_text(text)
            for cut in range(len(text) + 1):
                id = f"{number}.{way}.{cut}"
                wanted[id] = whole
                kind = "thought" if cut % 2 else "text"
                for piece in (text[:cut], text[cut:]):
                    steps.append({"send": {"type": kind, "id": id, "text": piece}})
    session = await desk.start(scripted(desk, steps), secrets=names)
    reported: defaultdict[str, str] = defaultdict(str)
    async for entry in session.run("go"):
        if isinstance(entry.event, MessageChunk | ThoughtChunk):
            reported[entry.event.message_id] += entry.event.text
    await session.close()
    assert reported == wanted
    nothing_found(desk, session.id, fragments=Fragments(canaries))
    return len(wanted)


@pytest.mark.timeout(120)
async def test_ten_canaries_cut_anywhere_are_not_found(desk: Desk) -> None:
    chance = random.Random(10)
    canaries = [canary(chance)[:24] for _ in range(10)]
    assert await stream(desk, canaries, ["plain", "json", "url", "base64, second"]) > 1_000


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(40))
async def test_a_thousand_canaries_cut_anywhere_are_not_found(desk: Desk, batch: int) -> None:
    chance = random.Random(3000 + batch)
    canaries = [canary(chance) for _ in range(25)]
    assert await stream(desk, canaries, list(WAYS)) > 20_000


async def test_held_back_text_is_released_by_any_other_event_and_by_the_end(desk: Desk) -> None:
    start = SECRET[:12]
    _, entries = await play(
        desk,
        {"send": {"type": "text", "id": "m1", "text": f"one {start}"}},
        {"notice": "something else"},
        {"send": {"type": "thought", "id": "m2", "text": f"two {start}"}},
        {"send": {"type": "text", "id": "m3", "text": f"three {start}"}},
    )
    reported = [
        e.event.text for e in entries if isinstance(e.event, MessageChunk | ThoughtChunk | Notice)
    ]
    assert reported == ["one ", start, "something else", "two ", start, "three ", start]


async def test_a_raw_line_that_ends_a_secret_is_not_stored(desk: Desk) -> None:
    turns: list[Steps] = [
        [
            {"send": {"type": "text", "id": "m1", "text": f"it is {SECRET[:cut]}"}},
            {"send": {"type": "text", "id": "m1", "text": f"{SECRET[cut:]}!"}},
        ]
        for cut in range(1, len(SECRET))
    ]
    session = await desk.start(scripted(desk, *turns), secrets=SECRETS)
    for _ in turns:
        entries = [entry async for entry in session.run("go")]
        message = "".join(e.event.text for e in entries if isinstance(e.event, MessageChunk))
        assert message == f"it is {MARK}!"
    await session.close()
    nothing_found(desk, session.id)


async def test_a_kill_while_text_is_held_back_leaves_none_of_it(desk: Desk, tmp_path: Path) -> None:
    program = tmp_path / "owner.py"
    program.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(CHECKOUT)!r})\n"
        "from tests.sessions.session_desk import Desk\n"
        "async def main():\n"
        "    desk = Desk(Path(sys.argv[1]))\n"
        "    session = await desk.start(sys.argv[2], secrets=[('MAGIC', sys.argv[3])])\n"
        "    await session.prompt('go')\n"
        "    async for entry in session.entries():\n"
        "        print(entry, flush=True)\n"
        "asyncio.run(main())\n"
    )
    script = scripted(
        desk,
        [
            {"send": {"type": "text", "id": "m1", "text": f"it is {SECRET[:-1]}"}},
            {"sleep": 0.2},
            {"stderr": SECRET[:-1]},
            {"hang": True},
        ],
    )
    owner = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, str(program), str(desk.folder), script, SECRET], stdout=subprocess.PIPE
    )
    assert owner.stdout
    try:
        async with asyncio.timeout(MAX_WAIT):
            while b"it is " not in await asyncio.to_thread(owner.stdout.readline):
                pass
        await asyncio.sleep(0.3)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    await desk.sessions.recover()
    (row,) = desk.sessions.catalog.list()
    nothing_found(desk, row.id)


# -- every other place -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_no_kind_of_event_stores_a_secret(desk: Desk, way: str) -> None:
    text = f"<{WAYS[way](SECRET)}>"
    session, entries = await play(
        desk,
        {"run": f"printf %s '{text}'"},
        {"write": str(desk.project / "notes"), "text": text},
        {"read": str(desk.project / "notes")},
        {"edit": str(desk.project / "notes"), "old": text, "new": f"{text}\n{text}"},
        {"send": {"type": "call", "id": "c9", "tool": text, "input": {text: [text, {"a": text}]}}},
        {"send": {"type": "output", "id": "c9", "text": text}},
        {"send": {"type": "a new kind", "text": text}},
        {"line": "no JSON: " + text.replace("\n", "")},
        {"line": json.dumps({"type": "text", "id": "m", "text": text})[:-1]},
        {"plan": [text]},
        {"notice": text},
        {"task": text, "steps": [{"think": text}, {"say": text}]},
        {"send": {"type": "settings", "title": text, "model": text}},
        {"send": {"type": "text", "id": text, "text": "the id of a message"}},
        {"say": text},
        {"stderr": text},
        {"fail": "agent_failed", "message": text, "hint": text},
        approve="auto",
    )
    nothing_found(desk, session.id)
    assert only(entries, TurnStarted).prompt == "go"
    hits = desk.sessions.search.search("secret MAGIC")
    assert {hit.session for hit in hits} == {session.id}


async def test_a_structured_result_and_the_last_output_of_a_crash_hold_no_secret(
    desk: Desk,
) -> None:
    first, entries = await play(desk, {"stop": {SECRET: [SECRET, {"deep": SECRET}]}})
    assert any(MARK in str(entry.event) for entry in entries)
    second, entries = await play(
        desk, {"stderr": "x" * 30_000 + SECRET + "y" * (8 * 1024 - 9)}, {"crash": 3}
    )
    words = only(entries, AgentExited).detail
    assert words == MARK + "y" * (8 * 1024 - 9)
    nothing_found(desk, first.id, second.id)


@pytest.mark.parametrize("at", range(0, len(SECRET), 3))
async def test_no_cut_leaves_a_part_of_a_secret(desk: Desk, at: int) -> None:
    """The cap of a result, the head of an over-long line, a title, an input."""
    cap = 20_000
    head, tail = cap * 3 // 5, cap * 2 // 5
    long = "x" * (head - at) + SECRET + "y" * 50_000 + SECRET + "z" * (tail - at)
    result = {"type": "result", "call_id": "c1", "outcome": "completed"}
    session, entries = await play(
        desk,
        {"send": {"type": "call", "id": "c1", "tool": "run", "input": {"command": long}}},
        {"send": {**result, "content": [{"type": "text", "text": long}]}},
        {"send": {"type": "call", "id": "c2", "tool": "run",
                  "input": {"command": "echo " + "x" * (60 - at) + f" {SECRET}"}}},
        {"send": {"type": "call", "id": "c3", "tool": "read",
                  "input": {"path": "/" + "p" * (40 - at) + SECRET + "/file"}}},
        {"line": "x" * (4096 - at) + SECRET + "y" * 100_000},
        {"line": "x" * (cap - at) + SECRET + "y" * 1_000},
        output_cap=cap,
        line_cap=90_000,
    )  # fmt: skip
    nothing_found(desk, session.id)
    cut = only(entries, ToolFinished).content[0]
    assert cut.text.startswith("x" * (head - at) + MARK[:at])
    whole = (desk.paths.spill / session.id / cut.cut.spill).read_text()
    assert whole == long.replace(SECRET, MARK)
    calls = [e.event for e in entries if isinstance(e.event, ToolStarted)]
    assert calls[1].title == tools.title("Bash", calls[1].input)
    assert calls[1].input["command"].endswith(f" {MARK}")
    lines = [e.event for e in entries if isinstance(e.event, Unrecognized)]
    assert [line.raw.strip("x") for line in lines] == ["", (MARK + "y" * 99)[:at]]
    assert lines[0].length == 4096 - at + len(SECRET) + 100_000


async def test_a_message_too_long_for_an_event_is_cut_around_the_secret(desk: Desk) -> None:
    text = "x" * (30_000 - 12) + SECRET + "y" * 1_100_000
    session, entries = await play(desk, {"send": {"type": "text", "id": "m", "text": text}})
    nothing_found(desk, session.id)
    reported = only(entries, MessageChunk).text
    assert reported.startswith("x" * (30_000 - 12) + MARK[:12] + "\n… ")
    assert reported.splitlines()[-1].endswith("bytes left out; complete in 00001]")
    whole = (desk.paths.spill / session.id / "00001").read_text()
    assert whole == text.replace(SECRET, MARK)


async def test_user_input_and_attachments_are_stored_without_the_secret(desk: Desk) -> None:
    script = scripted(
        desk,
        [
            {"run": "make"},
            {"run": "make", "reason": SECRET},
            {"question": [{"text": f"really {SECRET}?", "choices": [{"label": SECRET}]}]},
            {"listen": 10},
            {"say": "{steer} {answer} {files}"},
        ],
        [{"say": "{prompt}"}],
    )
    run_settings = desk.run_settings(secrets=SECRETS, approve="ask")
    spec = desk.spec(script)
    session = await desk.sessions.start(desk.agent, spec, run_settings, title=f"use {SECRET}")
    files = [File(f"{SECRET}.env", "text/plain", f"TOKEN={SECRET}\n".encode())]
    await session.prompt(f"my key is {SECRET}", files=files)
    second = desk.sessions.attach(desk.sessions.catalog.get(session.id))
    asked = 0
    async with asyncio.timeout(MAX_WAIT):
        async for entry in session.entries():
            match entry.event:
                case PermissionRequested(request_id=id) if asked == 0:
                    asked = 1
                    session.answer(id, Answer("deny", note=f"not with {SECRET}"))
                case PermissionRequested(request_id=id):
                    changed = {"command": f"echo {SECRET} | wc -c"}
                    await second.answer(id, Answer("allow", input=changed))
                case QuestionAsked(request_id=id):
                    await second.answer(id, Answer("allow", answers={"which": SECRET}))
                    await second.prompt(f"then {SECRET}")
                    await second.prompt(f"steer to {SECRET}", when_busy="steer")
                case UserMessage(how="queued"):
                    break
        await session.idle()
    await session.close()
    nothing_found(desk, session.id)
    row = desk.sessions.catalog.get(session.id)
    assert (row.title, row.prompt) == (f"use {MARK}", f"my key is {MARK}")
    (started, _) = [
        e.event for e in desk.sessions.log.since(session.id) if isinstance(e.event, TurnStarted)
    ]
    (attachment,) = started.attachments
    assert attachment.name == f"{MARK}.env"
    assert desk.sessions.attachments.get(attachment.hash) == f"TOKEN={MARK}\n".encode()


async def test_data_on_the_owner_socket_holds_no_secret(desk: Desk) -> None:
    session = await desk.start(secrets=SECRETS)
    reader, writer = await asyncio.open_unix_connection(desk.paths.socket(session.id))
    writer.write(b'{"type":"follow"}\n')
    for number in range(3):
        await session.ask(json.dumps([{"say": f"{number} {SECRET}"}, {"fail": "agent_failed"}]))
    await session.close()
    reported = await asyncio.wait_for(reader.read(), MAX_WAIT)
    writer.close()
    assert b'"seq"' in reported
    assert FRAGMENTS.found_in(reported) == []


# -- the whole program -----------------------------------------------------------------------------


def test_the_program_prints_logs_and_exports_no_secret(desk: Desk, tmp_path: Path) -> None:
    steps: Steps = [
        {"say": f"it is {SECRET}, "},
        {"run": f"printf %s '{SECRET}'"},
        {"line": f"unknown {SECRET}"},
        {"stderr": SECRET},
        {"fail": "agent_failed", "message": SECRET},
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TILLERMAN_HOME": str(desk.folder / "home"),
        "TILLERMAN_MOCK_STATE": str(tmp_path / "mock"),
        "SOME_API_KEY": SECRET,
    }

    def tillerman(*words: str) -> bytes:
        done = run_tillerman(words, cwd=desk.project, env=environment)
        return (done.stdout + done.stderr).encode()

    script = scripted(desk, steps)
    messages = [
        tillerman("--debug", "run", "-a", "mock", "--json", "--title", f"a {SECRET}", script),
        tillerman("--debug", "run", "-a", "mock", script),
        tillerman(
            "run",
            "-a",
            "mock",
            "--approve",
            "auto",
            "--json=summary",
            f"what is {SECRET}? script:demo",
        ),
    ]
    rows = desk.sessions.catalog.list()
    assert len(rows) == 3
    messages.append(tillerman("sessions", "rename", rows[0].id, f"now {SECRET}"))
    assert desk.sessions.catalog.get(rows[0].id).title == "now [secret:SOME_API_KEY]"
    for row in rows:
        messages += [
            tillerman("sessions", "show", row.id),
            tillerman("sessions", "show", "--json", row.id),
        ]
        for form in ("md", "html", "jsonl"):
            messages.append(tillerman("sessions", "export", "--format", form, row.id))
    messages.append(tillerman("sessions", "list"))
    messages.append(tillerman("sessions", "search", "secret"))
    assert b"[secret:SOME_API_KEY]" in messages[0]
    for output in messages:
        assert FRAGMENTS.found_in(output) == []
    assert any(path.suffix == ".log" for path in desk.paths.state.parent.rglob("*"))
    nothing_found(desk, *[row.id for row in rows])


def test_the_debug_log_quotes_no_secret(desk: Desk) -> None:
    program = (
        "import logging; from tillerman.surfaces.cli.debug_log import start\n"
        "start(['GIVEN_TOKEN=' + __import__('sys').argv[1]])\n"
        "try: raise ValueError(f'it was {__import__(\"sys\").argv[1]}')\n"
        "except ValueError: logging.getLogger('x').exception('%s', __import__('sys').argv[1])\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, SECRET],
        env={"PATH": os.environ["PATH"], "TILLERMAN_HOME": str(desk.folder / "home")},
        check=True,
        capture_output=True,
    )
    (log,) = desk.paths.logs.iterdir()
    assert log.read_text().count("[secret:GIVEN_TOKEN]") == 3
    assert FRAGMENTS.found_in(log.read_bytes()) == []
