"""The stages of `bridle.testing`, and the pinned CLIs that act on them."""

from bridle.testing.cli_setups import KEY, STAGES, NoTool, Stage
from stages.actor import Actor

__all__ = ["KEY", "STAGES", "Actor", "NoTool", "Stage"]
