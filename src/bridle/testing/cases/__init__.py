"""What is asked of every agent, one case after the other, through whole sessions.

A case names the capabilities it needs: an agent that does not claim them is not asked. What it
claims it must do.
"""

from bridle.testing.cases import control, failures, given, requests, speech, tools
from bridle.testing.cases.case import CASES, Case, Verdict, check, check_all

__all__ = ["CASES", "Case", "Verdict", "check", "check_all"]

_ = (speech, tools, requests, failures, control, given)  # each adds its own to CASES
