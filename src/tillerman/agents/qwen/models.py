"""Lists the models of Qwen Code with the user's settings, by opening a session without a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.list_sessions import new_session
from tillerman.agents.decoding.fields import count, table, tables, text
from tillerman.agents.qwen.dialect import QwenDialect
from tillerman.agents.qwen.launch import ROW
from tillerman.core.agent_admin import Model, RunCommand

_DIALECT = QwenDialect(ROW)


async def models(agent: AcpAgent, run: RunCommand) -> Sequence[Model]:
    home = Path(run.variable("HOME") or Path.home())
    return listed(await agent.ask(run, home, new_session(agent.dialect, home), limit=30))


def listed(answer: Any) -> list[Model]:
    """The models in the response to session/new, by the names that `--model` accepts."""
    block = table(answer if isinstance(answer, dict) else {}, "models")
    current = text(block, "currentModelId")
    return [
        Model(
            id=text(model, "name") or _DIALECT.model(text(model, "modelId")),
            title=text(model, "description") or text(model, "name"),
            default=text(model, "modelId") == current,
            context=count(table(model, "_meta"), "contextLimit") or None,
        )
        for model in tables(block, "availableModels")
    ]
