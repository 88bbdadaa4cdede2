"""The plugin whose hook asks bridle, in files of the session's own."""

from __future__ import annotations

import json
import math

from bridle.agents.copilot.gate import EVENT
from bridle.hooks.dialects.copilot import dialect
from bridle.hooks.server import SHARE, HookServer

_LATER = 15.0  # seconds after which a hook gives up by itself, when our own clock has denied
_DAY = 86_400.0  # seconds; no hook waits longer


def files(hooks: HookServer, patience: float | None) -> dict[str, bytes]:
    """Our clock denies first, then the hook by itself; Copilot's own would allow, and is last."""
    own = _DAY if patience is None else min(patience + _LATER, _DAY)
    timeout = math.floor(own / SHARE)
    [content] = dialect.config(
        {EVENT: hooks.command("copilot", EVENT, timeout=timeout)}, timeout=timeout
    ).values()
    about = {"name": "bridle", "version": "1.0.0", "description": "asks", "hooks": "hooks.json"}
    return {"plugin.json": json.dumps(about).encode(), "hooks.json": content}
