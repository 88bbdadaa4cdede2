"""Versions of the contracts that other packages build on: agent port, wire and log entries.

A version is raised when code that was written for the one before would no longer work.
"""

from __future__ import annotations

from typing import NamedTuple

ENTRY_VERSION = (
    1  # core/events.py and core/transcript/summary_events.py, as `tillerman schema` prints them
)


class BuiltFor(NamedTuple):
    """The versions of core/agent.py (with host.py, session_spec.py) and core/wire.py in use."""

    port: int = 2
    wire: int = 1


NEWEST = BuiltFor(port=2, wire=1)
OLDEST = BuiltFor(port=2, wire=1)  # that still works


def mismatch(built_for: BuiltFor) -> tuple[str, str] | None:
    """Why an agent cannot be used, and what to do; None if it can."""
    for part, wanted, oldest, newest in zip(
        BuiltFor._fields, built_for, OLDEST, NEWEST, strict=True
    ):
        if wanted > newest:
            reason = f"it needs version {wanted} of the agent {part}; this tillerman has {newest}"
            return reason, "update tillerman, or install an older version of the agent's package"
        if wanted < oldest:
            reason = f"it was built for version {wanted} of the agent {part}"
            return (
                f"{reason}; this tillerman requires {oldest} or newer",
                "update the agent's package",
            )
    return None
