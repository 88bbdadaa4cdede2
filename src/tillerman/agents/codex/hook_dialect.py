"""Hook dialect of Codex: Claude's format, but allow is an empty reply, and ask is not supported.

Codex runs a hook only after the user has trusted it, and accepts exit 2 only with text on stderr.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from tillerman.agents.codex import tool_names
from tillerman.core import tools
from tillerman.core.events import PermissionRequested
from tillerman.core.json_fields import Table, text
from tillerman.core.patch_text import patched_files
from tillerman.hooks.dialects import hook_events
from tillerman.hooks.dialects.common_dialect import CommonHookDialect
from tillerman.hooks.dialects.dialect import HookConfigPaths
from tillerman.hooks.dialects.hook_events import HookKind
from tillerman.hooks.dialects.payload_codec import HookEvent, UnreadablePayload
from tillerman.hooks.protocol import HookReply


class CodexHooks(CommonHookDialect):
    EVENTS: ClassVar = {
        "SessionStart": HookKind(hook_events.SessionStart),
        "UserPromptSubmit": HookKind(hook_events.PromptSubmit),
        "PreToolUse": HookKind(hook_events.BeforeTool),
        "PermissionRequest": HookKind(hook_events.PermissionAsked),
        "PostToolUse": HookKind(hook_events.AfterTool),
        "Stop": HookKind(hook_events.TurnEnd),
        "SubagentStart": HookKind(hook_events.SubagentStart),
        "SubagentStop": HookKind(hook_events.SubagentStop),
        "PreCompact": HookKind(hook_events.Compaction),
    }
    NAMES = tool_names.NAMES
    PLACE = HookConfigPaths(
        project=".codex/hooks.json",
        user=".codex/hooks.json",
        moved=("CODEX_HOME", ".codex"),
        trust="start `codex` once and trust them under `/hooks`; it runs only trusted hooks",
    )

    def allow(self, event: HookEvent, *, input: Table | None = None) -> HookReply:
        plain = isinstance(event, hook_events.BeforeTool) and input is None
        return self.nothing(event) if plain else super().allow(event, input=input)

    def ask(self, event: HookEvent, message: str) -> HookReply:
        return super().ask(event, message) if _asking(event) else self.deny(event, message)

    def request_of(self, event: HookEvent, request_id: str) -> PermissionRequested | None:
        """The request; the files of a patch are read from its text."""
        request = super().request_of(event, request_id)
        named = (
            isinstance(event, hook_events.BeforeTool | hook_events.PermissionAsked)
            and event.tool_name
        )
        if request is None or named != "apply_patch":
            return request
        patch = text(request.input, "command")
        changes = patched_files(patch)
        tool = _tool({one.change for one in changes})
        paths = tuple(dict.fromkeys(one.path for one in changes))
        input = {"patch": patch, "paths": list(paths)}
        if len(paths) == 1:
            input["file_path"] = paths[0]
        title = tools.title(tool, {"edits": [{"file_path": path} for path in paths]})
        return replace(request, tool=tool, title=title, input=input, paths=paths)


def _asking(event: HookEvent) -> bool:
    return isinstance(event, hook_events.PermissionAsked | UnreadablePayload)


def _tool(changes: set[str]) -> str:
    """The tool name that covers all changes of a patch."""
    if changes == {"add"}:
        return "Write"
    return "Delete" if changes == {"delete"} else "Edit"


dialect = CodexHooks()
