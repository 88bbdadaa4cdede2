"""What a session runs under, besides what its agent is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field


class Limits(Struct, frozen=True):
    """Seconds; None means no limit."""

    turn: float | None = None
    idle: float | None = None
    request: float | None = None


class Terms(Struct, frozen=True):
    approve: str = "ask"
    supervision: str = "auto"
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[tuple[str, str]] = ()  # name, value; never stored
    limits: Limits = field(default_factory=Limits)
    output_cap: int = 50_000  # bytes, as all below
    spill_cap: int = 256 * 1024 * 1024
    turn_cap: int = 256 * 1024 * 1024
    line_cap: int = 12 * 1024 * 1024  # decoding one takes four times that
