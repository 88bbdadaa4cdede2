"""Test support for tillerman's own tests, and for those of third-party agents."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to import, and pytest loads this package at its start

if TYPE_CHECKING:
    from tillerman.testing.conformance import NonConforming, check_agent
    from tillerman.testing.test_host import PlainHost

_HOMES = {
    "NonConforming": "tillerman.testing.conformance",
    "PlainHost": "tillerman.testing.test_host",
    "check_agent": "tillerman.testing.conformance",
}

__all__ = ["NonConforming", "PlainHost", "check_agent"]


def __getattr__(name: str) -> object:
    """Imports public names lazily."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tillerman.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
