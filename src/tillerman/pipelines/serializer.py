"""Stores what the engine records as JSON: readable, and safe to read back, unlike pickle."""

from __future__ import annotations

from typing import Any

import msgspec
from dbos import Serializer
from dbos._serialization import PortableWorkflowError

_ERROR = "$error"


class JsonSerializer(Serializer):
    """Values come back as JSON has them: lists for tuples, and one type for every exception."""

    def name(self) -> str:
        return "tillerman_json"

    def serialize(self, data: Any) -> str:
        return msgspec.json.encode(data, enc_hook=_error).decode()

    def deserialize(self, serialized_data: str) -> Any:
        value = msgspec.json.decode(serialized_data)
        if isinstance(value, dict) and _ERROR in value:
            return PortableWorkflowError(value["message"], value[_ERROR])
        return value


def plain(text: str) -> str:
    """Returns text that JSON can store: a lone surrogate becomes a replacement character."""
    return text.encode("utf-8", "replace").decode()


def _error(value: object) -> object:
    if isinstance(value, BaseException):
        return {_ERROR: type(value).__name__, "message": plain(str(value))}
    raise TypeError(f"{type(value).__name__} cannot be stored")
