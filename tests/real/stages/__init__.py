"""The CLI setups of `tillerman.testing`, and the pinned CLIs that run in them."""

from tests.real.stages.actor import Actor
from tillerman.testing.cli_setups import KEY, CliSetup, ToolUnavailable, setups

STAGES = setups()

__all__ = ["KEY", "STAGES", "Actor", "CliSetup", "ToolUnavailable"]
