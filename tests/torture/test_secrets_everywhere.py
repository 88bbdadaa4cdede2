"""Canaries in every encoding, cut at every point: a thorough search finds none of them.

`PLACES` lists the searched places. A place gets a canary's text in two pieces and returns all that
it stored of it.
"""

from __future__ import annotations

import os
import random
import string
import tempfile
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.supervision.written import WAYS, decoded
from tillerman.core.agent import DecodedLine
from tillerman.core.events import Event, MessageChunk, Notice, ThoughtChunk
from tillerman.sessions.agent.host import SpillFile
from tillerman.sessions.log.sanitizer import EventSanitizer
from tillerman.sessions.log.size_limits import DiskBudget
from tillerman.supervision.secrets import Redactor, Secrets, TextRedactor

Place = Callable[[Secrets, str, str], str]


def _text_stream(secrets: Secrets, first: str, second: str) -> str:
    redactor = TextRedactor(secrets)
    return redactor.feed(first) + redactor.feed(second) + redactor.flush()


def _byte_stream(secrets: Secrets, first: str, second: str) -> str:
    redactor = Redactor(secrets)
    pieces = (first.encode(), second.encode())
    return (b"".join(map(redactor.feed, pieces)) + redactor.flush()).decode()


def _spill_file(secrets: Secrets, first: str, second: str) -> str:
    with tempfile.TemporaryFile() as file:
        spill = SpillFile("1", os.dup(file.fileno()), 1 << 20, secrets, DiskBudget(1 << 20))
        spill.write(first.encode())
        spill.write(second.encode())
        spill.close()
        file.seek(0)
        return file.read().decode()


def _intake(*batches: list[Event]) -> Place:
    """Chunks on their way into the log; FIRST and SECOND are replaced by the pieces."""

    def place(secrets: Secrets, first: str, second: str) -> str:
        intake = EventSanitizer(
            secrets, output_cap=50_000, budget=DiskBudget(1 << 30), spill=_no_spill
        )
        stored: list[Event] = []
        for batch in batches:
            received = [DecodedLine(None, [_filled(event, first, second)]) for event in batch]
            stored += [event for one in intake.sanitize(received) for event in one.events]
        stored += intake.flush()
        return "".join(e.text for e in stored if isinstance(e, MessageChunk | ThoughtChunk))

    return place


def _no_spill() -> SpillFile:
    raise AssertionError("nothing here is long")


def _filled(event: Event, first: str, second: str) -> Event:
    if isinstance(event, MessageChunk | ThoughtChunk):
        text = event.text.replace("FIRST", first, 1) if "FIRST" in event.text else second
        return replace(event, text=text)
    return event


_ONE = MessageChunk(message_id="m", text="FIRST")
_TWO = MessageChunk(message_id="m", text="SECOND")
PLACES: dict[str, Place] = {
    "text stream": _text_stream,
    "byte stream": _byte_stream,
    "spill file": _spill_file,
    "message": _intake([_ONE, _TWO]),
    "message in two reads": _intake([_ONE], [_TWO]),
    "thought in two reads": _intake(
        [ThoughtChunk(message_id="m", text="FIRST")], [ThoughtChunk(message_id="m", text="SECOND")]
    ),
    "message before and after others": _intake(
        [Notice(level="info", kind="session", text="before"), _ONE],
        [_TWO, Notice(level="info", kind="session", text="after")],
    ),
}
_ALPHABETS = [
    string.ascii_letters + string.digits,
    string.ascii_letters + string.digits + "-_",
    string.ascii_letters + string.digits + "+/=",
    string.digits + "abcdef",
    string.ascii_letters + string.digits + "!#$&'()*,.:;<>?@[]^{|}~\"/\\ ",
]


def _canary(chance: random.Random) -> str:
    length = chance.choice([8, 12, 16, 20, 24, 32, 40, 51, 64, 108])
    alphabet = chance.choice(_ALPHABETS)
    return "k" + "".join(chance.choice(alphabet) for _ in range(length - 2)) + "7"


def _check(canaries: list[str], ways: list[str], places: list[str]) -> int:
    secrets = Secrets({f"CANARY_{number}": value for number, value in enumerate(canaries)})
    looked = 0
    for value in canaries:
        for way in ways:
            text = f"env | {WAYS[way](value)}; end"
            whole = secrets.redact_text(text)
            assert not any(value in seen for seen in decoded(whole)), (way, value)
            assert "[secret:CANARY_" in whole, (way, value)
            for place in places:
                for cut in range(len(text) + 1):
                    stored = PLACES[place](secrets, text[:cut], text[cut:])
                    assert stored == whole, (place, way, cut, value)
                    looked += 1
    return looked


@pytest.mark.parametrize("place", PLACES)
def test_three_canaries_cut_anywhere_are_found_nowhere(place: str) -> None:
    chance = random.Random(3)
    canaries = [_canary(chance)[:24] for _ in range(3)]
    assert _check(canaries, ["plain", "json", "base64, second"], [place]) > 250


def test_fifty_canaries_cut_anywhere_are_not_found() -> None:
    chance = random.Random(50)
    ways = ["plain", "json", "url", "base64, second"]
    canaries = [_canary(chance)[:24] for _ in range(50)]
    assert _check(canaries, ways, ["text stream"]) > 5_000


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("batch", range(10))
def test_a_thousand_canaries_cut_anywhere_are_not_found(batch: int) -> None:
    chance = random.Random(1000 + batch)
    canaries = [_canary(chance) for _ in range(100)]
    assert _check(canaries, list(WAYS), ["text stream"]) > 100_000


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", [place for place in PLACES if place != "text stream"])
def test_no_other_place_stores_a_redacted_secret(place: str) -> None:
    chance = random.Random(2000)
    assert _check([_canary(chance) for _ in range(50)], list(WAYS), [place]) > 50_000
