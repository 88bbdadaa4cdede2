"""A third-party agent: a package with an entry point, in under 80 lines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGE = HERE / "tillerman_acme.py"

WIRE = """\
{"session": "s1", "model": "acme-1"}
{"text": "hello"}
{"may_i": "1", "command": "true"}
{"ran": "1", "ok": true}
{"done": true}
"""
EVENTS = """\
{"type":"agent_ready","native_id":"s1","model":"acme-1"}
{"type":"message_chunk","message_id":"acme","text":"hello"}
{"type":"tool_started","call_id":"1","tool":"Bash","name":"sh","title":"Bash `true`","input":{"command":"true"}}
{"type":"permission_requested","request_id":"1","tool":"Bash","title":"Bash `true`","input":{"command":"true"},"call_id":"1"}
{"type":"tool_finished","call_id":"1","outcome":"completed"}
{"type":"turn_ended","reason":"completed"}
"""  # noqa: E501

THEIR_TEST = """
from pathlib import Path
from tillerman.agents import available, load
from tillerman.testing import check_agent

check_agent(load("acme"), Path("recordings"))
print(sorted({"acme", "mock"} & set(available())))
"""

ONE_TURN = """
import asyncio
from pathlib import Path
from tillerman.agents import load
from tillerman.core.session_options import session_spec
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.events import Answer, PermissionRequested, TurnEnded, encode
from tillerman.testing import PlainHost

async def main():
    async with PlainHost.open(Path("host")) as host:
        spec = session_spec(cwd=Path("project"), model="acme-2")
        conversation = await load("acme").open(spec, host)
        await conversation.prompt(Prompt("hi"))
        async for batch in conversation.batches():
            for event in [event for heard in batch for event in heard.events]:
                print(encode(event).decode(), flush=True)
                if isinstance(event, PermissionRequested):
                    await conversation.answer(event.request_id, Answer("allow"))
                if isinstance(event, TurnEnded):
                    await conversation.close()

asyncio.run(asyncio.wait_for(main(), 20))
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages, as pip leaves it after installing this one."""
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(PACKAGE, site)
    shutil.copy(HERE / "acme_program.py", site)
    info = site / "tillerman_acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tillerman-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tillerman.agents]\nacme = tillerman_acme:agent\n")
    return site


def python(program: str, site: Path, cwd: Path) -> str:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "HOME": str(cwd)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_whole_package_is_under_80_lines() -> None:
    assert len(PACKAGE.read_text().splitlines()) < 80


def test_it_is_found_by_its_entry_point_and_conforms(site: Path, tmp_path: Path) -> None:
    recording = tmp_path / "recordings" / "hello"
    recording.mkdir(parents=True)
    (recording / "wire.jsonl").write_text(WIRE)
    (recording / "events.jsonl").write_text(EVENTS)
    assert python(THEIR_TEST, site, tmp_path) == "['acme', 'mock']\n"


def test_tillerman_drives_it_for_a_turn_with_a_permission(site: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "host").mkdir()
    reported = [json.loads(line) for line in python(ONE_TURN, site, tmp_path).splitlines()]
    tool = {"tool": "Bash", "title": "Bash `echo acme > acme.txt`"}
    input = {"input": {"command": "echo acme > acme.txt"}}
    started = reported.pop(0)
    assert started == {
        "type": "agent_started", "agent": "acme", "supervision": started["supervision"],
    }  # fmt: skip
    assert reported == [
        {"type": "agent_ready", "native_id": "acme-session", "model": "acme-2"},
        {"type": "message_chunk", "message_id": "acme", "text": "You said 'hi'. "},
        {"type": "tool_started", "call_id": "1", "name": "sh", **tool, **input},
        {"type": "permission_requested", "request_id": "1", **tool, **input, "call_id": "1"},
        {"type": "tool_finished", "call_id": "1", "outcome": "completed"},
        {"type": "message_chunk", "message_id": "acme", "text": "Goodbye."},
        {"type": "turn_ended", "reason": "completed"},
        {"type": "agent_exited", "code": 0},
    ]
    assert (tmp_path / "project" / "acme.txt").read_text() == "acme\n"
