"""What is asked of every agent, one case after the other, through whole sessions.

A case names the capabilities it needs: an agent that does not claim them is not asked. What it
claims it must do.
"""

# in the order in which they are told
# isort: off
from bridle.testing.cases.case import CASES, Case, Verdict, check, check_all
from bridle.testing.cases import speech
from bridle.testing.cases import tools
from bridle.testing.cases import requests
from bridle.testing.cases import given
from bridle.testing.cases import control
from bridle.testing.cases import failures
# isort: on

__all__ = ["CASES", "Case", "Verdict", "check", "check_all"]

_ = (speech, tools, requests, given, control, failures)  # each adds its own to CASES
