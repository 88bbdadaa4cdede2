"""No call of the Python API takes what is not for it: it is refused before anything happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import tillerman
from tests.harness.api_desk import entries, harness_in, of, script
from tillerman.core.events import PermissionRequested, TurnStarted
from tillerman.core.session_options import OPTIONS, ResumeOptions, ServeOptions, StartOptions

HELLO = script({"say": "Hello."})
VALID: dict[str, Any] = {
    "agent": "mock", "alone": True, "cwd": ".", "fork": True, "isolation": "high",
    "only_tools": ["Read"], "remember": "session", "resume": "x", "session": "x",
    "supervision": "group", "title": "x", "when_busy": "queue",
}  # fmt: skip
NAMED = {
    "start": {"agent", "title"},
    "resume": {"session", "fork"},
    "handoff": {"session", "agent"},
}
NAMED |= {"serve": {"cwd", "resume"}, "ask": {"agent", "title"}, "query": {"agent", "title"}}
OF: dict[str, type] = {
    "start": StartOptions, "resume": ResumeOptions, "handoff": ResumeOptions,
    "serve": ServeOptions, "ask": StartOptions, "query": StartOptions,
}  # fmt: skip
NOT_TEXT: tuple[Any, ...] = (5, None, b"x", ["x"], 1.5, object(), "\ud800")
NOT_FILES: tuple[Any, ...] = (
    "x", ["x"], 5, None, [("a.txt", "text/plain", b"x")], {"a.txt": b"x"},
    [tillerman.File("a", "b", "c")],  # type: ignore[arg-type]
    [tillerman.File(1, "b", b"c")],  # type: ignore[arg-type]
    [tillerman.File("a", None, b"c")],  # type: ignore[arg-type]
    [tillerman.File("\ud800", "text/plain", b"c")],
)  # fmt: skip
NOT_ANSWERS: tuple[Any, ...] = (
    "allow", None, 5, {"option": "allow"}, True,
    tillerman.Answer(5), tillerman.Answer("allow", note=5),  # type: ignore[arg-type]
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For `ask` and `query`, which take no paths."""
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[tillerman.Harness]:
    async with harness_in(tmp_path) as harness:
        yield harness


def count(harness: tillerman.Harness) -> int:
    return len(harness.sessions.catalog.list(limit=100))


async def drained(entries: AsyncIterator[object]) -> None:
    async for _ in entries:
        pass


async def refusal(call: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(tillerman.UsageError) as raised:
        await call
    return raised.value.message, raised.value.hint


@pytest.mark.parametrize("name", OF)
async def test_an_option_of_another_call_is_refused(harness: tillerman.Harness, name: str) -> None:
    session = await harness.start("mock", approve="auto")
    await session.close()
    calls: dict[str, Callable[..., Awaitable[object]]] = {
        "start": lambda **options: harness.start("mock", **options),
        "resume": lambda **options: harness.resume(session, **options),
        "handoff": lambda **options: harness.handoff(session, "replay", **options),
        "serve": harness.serve,
        "ask": lambda **options: tillerman.ask(HELLO, agent="mock", **options),
        "query": lambda **options: drained(tillerman.query(HELLO, agent="mock", **options)),
    }
    others = (set(OPTIONS) | {"bogus"}) - set(OF[name].__annotations__) - NAMED[name]
    assert others
    before = count(harness)
    for option in sorted(others):
        message, hint = await refusal(calls[name](**{option: VALID.get(option, "x")}))
        assert message == f"unknown option: {option!r}"
        known = hint.removeprefix("known: ").removeprefix("did you mean ").rstrip("?")
        assert set(known.replace(" or ", ", ").split(", ")) <= set(OF[name].__annotations__)
    assert count(harness) == before


async def test_none_means_that_an_option_is_not_given(harness: tillerman.Harness) -> None:
    options: Any = dict.fromkeys(StartOptions.__annotations__)
    async with await harness.start("mock", **options) as session:
        assert (await session.ask(HELLO)).text == "Hello."
        with_defaults = await harness.start("mock")
        assert [e.event for e in entries(with_defaults)] == [
            e.event for e in entries(session) if e.seq <= with_defaults.last_seq
        ]
    options = dict.fromkeys(ResumeOptions.__annotations__)
    async with await harness.resume(session, **options) as again:
        assert (await again.ask(HELLO)).text == "Hello."
    options = dict.fromkeys([*ServeOptions.__annotations__, "cwd", "resume"])
    async with await harness.serve(**options):
        pass
    assert (await tillerman.ask(HELLO, agent="mock", cwd=None)).text == "Hello."  # type: ignore[arg-type]


async def test_a_prompt_is_text_with_files(harness: tillerman.Harness) -> None:
    session = await harness.start("mock", approve="auto")
    attached = harness.attach(session)
    wrong = [{"text": one} for one in NOT_TEXT]
    wrong += [{"text": HELLO, "files": one} for one in NOT_FILES]
    for given in wrong:
        for call in (
            session.ask(**given),
            session.prompt(**given),
            drained(session.run(**given)),
            attached.prompt(**given),
        ):
            message, _ = await refusal(call)
            assert message.startswith(("a prompt cannot be", "files must be", "the "))
    file = tillerman.File("a.txt", "text/plain", b"x")
    assert (await session.ask(HELLO, files=[file])).text == "Hello."
    await attached.prompt(HELLO, files=(file,))
    await session.idle()
    assert len(of(entries(session), TurnStarted)) == 2


async def test_an_answer_is_an_answer(harness: tillerman.Harness) -> None:
    session = await harness.start("mock", approve="ask")
    attached = harness.attach(session)
    async for entry in session.run(script({"run": "make"})):
        if isinstance(entry.event, PermissionRequested):
            request = entry.event.request_id
            for wrong in NOT_ANSWERS:
                with pytest.raises(tillerman.UsageError, match=r"^invalid answer: "):
                    session.answer(request, wrong)
                with pytest.raises(tillerman.UsageError, match=r"^invalid answer: "):
                    await attached.answer(request, wrong)
            session.answer(request, tillerman.Answer("deny"))
    assert session.result().calls[0].outcome == "denied"


@pytest.mark.parametrize("wrong", [5, None, b"last", "", ["last"]])
async def test_a_session_is_named_by_its_id_or_its_handle(
    harness: tillerman.Harness, wrong: Any
) -> None:
    for call in (
        lambda: harness.find(wrong),
        lambda: harness.attach(wrong),
        lambda: harness.resume(wrong),
        lambda: harness.handoff(wrong, "mock"),
    ):
        with pytest.raises(tillerman.UsageError, match=r"^session cannot be "):
            if asyncio.iscoroutine(made := call()):
                await made


@pytest.mark.parametrize("wrong", [5, b"x", [], ""])
async def test_a_folder_is_a_path(wrong: Any) -> None:
    for call in (
        lambda: tillerman.open(cwd=wrong).__aenter__(),
        lambda: tillerman.ask(HELLO, agent="mock", cwd=wrong),
        lambda: drained(tillerman.query(HELLO, agent="mock", cwd=wrong)),
    ):
        message, _ = await refusal(call())
        assert message.startswith("cwd cannot be ")


async def test_a_closed_harness_refuses_every_call_and_says_what_to_do(tmp_path: Path) -> None:
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock", approve="auto")
        await session.ask(HELLO)
        attached = harness.attach(session)
    for call in (
        lambda: harness.start("mock"),
        lambda: harness.resume("last"),
        lambda: harness.handoff("last", "replay"),
        harness.serve,
        lambda: harness.find("last"),
        lambda: harness.attach("last"),
        lambda: harness.sessions.catalog.list(limit=1),
        lambda: harness.sessions.search.search("x"),
        session.transcript,
        session.result,
        attached.result,
        lambda: drained(attached.entries()),
    ):
        with pytest.raises(tillerman.TillermanError, match="is closed") as raised:
            if asyncio.iscoroutine(made := call()):
                await made
        assert "async with tillerman.open()" in raised.value.hint
