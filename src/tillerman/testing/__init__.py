"""What tillerman ships for tests: its own, and those of people who add agents."""

from tillerman.testing.conformance import NonConforming, check_agent
from tillerman.testing.test_host import PlainHost

__all__ = ["NonConforming", "PlainHost", "check_agent"]
