"""Runs hooks.json as Cursor does in print mode: which hooks run, their input, and which reply
counts.

Hooks of `prompt` type need a model and are left out.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

EVENTS = frozenset({
    "sessionStart", "sessionEnd", "beforeSubmitPrompt", "preToolUse", "postToolUse",
    "postToolUseFailure", "beforeShellExecution", "afterShellExecution", "beforeMCPExecution",
    "afterMCPExecution", "beforeReadFile", "afterFileEdit", "subagentStart", "subagentStop",
    "preCompact", "stop", "afterAgentResponse", "afterAgentThought", "beforeTabFileRead",
    "afterTabFileEdit", "workspaceOpen",
})  # fmt: skip
DEFAULT_TIMEOUT = 60.0
NOTE = "\n\nAgent note: Do not suggest workarounds to the blocked tool."
PLUGINS_RUN_SINCE = "2026.08.11"  # in print mode


class Hook(NamedTuple):
    command: str
    cwd: Path
    root: Path | None  # of a plugin
    timeout: float
    fail_closed: bool
    matcher: str


class Verdict(NamedTuple):
    """`deny`: the reason, or None; `told`: additional text for the model."""

    deny: str | None = None
    input: dict[str, Any] | None = None
    told: str = ""


class Hooks:
    """Hooks in order: those of the project before those of the user."""

    def __init__(
        self, *, project: Path, user: Path, plugins: list[Path], common: dict[str, Any]
    ) -> None:
        self._project = project
        self._common = common
        self._env: dict[str, str] = {}
        self._hooks: dict[str, list[Hook]] = {}
        self._load(project / ".cursor" / "hooks.json", project, None)
        self._load(user / ".cursor" / "hooks.json", user / ".cursor", None)
        for plugin in plugins if common["cursor_version"] >= PLUGINS_RUN_SINCE else ():
            manifest = _json(plugin / ".cursor-plugin" / "plugin.json")
            if manifest:
                file = plugin / manifest.get("hooks", "hooks/hooks.json")
                self._load(file, plugin, plugin)

    def _load(self, file: Path, cwd: Path, root: Path | None) -> None:
        """One unknown event, or a command with a URL in it, voids the whole file silently."""
        events = _json(file).get("hooks", {})
        hooks = [one for each in events.values() for one in each]
        if set(events) - EVENTS or any("://" in one.get("command", "") for one in hooks):
            return
        for event, listed in events.items():
            self._hooks.setdefault(event, []).extend(
                Hook(
                    one["command"],
                    cwd,
                    root,
                    float(one.get("timeout", DEFAULT_TIMEOUT)),
                    one.get("failClosed", False) is True,
                    one.get("matcher", ""),
                )
                for one in listed
                if one.get("type", "command") == "command"
            )

    def report(self, event: str, subject: str = "", **extra: Any) -> list[dict[str, Any]]:
        """An event whose replies cannot block anything."""
        replies = [self._ask(hook, event, extra)[0] for hook in self._matching(event, subject)]
        if event == "sessionStart":
            for reply in replies:
                self._env |= reply.get("env", {})
        return replies

    def run_all(self, event: str, subject: str, **extra: Any) -> Verdict:
        """All hooks run; one denial is enough. In print mode there is no user for `ask`."""
        denied: Verdict | None = None
        changed: dict[str, Any] | None = None
        for hook in self._matching(event, subject):
            reply, refused = self._ask(hook, event, extra)
            permission = reply.get("permission")
            if refused is not None:
                denied = denied or Verdict(refused)
            elif permission == "deny" or (permission == "ask" and event != "preToolUse"):
                why = reply.get("user_message") or "blocked by a hook"
                denied = denied or Verdict(why, told=reply.get("agent_message", ""))
            elif event == "preToolUse" and isinstance(reply.get("updated_input"), dict):
                changed = changed or reply["updated_input"]
        return denied or Verdict(input=changed)

    def _matching(self, event: str, subject: str) -> list[Hook]:
        return [h for h in self._hooks.get(event, []) if re.search(h.matcher, subject)]

    def _ask(
        self, hook: Hook, event: str, extra: dict[str, Any]
    ) -> tuple[dict[str, Any], str | None]:
        """The reply, and why the hook itself refuses: exit code 2, or its failure if that
        blocks."""
        payload = {**self._common, **extra, "hook_event_name": event}
        code, out, errors = self._run(hook, json.dumps(payload))
        if code == 2:
            return {}, errors.strip() or "blocked by a hook"
        failed = f"the hook failed: {code}" if code != 0 else None
        reply: Any = {}
        if failed is None and out.strip():
            try:
                reply = json.loads(out)
            except ValueError:
                reply = None
        if not isinstance(reply, dict):
            failed = "the hook said no JSON object"
        if failed:
            return {}, failed if hook.fail_closed else None
        return reply, None

    def _run(self, hook: Hook, payload: str) -> tuple[int | str, str, str]:
        env = os.environ | {
            "CURSOR_PROJECT_DIR": str(self._project),
            "CLAUDE_PROJECT_DIR": str(self._project),
            "CURSOR_VERSION": self._common["cursor_version"],
            "CURSOR_USER_EMAIL": self._common["user_email"] or "",
            "CURSOR_TRANSCRIPT_PATH": self._common["transcript_path"] or "",
            "CURSOR_CODE_REMOTE": "false",
            **self._env,
        }
        if hook.root:
            env["CURSOR_PLUGIN_ROOT"] = str(hook.root)
        with subprocess.Popen(
            hook.command,
            shell=True,
            cwd=hook.cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                out, errors = process.communicate(payload, timeout=hook.timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return "timeout", "", ""
        return process.returncode, out, errors


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
