"""The pytest plug-in, used as in other projects: in a separate folder and process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tillerman
from tillerman.paths import find_paths

SYNC = """
import os
import tillerman

def test_it_has_a_private_home(tillerman_home):
    assert os.environ["TILLERMAN_HOME"] == str(tillerman_home)
    assert "TILLERMAN_AGENT" not in os.environ

def test_steps_are_played(tillerman_sync, tillerman_script, tillerman_project):
    steps = [{"write": "a.txt", "text": "1"}, {"say": "Written."}]
    with tillerman_sync.start(approve="auto", **tillerman_script(steps)) as session:
        assert session.ask("anything").text == "Written."
    assert (tillerman_project / "a.txt").read_text() == "1"

def test_the_store_is_new_for_each_test(tillerman_sync):
    assert list(tillerman_sync.list()) == []
"""

ASYNC = """
import pytest
import tillerman

{mark}

async def test_a_session_plays_steps(tillerman_mock):
    session = await tillerman_mock([{{"say": "One."}}], [{{"say": "Two."}}], approve="none")
    assert (await session.ask("a")).text == "One."
    assert (await session.ask("b")).text == "Two."

async def test_a_recorded_session_is_played_again(tillerman_replay, request):
    session = await tillerman_replay(request.config.rootpath / "recorded.jsonl")
    result = await session.ask("anything")
    assert result.text == "Recorded."

async def test_a_request_is_answered_by_the_code_under_test(tillerman_mock, tillerman_harness):
    refused = [{{"say": "Refused."}}, {{"stop": None}}]
    steps = [{{"write": "a.txt", "text": "1", "else": refused}}, {{"say": "Written."}}]
    deny = lambda request: tillerman.Answer("deny")
    session = await tillerman_mock(steps, approve="ask", on_permission=deny)
    assert (await session.ask("write it")).text == "Refused."
    assert not (tillerman_harness.cwd / "a.txt").exists()
"""


@pytest.fixture
async def project(tmp_path: Path) -> Path:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "recording")})
    folder = tmp_path / "their-project"
    folder.mkdir()
    async with tillerman.open(paths=paths, cwd=tmp_path) as harness:
        async with await harness.start("mock", approve="none") as session:
            await session.ask('[{"say": "Recorded."}]')
        recording = harness.sessions.record(harness.find(session))
        (folder / "recorded.jsonl").write_bytes(recording.read_bytes())
    return folder


def run(project: Path, test: str, *words: str) -> subprocess.CompletedProcess[str]:
    (project / "test_theirs.py").write_text(test)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *words],
        cwd=project,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(project.parent),
            "TILLERMAN_AGENT": "gemini",
            "PYTHONWARNINGS": "error::ResourceWarning",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("runner", ["auto", "strict", "anyio"])
def test_asynchronous_fixtures_work_with_each_runner(project: Path, runner: str) -> None:
    marks = {
        "auto": "",
        "strict": "pytestmark = pytest.mark.asyncio",
        "anyio": "pytestmark = pytest.mark.anyio\n\n"
        "@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'",
    }
    words = ["-p", "no:asyncio"] if runner == "anyio" else [f"--asyncio-mode={runner}"]
    ran = run(project, ASYNC.format(mark=marks[runner]), *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


def test_synchronous_fixtures_need_no_other_plug_in(project: Path) -> None:
    ran = run(project, SYNC, "-p", "no:asyncio", "-p", "no:anyio")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


def test_the_plug_in_loads_nothing_of_tillerman_before_a_fixture_is_used(project: Path) -> None:
    test = """
import sys

def test_nothing_is_loaded():
    own = {name for name in sys.modules if name.startswith("tillerman")}
    assert own <= {
        "tillerman", "tillerman._version", "tillerman.testing", "tillerman.testing.pytest_plugin",
    }
    assert "msgspec" not in sys.modules
"""
    ran = run(project, test, "-p", "no:asyncio", "-p", "no:anyio")
    assert ran.returncode == 0, ran.stdout + ran.stderr
