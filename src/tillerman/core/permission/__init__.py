"""Permission policy: rules on commands, files, hosts, MCP servers and modes."""

from tillerman.core.permission.guarded_names import INSTRUCTIONS, PROTECTED, PROTECTED_PREFIX
from tillerman.core.permission.path_location import PLACES, DecisionContext
from tillerman.core.permission.policy import Decision, Explanation, Policy, Step
from tillerman.core.permission.presets import OF_THE_LOOP, WORKSPACE
from tillerman.core.permission.rules import STRICTNESS, Rule, Verdict
from tillerman.core.session_options import Preset

__all__ = [
    "INSTRUCTIONS",
    "OF_THE_LOOP",
    "PLACES",
    "PROTECTED",
    "PROTECTED_PREFIX",
    "STRICTNESS",
    "WORKSPACE",
    "Decision",
    "DecisionContext",
    "Explanation",
    "Policy",
    "Preset",
    "Rule",
    "Step",
    "Verdict",
]
