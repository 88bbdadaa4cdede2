"""The title that an agent gives its session, if its prompt contains more than the user's text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from tests.sessions.relay_desk import entries_of, fallback, script
from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import File, Prompt
from tillerman.core.events import Event, Notice, SettingsChanged
from tillerman.core.wire import WireReply

LENGTH = 30
QUOTA = {"fail": "billing", "message": "the quota is used up"}
CALLS_IT = {"notice": ""}


class TitlingWire(MockWire):
    """Uses the start of its prompt as the session's title, as many agents do."""

    _words = ""

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        self._words = prompt.text
        return super().prompt(prompt)

    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        for one in super().decode(line):
            if isinstance(one, Notice):
                yield SettingsChanged(title=(one.text or self._words)[:LENGTH])
            else:
                yield one


TITLING = StdioAgent(replace(INFO, name="titling"), TitlingWire)


async def test_a_session_is_named_after_its_first_prompt(desk: Desk) -> None:
    session = await desk.sessions.start(
        TITLING, desk.spec(script(desk, "a", [CALLS_IT])), desk.run_settings()
    )
    await entries_of(session, "Mend the nest of the heron, please")
    assert desk.sessions.catalog.get(session.id).title == "Mend the nest of the heron, pl"


async def test_an_agent_that_takes_over_does_not_name_it_after_the_handoff_summary(
    desk: Desk,
) -> None:
    work = [{"write": "one.txt", "text": "1\n"}, {"say": "Half."}, QUOTA]
    others = fallback(desk, (TITLING, script(desk, "b", [CALLS_IT])))
    spec = desk.spec(script(desk, "a", work))
    session = await desk.sessions.start(desk.agent, spec, desk.run_settings(), fallback=others)
    await entries_of(session, "Mend the nest")
    row = desk.sessions.catalog.get(session.id)
    assert (row.agent, row.title) == ("titling", None)


async def test_a_session_is_not_named_after_an_attached_file(desk: Desk) -> None:
    spec = desk.spec(script(desk, "a", [{"notice": "The heron of Ulm sleeps at noon"}]))
    session = await desk.sessions.start(TITLING, spec, desk.run_settings())
    notes = File("notes.txt", "text/plain", b"The heron of Ulm\nsleeps at noon.\n")
    async for _ in session.run("Mend the nest", files=[notes]):
        pass
    assert desk.sessions.catalog.get(session.id).title is None
