"""A second scripted model, written from the published APIs independently of the first one.

It implements Anthropic Messages, OpenAI Responses, Chat Completions and Gemini on loopback.
"""

from tests.real.second_model.script import (
    Broken,
    Call,
    Delivery,
    Failure,
    Part,
    Reply,
    Step,
    Text,
    Thought,
    Usage,
)
from tests.real.second_model.server import Asked, SecondModel

__all__ = [
    "Asked",
    "Broken",
    "Call",
    "Delivery",
    "Failure",
    "Part",
    "Reply",
    "SecondModel",
    "Step",
    "Text",
    "Thought",
    "Usage",
]
