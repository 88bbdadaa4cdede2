"""Conformance cases: behaviour that every agent must show, tested in whole sessions.

A case names the capabilities it needs: it is skipped for an agent that does not declare them. An
agent must do what it declares.
"""

# in the order of the report
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

_ = (messages, tools, requests, inputs, control, failures)  # each registers its cases in CASES
