"""Test setup of Qwen Code with the scripted model."""

from __future__ import annotations

import json
from pathlib import Path

from tillerman.testing.cli_setups.setup import CliSetup, Item
from tillerman.testing.model_double.script import ModelToolCall

# Newer versions disable them by default.
_SETTINGS = {"tools": {"todoWrite": {"enabled": True}, "listDirectory": {"enabled": True}}}


class QwenSetup(CliSetup):
    agent = "qwen"
    api = "chat"
    key = "OPENAI_API_KEY"
    bare = ("--acp", "--approval-mode", "default")
    volatile_files = (".qwen/projects/*", ".qwen/usage*", ".qwen/debug/*")
    histories = (".qwen/projects/*/chats/*",)
    at_work = 20.0

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        variables = {
            "OPENAI_BASE_URL": f"{base_url}/v1",
            "OPENAI_MODEL": "qwen3-coder-plus",
            "QWEN_CODE_NO_RELAUNCH": "true",
        }
        if version.startswith("0.15."):  # it also sends loopback requests through a proxy
            variables |= {"HTTP_PROXY": "", "HTTPS_PROXY": ""}
        return variables

    def files(self, base_url: str) -> dict[str, str]:
        return {".qwen/settings.json": json.dumps(_SETTINGS)}

    def shell(self, command: str, id: str | None = None) -> ModelToolCall:
        arguments = {"command": command, "is_background": False, "description": "a command"}
        return ModelToolCall("run_shell_command", arguments, id)

    def write(self, path: Path, text: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("write_file", {"file_path": str(path), "content": text}, id)

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall(
            "edit", {"file_path": str(path), "old_string": old, "new_string": new}, id
        )

    def read(self, path: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("read_file", {"file_path": str(path)}, id)

    def search(self, folder: Path, word: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("grep_search", {"pattern": word, "path": str(folder)}, id)

    def listing(self, folder: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("list_directory", {"path": str(folder)}, id)

    def fetch(self, url: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("web_fetch", {"url": url, "prompt": "What does it say?"}, id)

    def ask(self, question: str, *options: str, id: str | None = None) -> ModelToolCall:
        choices = [{"label": option, "description": option} for option in options]
        asked = {"question": question, "header": "Choice", "options": choices, "multiSelect": False}
        return ModelToolCall("ask_user_question", {"questions": [asked]}, id)

    def todo(self, *items: Item, id: str | None = None) -> ModelToolCall:
        todos = [
            {"id": str(number), "content": text, "status": state}
            for number, (text, state) in enumerate(items, 1)
        ]
        return ModelToolCall("todo_write", {"todos": todos}, id)

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> ModelToolCall:
        return ModelToolCall(f"mcp__{server}__{tool}", arguments, id)


SETUPS = (QwenSetup(),)
