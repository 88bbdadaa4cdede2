"""Test setup of Gemini CLI with the scripted model."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

from tillerman.testing.cli_setups.setup import CliSetup, Item
from tillerman.testing.model_double.script import ModelToolCall

_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"maxAttempts": 2},  # each further one waits twice as long, starting at 5 s
}


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d[:-]\d\d(?::\d\d\.\d{3}Z)?")


class GeminiSetup(CliSetup):
    agent = "gemini"
    api = "gemini"
    options: ClassVar = {"trust": True}  # it starts MCP servers only in trusted folders
    key = "GEMINI_API_KEY"
    model = "gemini-2.5-flash"  # without one it asks a small model which to use
    bare = ("--acp", "--skip-trust", "-m", "gemini-2.5-flash")
    volatile_files = (".gemini/tmp/*/chats/*",)
    histories = (".gemini/tmp/*/chats/*",)

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        return {"GOOGLE_GEMINI_BASE_URL": base_url, "GEMINI_CLI_NO_RELAUNCH": "true"}

    def lacks(self, version: str) -> set[str]:
        return {"ask"}

    def files(self, base_url: str) -> dict[str, str]:
        return {".gemini/settings.json": json.dumps(_SETTINGS)}

    def age(self, home: Path, seconds: float) -> None:
        """Also shifts the minute in the file name and the times in the file; both are compared."""

        def earlier(found: re.Match[str]) -> str:
            form = "%Y-%m-%dT%H:%M:%S.%fZ" if found[0].endswith("Z") else "%Y-%m-%dT%H-%M"
            then = datetime.strptime(found[0], form) - timedelta(seconds=seconds)
            return then.strftime(form).replace("000Z", "Z")

        for path in sorted(self._stored(home)):  # the earliest first: its new name is free
            path.write_text(_TIME.sub(earlier, path.read_text()))
            path.rename(path.with_name(_TIME.sub(earlier, path.name)))
        super().age(home, seconds)

    def shell(self, command: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall(
            "run_shell_command", {"command": command, "description": "a command"}, id
        )

    def write(self, path: Path, text: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("write_file", {"file_path": str(path), "content": text}, id)

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> ModelToolCall:
        change = {"old_string": old, "new_string": new, "instruction": "change it"}
        return ModelToolCall("replace", {"file_path": str(path)} | change, id)

    def read(self, path: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("read_file", {"file_path": str(path)}, id)

    def search(self, folder: Path, word: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("grep_search", {"pattern": word, "dir_path": str(folder)}, id)

    def listing(self, folder: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("list_directory", {"dir_path": str(folder)}, id)

    def fetch(self, url: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("web_fetch", {"prompt": f"What does {url} say?"}, id)

    def todo(self, *items: Item, id: str | None = None) -> ModelToolCall:
        todos = [{"description": text, "status": state} for text, state in items]
        return ModelToolCall("write_todos", {"todos": todos}, id)

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> ModelToolCall:
        return ModelToolCall(f"mcp_{server}_{tool}", arguments, id)


SETUPS = (GeminiSetup(),)
