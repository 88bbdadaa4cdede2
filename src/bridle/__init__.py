"""One harness for every coding agent.

async with bridle.open() as harness:
    session = await harness.start("claude", cwd=".", approve="edits")
    async for entry in session.run("Add a test for the parser"):
        print(entry.event)
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would take as long to import as all the rest of a start

if TYPE_CHECKING:
    from typing import Any

    from bridle.core.agent import File
    from bridle.core.errors import BridleError
    from bridle.core.events import Answer, Entry, Event
    from bridle.core.transcript import Transcript, fold
    from bridle.core.turn_result import Result
    from bridle.harness.harness import Harness
    from bridle.harness.harness import open_harness as open
    from bridle.sessions.session import AttachedSession, Session

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AttachedSession",
    "BridleError",
    "Entry",
    "Event",
    "File",
    "Harness",
    "Result",
    "Session",
    "Transcript",
    "fold",
    "open",
]

_HOMES = {
    "Answer": "bridle.core.events",
    "AttachedSession": "bridle.sessions.session",
    "BridleError": "bridle.core.errors",
    "Entry": "bridle.core.events",
    "Event": "bridle.core.events",
    "File": "bridle.core.agent",
    "Harness": "bridle.harness.harness",
    "Result": "bridle.core.turn_result",
    "Session": "bridle.sessions.session",
    "Transcript": "bridle.core.transcript",
    "fold": "bridle.core.transcript",
    "open": "bridle.harness.harness",
}


def __getattr__(name: str) -> Any:
    """Loads a name when it is asked for: `bridle --version` needs none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bridle' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), "open_harness" if name == "open" else name)
