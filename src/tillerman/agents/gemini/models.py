"""Lists the models of Gemini CLI by opening a temporary session."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.list_sessions import new_session
from tillerman.agents.decoding.fields import table, tables, text
from tillerman.core.agent_admin import Model, RunCommand


async def models(agent: AcpAgent, run: RunCommand) -> Sequence[Model]:
    """Uses a temporary home and an unused key, since a new session is stored on disk."""
    with tempfile.TemporaryDirectory(prefix="tillerman-gemini-") as folder:
        env = {"GEMINI_CLI_HOME": folder, "GEMINI_API_KEY": "unused"}
        asking = new_session(agent.dialect, Path(folder))
        return listed(await agent.ask(run, Path(folder), asking, env=env, limit=30))


def listed(answer: Any) -> list[Model]:
    """The models in the response to session/new."""
    block = table(answer if isinstance(answer, dict) else {}, "models")
    current = text(block, "currentModelId")
    return [
        Model(
            id=text(model, "modelId"),
            title=text(model, "name") or text(model, "modelId"),
            provider="google",
            default=text(model, "modelId") == current,
        )
        for model in tables(block, "availableModels")
    ]
