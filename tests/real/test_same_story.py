"""The same story played by every agent gives one transcript, except for listed differences."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance import differences
from tests.real.desk import Desk
from tests.real.real_scene import RealScene
from tests.real.stages import Actor
from tillerman.core.events import (
    Answer,
    Diff,
    MessageChunk,
    PermissionRequested,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import Say
from tillerman.testing.scenario import Story, do

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(180),
    pytest.mark.agents("claude", "codex", "gemini", "qwen", "opencode", "copilot"),
    pytest.mark.newest,
]

STORY = {
    "hello": ["says Good morning.", "completed"],
    "write": ["Write story.txt: completed, with a diff", "says Written.", "completed"],
    "command": ["Bash: completed", "says Ran.", "completed"],
    "deny": ["Bash: denied", "says Then not.", "completed"],
    "failure": ["Bash: failed", "says It failed.", "completed"],
}


def acts(desk: Desk) -> dict[str, Story]:
    return {
        "hello": [[Say("Good morning.")]],
        "write": [[do("write", desk.project / "story.txt", "a heron\n")], [Say("Written.")]],
        "command": [[do("shell", "echo heron > heron.txt")], [Say("Ran.")]],
        "deny": [[do("shell", "rm story.txt")], [Say("Then not.")]],
        "failure": [[do("shell", "ls /no/such/folder > out.txt; exit 3")], [Say("It failed.")]],
    }


async def test_every_agent_emits_the_same_events(any_desk: Desk, actor: Actor) -> None:
    scene = RealScene(any_desk, actor)
    session = await scene.start(approve="ask")
    fields = {}
    for name, replies in acts(any_desk).items():
        fields[name] = await _turn_lines(session, scene.script(*replies), deny=name == "deny")
    assert fields == STORY | differences.story(actor.agent)
    assert (actor.project / "story.txt").read_text() == "a heron\n"


async def _turn_lines(session: Session, prompt: str, *, deny: bool) -> list[str]:
    """The turn as lines; every request of the agent is allowed, or denied."""
    since = session.last_seq
    await session.prompt(prompt)
    log = []
    async for entry in session.until_idle(since):
        log.append(entry)
        if isinstance(entry.event, PermissionRequested):
            kind = "deny" if deny else "allow"
            option = next(one.id for one in entry.event.options if one.kind == kind)
            session.answer(entry.event.request_id, Answer(option=option))
    return list(_lines([entry.event for entry in log]))


def _lines(events: list[object]) -> Iterator[str]:
    begun: dict[str, ToolStarted] = {}
    words = ""
    for event in events:
        match event:
            case MessageChunk(text=text, parent=None):
                words += text
            case ToolStarted():
                begun[event.call_id] = event
            case ToolFinished() if call := begun.get(event.call_id):
                if words.strip():
                    yield f"says {words.strip()}"
                    words = ""
                yield _line(call, event)
            case TurnEnded():
                if words.strip():
                    yield f"says {words.strip()}"
                yield event.reason


def _line(call: ToolStarted, done: ToolFinished) -> str:
    names = " ".join(path.rsplit("/", 1)[-1] for path in call.paths) if call.tool != "Bash" else ""
    diff = ", with a diff" if any(isinstance(part, Diff) for part in done.content) else ""
    return f"{call.tool} {names}".strip() + f": {done.outcome}{diff}"
