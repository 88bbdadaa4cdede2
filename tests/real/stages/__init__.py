"""The stages of `tillerman.testing`, and the pinned CLIs that act on them."""

from tests.real.stages.actor import Actor
from tillerman.testing.cli_setups import KEY, STAGES, CliSetup, ToolUnavailable

__all__ = ["KEY", "STAGES", "Actor", "CliSetup", "ToolUnavailable"]
