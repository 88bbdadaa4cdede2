"""Test support for tillerman's own tests, and for those of third-party agents."""

from tillerman.testing.conformance import NonConforming, check_agent
from tillerman.testing.test_host import PlainHost

__all__ = ["NonConforming", "PlainHost", "check_agent"]
