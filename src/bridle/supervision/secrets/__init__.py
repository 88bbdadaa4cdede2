"""Secrets: registered values and well-known key shapes, taken out of all that is kept or shown."""

from bridle.supervision.secrets.registry import Secrets
from bridle.supervision.secrets.stream_redactor import Redactor, TextRedactor

__all__ = ["Redactor", "Secrets", "TextRedactor"]
