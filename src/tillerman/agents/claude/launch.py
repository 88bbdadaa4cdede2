"""Builds the command line and user messages of Claude Code."""

from __future__ import annotations

import base64
import json
from typing import Any

from tillerman.agents.decoding.inline_attachments import in_words
from tillerman.core.agent import File, Mode, Prompt, SecretFile, SessionSpec, Word
from tillerman.core.wire import Launch

_PERMISSION_MODES: dict[Mode, str] = {
    "agent": "default",
    "plan": "plan",
    # The CLI has no such mode: the harness denies changes.
    "ask": "default",
}
# Tools that the CLI would run without asking. This rule makes it ask, and an unreadable answer
# denies; with a hook callback it would ignore an unreadable answer.
ASKED = ("Bash", "Glob", "Grep", "ListMcpResourcesTool", "LSP", "Read", "ReadMcpResourceTool")
_SETTINGS = json.dumps({"permissions": {"ask": ASKED}}, separators=(",", ":"))
_TAKES = "it accepts text, PDF, PNG, JPEG, GIF and WebP; refer to other files by path"
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def launch(spec: SessionSpec) -> Launch:
    # Always `--flag=value`: several flags take many values and would consume what follows, and a
    # value may begin with a dash.
    argv: list[Word] = ["claude", "-p"]
    argv += ["--input-format=stream-json", "--output-format=stream-json"]
    argv += ["--verbose", "--include-partial-messages", "--permission-prompt-tool=stdio"]
    argv += [f"--settings={_SETTINGS}", f"--permission-mode={permission_mode(spec.mode)}"]
    if spec.model:
        argv.append(f"--model={spec.model}")
    if spec.effort:
        argv.append(f"--effort={spec.effort}")
    if spec.resume:
        argv.append(f"--resume={spec.resume}")
        if spec.fork:
            argv.append("--fork-session")
    if spec.system:
        argv.append(f"--append-system-prompt={spec.system}")
    if spec.tools.servers:
        servers = {name: dict(server) for name, server in spec.tools.servers.items()}
        content = json.dumps({"mcpServers": servers}).encode()
        argv.append(SecretFile("--mcp-config=", content))
    if spec.output_schema is not None:
        argv.append(f"--json-schema={json.dumps(dict(spec.output_schema))}")
    if spec.limits.turns is not None:
        argv.append(f"--max-turns={spec.limits.turns}")
    if spec.limits.cost is not None:
        argv.append(f"--max-budget-usd={spec.limits.cost}")
    argv += [f"--add-dir={folder}" for folder in spec.folders]
    argv += [f"--allowedTools={tool}" for tool in spec.tools.allowed]
    argv += [f"--disallowedTools={tool}" for tool in spec.tools.denied]
    return Launch(argv, env={"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"})


def permission_mode(mode: Mode) -> str:
    return _PERMISSION_MODES[mode]


def user_message(prompt: Prompt) -> dict[str, Any]:
    content: str | list[dict[str, Any]] = prompt.text
    if prompt.files:
        content = [_block(file) for file in prompt.files]
        if prompt.text:
            content.append({"type": "text", "text": prompt.text})
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}


def _block(file: File) -> dict[str, Any]:
    if file.mime in _IMAGES:
        return {"type": "image", "source": _base64(file)}
    if file.mime == "application/pdf":
        return {"type": "document", "source": _base64(file), "title": file.name}
    return {"type": "text", "text": in_words("claude", file, hint=_TAKES)}


def _base64(file: File) -> dict[str, str]:
    data = base64.b64encode(file.data).decode()
    return {"type": "base64", "media_type": file.mime, "data": data}
