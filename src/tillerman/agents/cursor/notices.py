"""Maps Cursor's connection, retry and system messages to notices."""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, count, text
from tillerman.core.events import Notice


def connection(line: Table) -> Notice:
    if text(line, "subtype") == "reconnected":
        return Notice(level="info", kind="retry", text="reconnected to Cursor")
    message = f"lost the connection to Cursor; retrying, attempt {count(line, 'attempt')}"
    return Notice(level="warning", kind="retry", text=message)


def retry(line: Table) -> Notice | None:
    """Reported once, at its start; `resuming` follows at once."""
    if text(line, "subtype") == "resuming":
        return None
    message = f"Cursor retries the model call, attempt {count(line, 'attempt')}"
    return Notice(level="warning", kind="retry", text=message)


def used_all_the_same(kind: str) -> Notice:
    message = f"Cursor used its {kind} tool although it was disabled: this version ignores that"
    return Notice(level="error", kind="settings", text=message)


def system(line: Table) -> Notice | None:
    match text(line, "subtype"):
        case "background_shell_timeout":
            message = "a command takes long and continues in the background"
            return Notice(level="info", kind="session", text=message)
        case "task_notification":
            message = text(line, "summary") or text(line, "status") or "a background task changed"
            return Notice(level="info", kind="session", text=message)
    return None
