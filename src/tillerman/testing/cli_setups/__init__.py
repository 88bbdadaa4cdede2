"""Test setups of all agent CLIs with the scripted model: `setups()[NAME].shell("ls")`.

The setups of an agent are the module `cli_setup` of its package.
"""

from functools import cache

from tillerman.agent_packages import agents_with, load_module
from tillerman.testing.cli_setups.setup import KEY, CliSetup, ToolUnavailable

_MODULE = "cli_setup"


@cache
def setups() -> dict[str, CliSetup]:
    found = [one for agent in agents_with(_MODULE) for one in load_module(agent, _MODULE).SETUPS]
    return {setup.agent: setup for setup in found}


__all__ = ["KEY", "CliSetup", "ToolUnavailable", "setups"]
