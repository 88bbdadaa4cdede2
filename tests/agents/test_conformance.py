"""The conformance check: built-in agents pass, and each violation of the port is reported."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.mock.mock_scene import MockScene
from tests.agents.plain import LONG_LIVED, PER_TURN, PerTurnWire, PlainWire
from tillerman.agents import load
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import AgentInfo, Conversation, Host, SessionSpec
from tillerman.core.events import Event, MessageChunk, TurnEnded, Unrecognized
from tillerman.core.session_options import session_spec
from tillerman.core.wire import WireReply
from tillerman.testing.broken_streams import NONSENSE
from tillerman.testing.conformance import NonConforming, check_agent
from tillerman.testing.model_double.script import Fail
from tillerman.testing.scenario import Act

RECORDINGS = Path(__file__).parents[1] / "recordings"
INFO = AgentInfo("plain", "Plain", frozenset({"resume"}))


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mock", "mock"),
        ("claude", "claude"),
        ("replay", None),
    ],
)
def test_a_built_in_agent_conforms(name: str, folder: str | None) -> None:
    check_agent(load(name), RECORDINGS / folder if folder else None, cuts=2, streams=100)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings" / "one"
    folder.mkdir(parents=True)
    (folder / "wire.jsonl").write_text(
        '{"ready": "n"}\n{"say": "a"}\n{"ask": 1}\n{"say": "b"}\n{"end": "completed"}\n'
    )
    (folder / "events.jsonl").write_text(
        '{"type": "agent_ready", "native_id": "n"}\n'
        '{"type": "message_chunk", "message_id": "m", "text": "a"}\n'
        '{"reply": {"answer": 1}}\n'
        '{"type": "message_chunk", "message_id": "m", "text": "b"}\n'
        '{"type": "turn_ended", "reason": "completed"}\n'
    )
    return folder.parent


@pytest.mark.parametrize("agent", [StdioAgent(INFO, PlainWire), StdioAgent(INFO, PerTurnWire)])
def test_a_small_agent_of_either_lifetime_conforms(agent: StdioAgent, recordings: Path) -> None:
    check_agent(agent, recordings)


async def test_it_can_be_called_from_an_async_test(recordings: Path) -> None:
    check_agent(StdioAgent(INFO, PlainWire), recordings)


@pytest.mark.parametrize(
    ("info", "complaint"),
    [
        (AgentInfo("Bad Name", "Bad"), "its name 'Bad Name' is not lower-case"),
        (AgentInfo("bad", " "), "it has no title"),
        (AgentInfo("bad", "Bad", frozenset({"fly"})), r"\['fly'\], which are not in CAPABILITIES"),
        (AgentInfo("bad", "Bad", frozenset({"models"})), r"\['models'\] but lacks the methods"),
        (AgentInfo("bad", "Bad", frozenset({"fork"})), "declares fork but not resume"),
        (AgentInfo("bad", "Bad", binary="bad"), "needs 'bad' but has no install command"),
        (AgentInfo("bad", "Bad", variables=("a b",)), r"not variable names: \['a b'\]"),
        (AgentInfo("bad", "Bad", frozenset({"model"})), "declares 'model', but .* does not reach"),
        (AgentInfo("bad", "Bad", frozenset({"images"})), "images, but their bytes do not reach"),
    ],
)
def test_inconsistent_declarations_are_reported_by_name(info: AgentInfo, complaint: str) -> None:
    with pytest.raises(NonConforming, match=complaint):
        check_agent(StdioAgent(info, PlainWire))


def test_a_per_turn_agent_that_declares_steering_is_reported_by_name() -> None:
    info = AgentInfo("bad", "Bad", frozenset({"steer"}))
    with pytest.raises(NonConforming, match="it declares steer"):
        check_agent(StdioAgent(info, PerTurnWire))


class TakesAnything(StdioAgent):
    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        return await LONG_LIVED.open(session_spec(cwd=spec.cwd), host)


def test_accepting_an_undeclared_capability_is_reported_by_name() -> None:
    with pytest.raises(NonConforming, match="it does not declare 'model', but accepts"):
        check_agent(TakesAnything(AgentInfo("bad", "Bad"), PlainWire))


class Raises(PlainWire):
    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        if line == b"7":
            raise TypeError("int is not subscriptable")
        return super().decode(line)


class Swallows(PlainWire):
    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        return [one for one in super().decode(line) if not isinstance(one, Unrecognized)]


class NeedsItsKeys(PlainWire):
    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        messages = list(super().decode(line))
        if b"say_v2" in line:
            raise KeyError("say")
        return messages


class WrongTypes(PlainWire):
    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        if b'"say": 0' in line:
            wrong: Any = 0
            return [MessageChunk(message_id="m", text=wrong)]
        return super().decode(line)


class EndsTwice(PlainWire):
    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        messages = list(super().decode(line))
        return messages + [one for one in messages if isinstance(one, TurnEnded)]


class NeverTheSame(PlainWire):
    count = itertools.count()

    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        for one in super().decode(line):
            if isinstance(one, MessageChunk):
                yield MessageChunk(message_id=str(next(self.count)), text=one.text)
            else:
                yield one


class UnderstandsNothing(PlainWire):
    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        return [Unrecognized(raw=line.decode("utf-8", "replace"), why="a mystery")]


class NeverEnds(PlainWire):
    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        return [one for one in super().decode(line) if not isinstance(one, TurnEnded)]


class HearsNothing(PlainWire):
    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        return [one for one in super().decode(line) if line in NONSENSE]


class Mute(PlainWire):
    def prompt(self, prompt: object) -> Iterable[dict[str, Any]]:
        return []


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        (Raises, r"its wire raised TypeError\('int is not subscriptable'\) for b'7'"),
        (Swallows, "b'not JSON' must become Unrecognized, not \\[\\]"),
        (NeedsItsKeys, r"one: with say of a None/None renamed, its wire raised KeyError\('say'\)"),
        (WrongTypes, r"one: with say of a None/None set to 0, MessageChunk.*is read again"),
        (EndsTwice, r"5 events are expected, but there are 6"),
        (NeverTheSame, r"events.jsonl:2 expects"),
        (Mute, "the prompt does not reach its program"),
    ],
)
def test_a_wire_that_breaks_its_contract_is_reported_by_name(
    recordings: Path, wire: type[PlainWire], complaint: str
) -> None:
    with pytest.raises(NonConforming, match=complaint):
        check_agent(StdioAgent(INFO, wire), recordings)


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        (EndsTwice, "one: a turn ends that never started"),
        (NeverTheSame, "chunks of 1 bytes give different events"),
        (UnderstandsNothing, r"one: unrecognized: '{\"ready\": \"n\"}': a mystery"),
        (NeverEnds, "one: no turn ends; if that is intended, add an events.jsonl"),
    ],
)
def test_without_golden_events_the_properties_are_still_checked(
    recordings: Path, wire: type[PlainWire], complaint: str
) -> None:
    (recordings / "one" / "events.jsonl").unlink()
    with pytest.raises(NonConforming, match=complaint):
        check_agent(StdioAgent(INFO, wire), recordings)


def test_a_recording_of_both_sides_must_mean_something(recordings: Path) -> None:
    lines = ['{"dir": "out", "msg": 1}', '{"dir": "in", "msg": {"say": "a"}}']
    (recordings / "one" / "wire.jsonl").write_text("\n".join(lines * 2))
    check_agent(StdioAgent(INFO, PlainWire), recordings)
    with pytest.raises(NonConforming, match="one: its lines yield no events"):
        check_agent(StdioAgent(INFO, HearsNothing), recordings)


def test_an_empty_folder_of_recordings_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(NonConforming, match=r"there is no wire.jsonl under"):
        check_agent(PER_TURN, tmp_path)


def test_a_missing_event_is_shown(recordings: Path) -> None:
    events = recordings / "one" / "events.jsonl"
    events.write_text("\n".join(events.read_text().splitlines()[:-1]))
    with pytest.raises(
        NonConforming, match=r"4 events are expected, but there are 5;[^{]*\{\"type\":\"turn"
    ):
        check_agent(StdioAgent(INFO, PlainWire), recordings)


class Absent(MockScene):
    """Answers every case with some other output."""

    def script(self, *replies: Sequence[Act] | Fail) -> str:
        return '[{"say": "Something else."}]'


def test_an_agent_that_deviates_from_its_script_does_not_conform(tmp_path: Path) -> None:
    with pytest.raises(NonConforming, match="text: Something else"):
        check_agent(load("mock"), scene=Absent(tmp_path))
