"""What an agent sends is compared with what it stores for its model."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.agents.listening import Listener, listening
from tests.agents.plain import ASKS, PlainWire, python
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.recorded_conversation import Recorded, RecordedConversation, stored_part
from tillerman.core.agent import AgentInfo, Conversation, Host, Prompt, SessionSpec
from tillerman.core.events import MessageChunk, MessageWithdrawn, TurnEnded
from tillerman.testing.test_host import PlainHost

# Sends each attempt of a story, stores the last if it has to be, and reports success.
PROGRAM = """
for line in sys.stdin:
    story = json.loads(json.loads(line)["prompt"])
    for attempt in story["attempts"]:
        for start in range(0, len(attempt), 7):
            print(json.dumps({{"say": attempt[start:start + 7]}}), flush=True)
    reply = story["attempts"][-1] if story["stored"] else None
    with open({record!r} + ".new", "w") as file:
        json.dump({{"prompt": json.loads(line)["prompt"], "reply": reply}}, file)
    os.replace({record!r} + ".new", {record!r})
    print('{{"end": "completed"}}', flush=True)
"""
WORDS = ("heron", "pond", "reeds", "a", "the", "fish ", "\n", "naïve", "漢字")


class _Stores(StdioAgent):
    def __init__(self, record: Path) -> None:
        super().__init__(AgentInfo("plain", "Plain", asks=ASKS), PlainWire, grace=0.5)
        self._record = record

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        talk = RecordedConversation(
            self.info, self.wire(spec), spec, host, 0.5, read=lambda _: self._read()
        )
        await talk.start()
        return talk

    def _read(self) -> Recorded | None:
        try:
            return Recorded(**json.loads(self._record.read_text()))
        except FileNotFoundError:
            return None


def story(random: Random) -> dict[str, object]:
    def attempt() -> str:
        return " ".join(random.choices(WORDS, k=random.randint(1, 9))).strip() or "heron"

    attempts = [attempt() for _ in range(random.choice((1, 1, 2, 3)))]
    return {"attempts": attempts, "stored": random.random() < 0.8}


def emitted_text(talk: Listener, since: int) -> str:
    """The text by the log's own rule: a withdrawn message does not count."""
    text: dict[str, str] = {}
    for event in talk.events[since:]:
        match event:
            case MessageChunk(message_id=id, text=words):
                text[id] = text.get(id, "") + words
            case MessageWithdrawn(message_id=id):
                del text[id]
    return "".join(text.values())


@pytest.mark.parametrize("seed", range(4))
async def test_the_log_has_what_the_agent_stored(
    host: PlainHost, project: Path, tmp_path: Path, seed: int
) -> None:
    record = tmp_path / "record.json"
    spec = python(PROGRAM.format(record=str(record)), project)
    random = Random(seed)
    async with listening(_Stores(record), spec, host) as talk:
        for _ in range(8):
            reported = story(random)
            since, ends = len(talk.events), len(talk.of(TurnEnded))
            await talk.conversation.prompt(Prompt(json.dumps(reported)))
            await talk.until(lambda ends=ends: len(talk.of(TurnEnded)) > ends)
            end = talk.of(TurnEnded)[-1]
            assert isinstance(end, TurnEnded)
            attempts = reported["attempts"]
            assert isinstance(attempts, list)
            if reported["stored"]:
                stored = attempts[-1]
                assert (end.reason, emitted_text(talk, since)) == ("completed", stored), reported
            else:
                assert end.failure, reported
                assert (end.failure.kind, emitted_text(talk, since)) == (
                    "stream_broken",
                    "".join(attempts),
                )


@pytest.mark.parametrize(
    ("answer", "reply", "kept"),
    [
        ("Hello.", "Hello.", None),
        ("Half Hello.\n", "Hello.", "Hello.\n"),
        (" \nHello.", "Hello.", None),
        ("<!-- note -->Hello.", "Hello.", None),
        ("Something else.", "Hello.", None),
        ("Hello.", "", None),
    ],
)
def test_only_output_before_the_stored_answer_is_dropped(
    answer: str, reply: str, kept: str | None
) -> None:
    assert stored_part(answer, reply) == kept


async def test_a_record_without_the_prompt_decides_nothing(
    host: PlainHost, project: Path, tmp_path: Path
) -> None:
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"prompt": "another one", "reply": None}))
    program = 'print(\'{"say": "Hello."}\\n{"end": "completed"}\', flush=True); time.sleep(30)'
    async with listening(
        _Stores(record), python("sys.stdin.readline()\n" + program, project), host
    ) as talk:
        turn = await talk.turn("hello")
        assert turn[-2:] == [
            MessageChunk(message_id="m", text="Hello."),
            TurnEnded(reason="completed"),
        ]
