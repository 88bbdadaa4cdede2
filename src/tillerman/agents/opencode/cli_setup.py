"""Test setup of OpenCode with the scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tillerman.testing.cli_setups.setup import CliSetup, Item
from tillerman.testing.model_double.script import ModelToolCall


def _config(base_url: str) -> dict[str, Any]:
    model = {
        "name": "scripted",
        "limit": {"context": 200_000, "output": 32_000},
        "cost": {"input": 3, "output": 15},
        "reasoning": True,
        "attachment": True,
        "tool_call": True,
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{base_url}/v1", "apiKey": "{env:SCRIPTED_API_KEY}"},
        "models": {"scripted": model},
    }
    name = "scripted/scripted"
    return {"provider": {"scripted": provider}, "model": name, "small_model": name}


class OpenCodeSetup(CliSetup):
    agent = "opencode"
    api = "chat"
    key = "SCRIPTED_API_KEY"
    bare = ("acp",)
    volatile_files = (".local/share/opencode/*", ".local/state/opencode/*", ".cache/opencode/*")
    histories = (".local/share/opencode/*.db*",)
    at_work = 20.0

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        return {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        }

    def lacks(self, version: str) -> set[str]:
        return {"ask"}

    def files(self, base_url: str) -> dict[str, str]:
        return {".config/opencode/opencode.json": json.dumps(_config(base_url))}

    def shell(self, command: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("bash", {"command": command, "description": "a command"}, id)

    def write(self, path: Path, text: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("write", {"filePath": str(path), "content": text}, id)

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall(
            "edit", {"filePath": str(path), "oldString": old, "newString": new}, id
        )

    def read(self, path: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("read", {"filePath": str(path)}, id)

    def search(self, folder: Path, word: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("grep", {"pattern": word, "path": str(folder)}, id)

    def listing(self, folder: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("glob", {"pattern": "*", "path": str(folder)}, id)

    def fetch(self, url: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("webfetch", {"url": url, "format": "text"}, id)

    def todo(self, *items: Item, id: str | None = None) -> ModelToolCall:
        todos = [
            {"id": str(number), "content": text, "status": state, "priority": "medium"}
            for number, (text, state) in enumerate(items, 1)
        ]
        return ModelToolCall("todowrite", {"todos": todos}, id)

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> ModelToolCall:
        return ModelToolCall(f"{server}_{tool}", arguments, id)


SETUPS = (OpenCodeSetup(),)
