"""`tillerman.ask` and `tillerman.query`, and the forms in which options and results are given."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import tillerman
import tillerman.sync
from tests.harness.api_desk import harness_in, script
from tillerman.core.events import MessageChunk

HELLO = script({"say": "Hello."})
ANSWER = script({"say": '{"verdict": "fine", "score": 7}'})


class Struct(msgspec.Struct):
    verdict: str
    score: int


@dataclass
class Dataclass:
    verdict: str
    score: int


class Typed(TypedDict):
    verdict: str
    score: int


class Model(pydantic.BaseModel):
    verdict: str
    score: int


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, with a state of its own for functions that open the store themselves."""
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TILLERMAN_MOCK_STATE", str(tmp_path / "mock"))
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path / "project"


async def test_without_an_agent_that_of_the_config_is_used(project: Path) -> None:
    (project.parent / "home/config.toml").write_text('agent = "mock"\n')
    result = await tillerman.ask(HELLO, cwd=project)
    assert (result.agent, result.text) == ("mock", "Hello.")
    entries = [entry async for entry in tillerman.query(HELLO, cwd=project)]
    assert {entry.session for entry in entries} != {result.session}


async def test_the_session_stays_and_is_resumed(project: Path) -> None:
    first = await tillerman.ask(HELLO, agent="mock", cwd=project)
    async with tillerman.open(cwd=project) as harness:
        again = await harness.resume(first.session)
        assert (await again.ask(HELLO)).turn == 2


async def test_leaving_a_query_early_cancels_its_turn(project: Path) -> None:
    text = script({"say": "one two three"}, {"hang": True})
    async with aclosing(tillerman.query(text, agent="mock", cwd=project)) as log:
        async for entry in log:
            if isinstance(entry.event, MessageChunk):
                break
    async with tillerman.open(cwd=project) as harness:
        assert harness.find("last").status == "cancelled"


@pytest.mark.parametrize("kind", [Struct, Dataclass, Typed, Model])
async def test_a_typed_answer_has_any_of_the_types(project: Path, kind: type[Any]) -> None:
    result = await tillerman.ask(ANSWER, agent="mock", cwd=project, output=kind)
    made = result.output_as(kind)
    assert made == (
        {"verdict": "fine", "score": 7} if kind is Typed else kind(verdict="fine", score=7)
    )
    assert result.output == {"verdict": "fine", "score": 7}


async def test_a_json_schema_is_taken_instead(project: Path) -> None:
    schema = {"type": "object", "required": ["other"]}
    result = await tillerman.ask(ANSWER, agent="mock", cwd=project, output_schema=schema)
    assert result.failure is not None and result.failure.kind == "schema_mismatch"


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_session_is_named_by_its_handle_or_its_id(tmp_path: Path, by_id: bool) -> None:
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock", approve="auto")
        await session.ask(HELLO)
        given = session.id if by_id else session
        assert harness.attach(given).result().text == "Hello."
        await session.close()
        again = await harness.resume(given)
        assert again.id == session.id
        with pytest.raises(tillerman.UsageError, match="already uses mock"):
            await harness.handoff(session.id if by_id else again, "mock")


async def test_only_a_completed_turn_passes_the_check(project: Path) -> None:
    done = await tillerman.ask(HELLO, agent="mock", cwd=project)
    assert done.check() is done
    failed = await tillerman.ask(script({"fail": "rate_limited"}), agent="mock", cwd=project)
    assert (failed.status, failed.failure and failed.failure.kind) == ("failed", "rate_limited")
    with pytest.raises(tillerman.TurnFailed):
        failed.check()


def test_the_synchronous_api_has_no_attach() -> None:
    assert set(tillerman.sync.__all__) == {"SyncHarness", "SyncSession", "ask", "open", "query"}
    assert not hasattr(tillerman.sync.SyncHarness, "attach")
