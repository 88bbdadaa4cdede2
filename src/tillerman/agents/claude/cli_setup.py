"""Test setup of Claude Code, native and by its ACP adapter, with the scripted model."""

from __future__ import annotations

import json
from json import loads
from pathlib import Path
from typing import ClassVar

from tillerman.testing.cli_setups.setup import CliSetup, Item
from tillerman.testing.model_double.script import ModelToolCall, Say


class ClaudeSetup(CliSetup):
    agent = "claude"
    api = "messages"
    key = "ANTHROPIC_API_KEY"
    bare: ClassVar[tuple[str, ...]] = ("-p", "--")
    free: ClassVar[tuple[str, ...] | None] = (
        "-p",
        "--permission-mode=acceptEdits",
        "--allowedTools=Bash,mcp__tiny",
        "--",
    )
    speaks_acp = False
    volatile_files = (
        ".claude/projects/*",
        ".claude/sessions/*",
        ".claude/backups/*",
        ".claude/plugins/store/*",
    )
    histories = (".claude/projects/*/*.jsonl",)

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": base_url,
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_ENABLE_TASKS": "0",  # a list that is always written completely
            "DISABLE_TELEMETRY": "1",
        }

    def lacks(self, version: str) -> set[str]:
        return set() if version == "2.1.197" else {"todo", "search", "listing"}

    def servers(self, commands: dict[str, list[str]]) -> tuple[str, ...]:
        if self.speaks_acp:
            return ()
        servers = {
            name: {"command": command, "args": arguments}
            for name, (command, *arguments) in commands.items()
        }
        return ("--mcp-config=" + json.dumps({"mcpServers": servers}),)

    def shell(self, command: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("Bash", {"command": command, "description": "a command"}, id)

    def write(self, path: Path, text: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("Write", {"file_path": str(path), "content": text}, id)

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall(
            "Edit", {"file_path": str(path), "old_string": old, "new_string": new}, id
        )

    def read(self, path: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("Read", {"file_path": str(path)}, id)

    def search(self, folder: Path, word: str, id: str | None = None) -> ModelToolCall:
        arguments = {"pattern": word, "path": str(folder), "output_mode": "content"}
        return ModelToolCall("Grep", arguments, id)

    def listing(self, folder: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("Glob", {"pattern": "*", "path": str(folder)}, id)

    def fetch(self, url: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("WebFetch", {"url": url, "prompt": "What does it say?"}, id)

    def ask(self, question: str, *options: str, id: str | None = None) -> ModelToolCall:
        choices = [{"label": option, "description": option} for option in options]
        asked = {"question": question, "header": "Choice", "options": choices, "multiSelect": False}
        return ModelToolCall("AskUserQuestion", {"questions": [asked]}, id)

    def todo(self, *items: Item, id: str | None = None) -> ModelToolCall:
        todos = [{"content": text, "status": state, "activeForm": text} for text, state in items]
        return ModelToolCall("TodoWrite", {"todos": todos}, id)

    def result(self, json: str) -> ModelToolCall | Say:
        return ModelToolCall("StructuredOutput", loads(json))

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> ModelToolCall:
        return ModelToolCall(f"mcp__{server}__{tool}", arguments, id)


class ClaudeAgentAcp(ClaudeSetup):
    agent = "claude-agent-acp"
    bare = ()
    free = None
    speaks_acp = True

    def lacks(self, version: str) -> set[str]:
        return {"ask"} if version == "0.49.0" else {"ask", "todo", "search", "listing"}


SETUPS = (ClaudeSetup(), ClaudeAgentAcp())
