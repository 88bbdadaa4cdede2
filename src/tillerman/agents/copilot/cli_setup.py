"""Test setup of GitHub Copilot CLI with the scripted model."""

from __future__ import annotations

import json
from pathlib import Path

from tillerman.testing.cli_setups.setup import CliSetup
from tillerman.testing.model_double.script import ModelToolCall


class CopilotSetup(CliSetup):
    agent = "copilot"
    api = "chat"
    key = "COPILOT_PROVIDER_API_KEY"
    bare = ("--acp",)
    volatile_files = (".copilot/logs/*", ".copilot/session-state/*", ".cache/copilot/*")
    histories = (".copilot/session-state/*",)

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        return {
            "COPILOT_PROVIDER_BASE_URL": f"{base_url}/v1",
            "COPILOT_MODEL": "scripted",
            "COPILOT_OFFLINE": "true",
        }

    def lacks(self, version: str) -> set[str]:
        return {"ask", "todo"}

    def servers(self, commands: dict[str, list[str]]) -> tuple[str, ...]:
        servers = {
            name: {"type": "local", "command": command, "args": arguments, "tools": ["*"]}
            for name, (command, *arguments) in commands.items()
        }
        return ("--additional-mcp-config", json.dumps({"mcpServers": servers}))

    def shell(self, command: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("bash", {"command": command, "description": "a command"}, id)

    def write(self, path: Path, text: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("create", {"path": str(path), "file_text": text}, id)

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("edit", {"path": str(path), "old_str": old, "new_str": new}, id)

    def read(self, path: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("view", {"path": str(path)}, id)

    def search(self, folder: Path, word: str, id: str | None = None) -> ModelToolCall:
        arguments = {"pattern": word, "path": str(folder), "output_mode": "content"}
        return ModelToolCall("grep", arguments, id)

    def listing(self, folder: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("glob", {"pattern": "*", "path": str(folder)}, id)

    def fetch(self, url: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("web_fetch", {"url": url}, id)

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> ModelToolCall:
        return ModelToolCall(f"{server}-{tool}", arguments, id)


SETUPS = (CopilotSetup(),)
