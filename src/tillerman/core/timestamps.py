"""Formats timestamps for the log, the store and lists: RFC 3339 in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Literal


def rfc3339(moment: datetime, to: Literal["seconds", "milliseconds"] = "milliseconds") -> str:
    """Formats a UTC datetime."""
    return moment.isoformat(timespec=to).removesuffix("+00:00") + "Z"
