"""The models that Gemini CLI offers: a session tells them, one that leaves nothing behind."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

from bridle.agents.acp.hello import hello
from bridle.agents.commands import binary
from bridle.agents.dialog import call
from bridle.agents.fields import table, tables, text
from bridle.agents.gemini.dialect import GeminiDialect
from bridle.agents.gemini.launch import ROW, acp
from bridle.agents.jsonrpc import Peer
from bridle.core.agent import SessionSpec
from bridle.core.management import Dialog, Model, Run


async def models(run: Run) -> Sequence[Model]:
    """In a home of its own, with a key that is never used: a new session is written down."""
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="bridle-gemini-") as folder:
        spec = SessionSpec(cwd=Path(folder))
        launch = acp(spec)
        env = {name: word for name, word in launch.env.items() if isinstance(word, str)}
        env |= {"GEMINI_CLI_HOME": folder, "GEMINI_API_KEY": "unused"}
        argv = [binary(run, ROW.info), *launch.argv[1:]]
        return await run.dialog(argv, _asking(spec), env=env, limit=30)


def _asking(spec: SessionSpec) -> Dialog[list[Model]]:
    peer = Peer()
    yield from call(peer, "initialize", hello(GeminiDialect(ROW), spec))
    told = yield from call(peer, "session/new", {"cwd": str(spec.cwd), "mcpServers": []})
    return listed(told)


def listed(told: Any) -> list[Model]:
    """The models in the answer to session/new."""
    block = table(told if isinstance(told, dict) else {}, "models")
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
