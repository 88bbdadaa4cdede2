"""What bridle ships for tests: its own, and those of people who add agents."""

from bridle.testing.conformance import NonConforming, check_agent
from bridle.testing.test_host import PlainHost

__all__ = ["NonConforming", "PlainHost", "check_agent"]
