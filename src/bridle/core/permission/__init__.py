"""The policy: what an agent may do, by rules on commands, files, hosts, servers and modes."""

from bridle.core.permission.guarded_names import INSTRUCTIONS, PROTECTED, PROTECTED_PREFIX
from bridle.core.permission.path_location import PLACES, Context
from bridle.core.permission.policy import Decision, Explanation, Policy, Step
from bridle.core.permission.presets import OF_THE_LOOP, WORKSPACE
from bridle.core.permission.rules import STRICTNESS, Rule, Verdict
from bridle.core.session_options import Preset

__all__ = [
    "INSTRUCTIONS",
    "OF_THE_LOOP",
    "PLACES",
    "PROTECTED",
    "PROTECTED_PREFIX",
    "STRICTNESS",
    "WORKSPACE",
    "Context",
    "Decision",
    "Explanation",
    "Policy",
    "Preset",
    "Rule",
    "Step",
    "Verdict",
]
