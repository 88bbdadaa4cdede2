"""One harness for every coding agent.

async with tillerman.open() as harness:
    session = await harness.start("claude", cwd=".", approve="edits")
    async for entry in session.run("Add a test for the parser"):
        print(entry.event)
"""

from __future__ import annotations

from tillerman._version import __version__  # noqa: F401

TYPE_CHECKING = False  # importing `typing` takes as long as the rest of the startup

if TYPE_CHECKING:
    from typing import Any

    from tillerman.core.agent import File
    from tillerman.core.errors import TillermanError
    from tillerman.core.events import Answer, Entry, Event
    from tillerman.core.transcript.transcript import Transcript, fold
    from tillerman.core.transcript.turn_result import Result
    from tillerman.harness.harness import Harness
    from tillerman.harness.harness import open_harness as open
    from tillerman.sessions.session import AttachedSession, Session

__all__ = [
    "Answer",
    "AttachedSession",
    "Entry",
    "Event",
    "File",
    "Harness",
    "Result",
    "Session",
    "TillermanError",
    "Transcript",
    "fold",
    "open",
]

_HOMES = {
    "Answer": "tillerman.core.events",
    "AttachedSession": "tillerman.sessions.session",
    "TillermanError": "tillerman.core.errors",
    "Entry": "tillerman.core.events",
    "Event": "tillerman.core.events",
    "File": "tillerman.core.agent",
    "Harness": "tillerman.harness.harness",
    "Result": "tillerman.core.transcript.turn_result",
    "Session": "tillerman.sessions.session",
    "Transcript": "tillerman.core.transcript.transcript",
    "fold": "tillerman.core.transcript.transcript",
    "open": "tillerman.harness.harness",
}


def __getattr__(name: str) -> Any:
    """Imports public names lazily, since `tillerman --version` needs none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tillerman' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), "open_harness" if name == "open" else name)
