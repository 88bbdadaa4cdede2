"""Secret redaction: removes registered values and well-known key formats from all output."""

from tillerman.supervision.secrets.registry import Secrets
from tillerman.supervision.secrets.stream_redactor import Redactor, TextRedactor

__all__ = ["Redactor", "Secrets", "TextRedactor"]
