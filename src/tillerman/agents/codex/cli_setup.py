"""Test setup of Codex, native and by its ACP adapters, with the scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from tillerman.testing.cli_setups.setup import CliSetup, Item
from tillerman.testing.model_double.script import ModelToolCall

# The only model whose tools are called directly; newer ones call tools from code.
_CONFIG = """\
model = "gpt-5.5"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{base_url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""


class CodexSetup(CliSetup):
    agent = "codex"
    api = "responses"
    key = "OPENAI_API_KEY"
    bare: ClassVar[tuple[str, ...]] = (
        "exec",
        "--json",
        "--skip-git-repo-check",
        "-s",
        "read-only",
        "--",
    )
    free: ClassVar[tuple[str, ...] | None] = (
        "exec",
        "--json",
        "--skip-git-repo-check",
        "-s",
        "workspace-write",
        "--",
    )
    speaks_acp = False
    volatile_files = (
        ".codex/sessions/*",
        ".codex/*.sqlite*",
        ".codex/tmp/*",
        ".codex/shell_snapshots/*",
    )
    histories = (".codex/sessions/**/*.jsonl", ".codex/*.sqlite*")

    def environment(self, base_url: str, version: str) -> dict[str, str]:
        return {}

    def lacks(self, version: str) -> set[str]:
        return {"read", "search", "listing", "fetch", "todo"}

    def files(self, base_url: str) -> dict[str, str]:
        return {".codex/config.toml": _CONFIG.format(base_url=base_url)}

    def servers(self, commands: dict[str, list[str]]) -> tuple[str, ...]:
        if self.speaks_acp:
            return ()
        return tuple(
            word
            for name, (command, *arguments) in commands.items()
            for word in (
                *("-c", f"mcp_servers.{name}.command={json.dumps(command)}"),
                *("-c", f"mcp_servers.{name}.args={json.dumps(arguments)}"),
                *("-c", f'mcp_servers.{name}.default_tools_approval_mode="approve"'),
            )
        )

    def shell(self, command: str, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("exec_command", {"cmd": command}, id)

    def write(self, path: Path, text: str, id: str | None = None) -> ModelToolCall:
        lines = "".join(f"+{line}\n" for line in text.splitlines())
        return _patch(f"*** Add File: {path}\n{lines}", id)

    def edit(self, path: Path, old: str, new: str, id: str | None = None) -> ModelToolCall:
        lines = "".join(f"-{line}\n" for line in old.splitlines())
        lines += "".join(f"+{line}\n" for line in new.splitlines())
        return _patch(f"*** Update File: {path}\n@@\n{lines}", id)

    def view(self, picture: Path, id: str | None = None) -> ModelToolCall:
        return ModelToolCall("view_image", {"path": str(picture)}, id)

    def ask(self, question: str, *options: str, id: str | None = None) -> ModelToolCall:
        # in plan mode only
        choices = [{"label": option, "description": option} for option in options]
        asked = {"id": "choice", "header": "Choice", "question": question, "options": choices}
        return ModelToolCall("request_user_input", {"questions": [asked]}, id)

    def mcp(
        self, server: str, tool: str, arguments: dict[str, object], id: str | None = None
    ) -> ModelToolCall:
        return ModelToolCall(f"mcp__{server}__{tool}", arguments, id)


class CodexAcp(CodexSetup):
    agent = "codex-acp"
    bare = ()
    free = None
    speaks_acp = True

    def lacks(self, version: str) -> set[str]:
        missing = {"read", "search", "listing", "fetch"}
        return missing if version == "0.16.0" else missing | {"todo"}

    def todo(self, *items: Item, id: str | None = None) -> ModelToolCall:
        return ModelToolCall(
            "update_plan", {"plan": [{"step": t, "status": s} for t, s in items]}, id
        )


def _patch(change: str, id: str | None) -> ModelToolCall:
    return ModelToolCall("apply_patch", {"input": f"*** Begin Patch\n{change}*** End Patch\n"}, id)


SETUPS = (CodexSetup(), CodexAcp())
