"""Maps Claude Code's status messages to notices, and lists the ones that are ignored."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec.structs import replace

from tillerman.agents.claude import failures
from tillerman.agents.decoding.fields import Table, count, number, table, text
from tillerman.core.events import Notice

QUIET_TYPES = frozenset(
    {"keep_alive", "tool_progress", "tool_use_summary", "auth_status", "prompt_suggestion",
     "control_request_progress", "control_closed", "conversation_reset", "audit_event"}
)  # fmt: skip
QUIET_SUBTYPES = frozenset(
    {"thinking_tokens", "task_progress", "task_updated", "task_summary", "hook_started",
     "hook_progress", "hook_response", "stop_hook_summary", "turn_starting", "turn_duration",
     "turn_preempted", "turn_handoff_available", "turn_began_before_init", "post_turn_summary",
     "away_summary", "memory_recall", "memory_saved", "file_snapshot", "files_persisted",
     "commands_changed", "plugin_install", "permission_retry", "permission_check_status",
     "elicitation_complete", "worker_shutting_down", "scheduled_task_fire", "agents_killed",
     "api_error", "model_refusal_no_fallback", "bridge_status", "bridge_state", "vcs_state_changed",
     "session_metadata", "per_turn_effort_changed", "control_request_progress", "checkpoint_done",
     "rewind_stand_in", "local_command", "start_folder", "thinking", "ui_invalidate"}
)  # fmt: skip
REFUSED_REQUESTS = frozenset({"mcp_message", "elicitation", "request_user_dialog"})

_Kind = Literal["fallback", "session", "storage"]
_NOTICES: dict[str, tuple[Literal["info", "warning"], _Kind]] = {
    "model_fallback": ("warning", "fallback"),
    "model_refusal_fallback": ("warning", "fallback"),
    "model_consent_fallback": ("warning", "fallback"),
    "informational": ("info", "session"),
    "notification": ("info", "session"),
    "instruction_size_warning": ("warning", "session"),
    "file_attachments_missing": ("warning", "session"),
    "session_writes_lost": ("warning", "storage"),
    "mirror_error": ("warning", "storage"),
}


class ClaudeWaitNotice(NamedTuple):
    """A notice about a wait, and its length in seconds."""

    notice: Notice
    after: float | None


def notice(subtype: str, line: Table) -> Notice | None:
    if subtype == "compact_boundary":
        tokens = count(table(line, "compact_metadata"), "pre_tokens")
        size = f" of {tokens} tokens" if tokens else ""
        return Notice(level="info", kind="compaction", text=f"compacted the conversation{size}")
    if subtype not in _NOTICES:
        return None
    level, kind = _NOTICES[subtype]
    messages = (text(line, key) for key in ("content", "message", "text", "error"))
    return Notice(
        level=level, kind=kind, text=next(filter(None, messages), subtype.replace("_", " "))
    )


def retry(line: Table) -> ClaudeWaitNotice:
    status = count(line, "error_status")
    delay = number(line, "retry_delay_ms")
    after = None if delay is None else delay / 1000
    error = text(line, "error")
    why = f"model API error: {error or 'unknown'}" + (f" ({status})" if status else "")
    if error == "unknown" and not status:
        why = "Lost the connection to the model"
    wait = "" if after is None else f" in {after:.1f} s"
    attempt = f"attempt {count(line, 'attempt')} of {count(line, 'max_retries')}"
    message = f"{why}; retrying{wait}, {attempt}"
    limited = after if status == 429 else None
    failure = failures.of_retry(error, status, why)
    failure = replace(failure, retry_after=limited)
    return ClaudeWaitNotice(
        Notice(level="warning", kind="retry", text=message, failure=failure), limited
    )


def limit(info: Table, now: float) -> ClaudeWaitNotice | None:
    """Handles `rate_limit_event`: a notice if the limit is near or reached."""
    status = text(info, "status")
    if status not in ("allowed_warning", "rejected"):
        return None
    resets = number(info, "resetsAt")
    after = max(0.0, resets - now) if resets else None
    which = text(info, "rateLimitType").replace("_", " ") or "usage"
    state = "reached" if status == "rejected" else "nearly reached"
    when = "" if after is None else f"; it resets in {after / 60:.0f} min"
    message = f"{which} limit {state}{when}"
    return ClaudeWaitNotice(
        Notice(level="warning", kind="limit", text=message), after if status == "rejected" else None
    )
