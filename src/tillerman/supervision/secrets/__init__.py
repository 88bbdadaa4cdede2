"""Secrets: registered values and well-known key shapes, taken out of all that is kept or shown."""

from tillerman.supervision.secrets.registry import Secrets
from tillerman.supervision.secrets.stream_redactor import Redactor, TextRedactor

__all__ = ["Redactor", "Secrets", "TextRedactor"]
