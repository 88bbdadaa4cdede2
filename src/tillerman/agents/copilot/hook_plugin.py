"""Generates the Copilot plugin whose hook sends permission requests, as files of the session."""

from __future__ import annotations

import json

from tillerman.agents.copilot.hook_dialect import dialect
from tillerman.agents.copilot.hook_requests import EVENT
from tillerman.hooks.server import HookServer, timeout_for


def files(hooks: HookServer, max_wait: float | None) -> dict[str, bytes]:
    timeout = timeout_for(max_wait)
    [content] = dialect.config(
        {EVENT: hooks.command("copilot", EVENT, timeout=timeout)}, timeout=timeout
    ).values()
    about = {"name": "tillerman", "version": "1.0.0", "description": "asks", "hooks": "hooks.json"}
    return {"plugin.json": json.dumps(about).encode(), "hooks.json": content}
