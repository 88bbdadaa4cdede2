"""The models that Qwen Code offers with the user's settings: a session without words tells them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bridle.agents.acp.hello import hello
from bridle.agents.commands import binary
from bridle.agents.dialog import call
from bridle.agents.fields import count, table, tables, text
from bridle.agents.jsonrpc import Peer
from bridle.agents.qwen.dialect import QwenDialect
from bridle.agents.qwen.launch import ROW, acp
from bridle.core.agent import SessionSpec
from bridle.core.management import Dialog, Model, Run

_DIALECT = QwenDialect(ROW)


async def models(run: Run) -> Sequence[Model]:
    spec = SessionSpec(cwd=Path(run.variable("HOME") or Path.home()))
    launch = acp(spec)
    env = {name: word for name, word in launch.env.items() if isinstance(word, str)}
    argv = [binary(run, ROW.info), *launch.argv[1:]]
    return await run.dialog(argv, _asking(spec), env=env, limit=30)


def _asking(spec: SessionSpec) -> Dialog[list[Model]]:
    peer = Peer()
    yield from call(peer, "initialize", hello(_DIALECT, spec))
    told = yield from call(peer, "session/new", {"cwd": str(spec.cwd), "mcpServers": []})
    return listed(told)


def listed(told: Any) -> list[Model]:
    """The models in the answer to session/new, by the names that `--model` takes."""
    block = table(told if isinstance(told, dict) else {}, "models")
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
