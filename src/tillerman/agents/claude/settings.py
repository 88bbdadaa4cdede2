"""Session id, model, mode and commands of Claude Code, as reported and as requested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tillerman.agents.claude.launch import permission_mode
from tillerman.agents.decoding.fields import Table, strings, table, text
from tillerman.core.agent import Mode
from tillerman.core.events import AgentReady, Event, Notice, SettingsChanged

_UNSEEN = "the agent did not accept a callback: only calls that it asks about can be decided here"


class ClaudeSettings:
    """Also numbers our requests to the CLI: a change counts when it is confirmed."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self.model = ""
        self._native_id = ""
        self._commands: tuple[str, ...] = ()
        self._sent = 0
        self._waiting: dict[str, SettingsChanged | None] = {}

    def request(self, body: Table, then: SettingsChanged | None = None) -> dict[str, Any]:
        self._sent += 1
        request_id = f"tillerman_{self._sent}"
        self._waiting[request_id] = then
        return {"type": "control_request", "request_id": request_id, "request": body}

    def configure(self, model: str | None, mode: Mode | None) -> Iterator[dict[str, Any]]:
        if model:
            body = {"subtype": "set_model", "model": model}
            yield self.request(body, SettingsChanged(model=model))
        if mode:
            self.mode = mode  # at once: the CLI reports "ask" under another name
            body = {"subtype": "set_permission_mode", "mode": permission_mode(mode)}
            yield self.request(body, SettingsChanged(mode=mode))

    def answered(self, response: Table) -> Iterator[Event]:
        """Handles the `control_response` to one of our requests."""
        change = self._waiting.pop(text(response, "request_id"), None)
        if text(response, "subtype") == "error":
            why = text(response, "error") or "the agent refused a request"
            yield Notice(level="error", kind="settings", text=why)
        elif table(response, "response").get("hooks_applied") is False:
            yield Notice(level="error", kind="settings", text=_UNSEEN)
        elif change:
            yield change

    def told(self, line: Table) -> Iterator[Event]:
        """Handles `system/init`, which comes at the start of each turn."""
        native_id, model = text(line, "session_id"), text(line, "model")
        if native_id and (native_id, model) != (self._native_id, self.model):
            self._native_id, self.model = native_id, model
            version = text(line, "claude_code_version") or None
            yield AgentReady(native_id=native_id, model=model or None, version=version)
        commands = tuple(strings(line, "slash_commands"))
        if commands and commands != self._commands:
            self._commands = commands
            yield SettingsChanged(commands=commands)
        yield from self.reported_mode(line)

    def reported_mode(self, line: Table) -> Iterator[Event]:
        """Updates the mode; the CLI has no "ask" mode, so only changes from or to "plan" count."""
        match text(line, "permissionMode"):
            case "plan" if self.mode != "plan":
                self.mode = "plan"
            case word if word not in ("", "plan") and self.mode == "plan":
                self.mode = "agent"
            case _:
                return
        yield SettingsChanged(mode=self.mode)
