"""Claude Code as an agent of bridle: where it is, who is signed in, what it offers and keeps."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bridle.agents.claude.launch import launch
from bridle.agents.fields import Table, parse, strings, table, tables, text
from bridle.agents.stdio import StdioAgent
from bridle.core.agent import (
    Account,
    AgentInfo,
    Installed,
    Launch,
    McpServer,
    Model,
    NativeSession,
    Ran,
    Run,
    SessionSpec,
    Wire,
)
from bridle.core.errors import AgentError, AgentNotInstalled

_CAN = frozenset(
    {"streaming", "thinking", "resume", "fork", "steer", "cancel", "permissions", "questions",
     "modes", "model", "effort", "images", "mcp", "system", "folders", "schema", "subagents",
     "background", "usage", "limits", "tools"}
)  # fmt: skip
INFO = AgentInfo(
    name="claude",
    title="Claude Code",
    can=_CAN,
    binary="claude",
    install="npm install -g @anthropic-ai/claude-code",
    tested=("2.1.197", "2.1.325"),
    variables=(
        "ANTHROPIC_*",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_*",
        "CLAUDE_CODE_SKIP_*",
        "CLAUDE_CODE_MAX_*",
        "CLAUDE_CODE_DISABLE_*",
        "AWS_*",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CLOUD_ML_REGION",
        "VERTEX_REGION_*",
    ),
)

_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")
_SERVER = re.compile(r"(?P<name>[^:]+): (?P<command>.*) - \W* ?(?P<status>\w[^—]*\w)( — .*)?$")
_HEAD = 64 * 1024  # of a stored session, where its first words are; as much of its end


def _wire(spec: SessionSpec) -> Wire:
    from bridle.agents.claude.wire import ClaudeWire  # not before the program has been started

    return ClaudeWire(spec)


class ClaudeCode(StdioAgent):
    def __init__(self) -> None:
        super().__init__(INFO, _wire)

    def program(self, spec: SessionSpec) -> Launch:
        return launch(spec)

    async def installed(self, run: Run) -> Installed:
        path = run.find("claude")
        version = None
        if path:
            found = _VERSION.search(
                (await run([path, "--version"])).stdout.decode("utf-8", "replace")
            )
            version = found[0] if found else None
        return Installed("claude", path, version, INFO.install)

    async def account(self, run: Run) -> Account:
        return account((await run([_binary(run), "auth", "status"])).stdout)

    async def models(self, run: Run) -> Sequence[Model]:
        """No command lists them: they come with the answer to the first message of a session."""
        argv = [_binary(run), *launch(SessionSpec(cwd=Path.cwd())).argv[1:]]
        hello = {"subtype": "initialize", "hooks": None}
        message = {"type": "control_request", "request_id": "models", "request": hello}
        ran = await run(argv, input=json.dumps(message).encode() + b"\n")
        return models(_checked(ran, "models"))

    async def native_sessions(self, run: Run, cwd: Path) -> Sequence[NativeSession]:
        home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
        folder = home / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(cwd.resolve()))
        found = [session(file, cwd) for file in folder.glob("*.jsonl")]
        return sorted(filter(None, found), key=lambda each: each.updated, reverse=True)

    def login(self) -> Sequence[str]:
        return ["claude", "auth", "login"]

    def logout(self) -> Sequence[str]:
        return ["claude", "auth", "logout"]

    async def mcp_servers(self, run: Run) -> Sequence[McpServer]:
        ran = await run([_binary(run), "mcp", "list"], limit=60)  # it connects to each
        return mcp_servers(_checked(ran, "mcp list"))

    async def mcp_add(self, run: Run, name: str, config: Mapping[str, Any]) -> None:
        words = ["mcp", "add-json", "--scope=user", "--", name, json.dumps(dict(config))]
        _checked(await run([_binary(run), *words]), "mcp add-json")

    async def mcp_remove(self, run: Run, name: str) -> None:
        _checked(await run([_binary(run), "mcp", "remove", "--", name]), "mcp remove")


def account(stdout: bytes) -> Account:
    """`claude auth status`: exits with 1 when nobody is signed in, and says so on stdout."""
    said = parse(stdout)
    if isinstance(said, str):
        raise AgentError("claude", f"`claude auth status` said something unexpected: {said}")
    if said.get("loggedIn") is not True:
        hint = "run `claude auth login` or set ANTHROPIC_API_KEY"
        return Account(signed_in=False, hint=hint)
    source, method = text(said, "apiKeySource"), text(said, "authMethod")
    if source.isupper():
        method = "variable"
    elif "token" in method:
        method = "token"
    elif method in ("api_key", "api_key_helper"):
        method = "api key"
    elif method:
        method = "browser"
    who = text(said, "email") or text(said, "orgName") or (source if source.isupper() else "")
    return Account(signed_in=True, method=method or None, who=who or None)


def models(stdout: bytes) -> list[Model]:
    """The models in the answer to `initialize`."""
    for line in stdout.splitlines():
        said = parse(line)
        if isinstance(said, str) or text(said, "type") != "control_response":
            continue
        listed = tables(table(table(said, "response"), "response"), "models")
        return [_model(model) for model in listed]
    raise AgentError("claude", "claude listed no models", hint="`bridle doctor` checks it")


def mcp_servers(stdout: bytes) -> list[McpServer]:
    """`claude mcp list`: `name: command - ✔ Connected`, or `✘ Failed to connect — why`."""
    found = map(_SERVER.match, stdout.decode("utf-8", "replace").splitlines())
    return [
        McpServer(match["name"], match["status"].lower(), match["command"])
        for match in found
        if match
    ]


def session(file: Path, cwd: Path) -> NativeSession | None:
    """A stored conversation, or None for a file that holds none."""
    try:
        with file.open("rb") as stored:
            lines = stored.read(_HEAD).splitlines()
            size = stored.seek(0, os.SEEK_END)
            if size > _HEAD:
                stored.seek(max(_HEAD, size - _HEAD))
                lines += stored.read().splitlines()
    except OSError:
        return None
    title, first = "", ""
    for line in map(parse, lines):
        if isinstance(line, str):
            continue
        named = (text(line, key) for key in ("customTitle", "aiTitle", "summary"))
        title = next(filter(None, named), title)
        first = first or _prompt(line)
    if not (title or first):
        return None
    updated = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    stamp = updated.isoformat(timespec="seconds").replace("+00:00", "Z")
    return NativeSession(file.stem, title or _headline(first), stamp, str(cwd))


def _model(model: Table) -> Model:
    value = text(model, "value")
    resolved = text(model, "resolvedModel")
    return Model(
        id=value,
        title=text(model, "displayName") or value,
        provider="anthropic",
        default=value == "default",
        thinking=model.get("supportsAdaptiveThinking") is True,
        efforts=tuple(strings(model, "supportedEffortLevels")),
        context=1_000_000 if resolved.endswith("[1m]") else None,
    )


def _prompt(line: Table) -> str:
    """The user's own words, if the line has any."""
    if text(line, "type") != "user" or line.get("isMeta") is True:
        return ""
    message = table(line, "message")
    said = text(message, "content") or next(
        (text(block, "text") for block in tables(message, "content")), ""
    )
    return "" if said.startswith("<") else said


def _headline(prompt: str, limit: int = 80) -> str:
    line = " ".join(prompt.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _binary(run: Run) -> str:
    path = run.find("claude")
    if path is None:
        raise AgentNotInstalled("claude", binary="claude", hint=INFO.install)
    return path


def _checked(ran: Ran, what: str) -> bytes:
    if not ran.exit.clean:
        said = (ran.stderr or ran.stdout).decode("utf-8", "replace").strip()
        raise AgentError("claude", f"`claude {what}` failed: {said[-500:]}")
    return ran.stdout
