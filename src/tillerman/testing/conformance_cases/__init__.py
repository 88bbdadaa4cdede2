"""What is asked of every agent, one case after the other, through whole sessions.

A case names the capabilities it needs: an agent that does not claim them is not asked. What it
claims it must do.
"""

# in the order in which they are told
# isort: off
from tillerman.testing.conformance_cases.case import (
    CASES,
    ConformanceCase,
    CaseVerdict,
    check,
    check_all,
)
from tillerman.testing.conformance_cases import messages
from tillerman.testing.conformance_cases import tools
from tillerman.testing.conformance_cases import requests
from tillerman.testing.conformance_cases import inputs
from tillerman.testing.conformance_cases import control
from tillerman.testing.conformance_cases import failures
# isort: on

__all__ = ["CASES", "CaseVerdict", "ConformanceCase", "check", "check_all"]

_ = (messages, tools, requests, inputs, control, failures)  # each adds its own to CASES
