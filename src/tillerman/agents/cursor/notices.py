"""Maps Cursor's connection, retry and system messages to notices."""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, count, text
from tillerman.core.events import Notice


def connection(line: Table) -> Notice:
    if text(line, "subtype") == "reconnected":
        return Notice(level="info", kind="retry", text="reconnected to Cursor")
    said = f"lost the connection to Cursor; retrying, attempt {count(line, 'attempt')}"
    return Notice(level="warning", kind="retry", text=said)


def retry(line: Table) -> Notice | None:
    """Reported once, at its start; `resuming` follows at once."""
    if text(line, "subtype") == "resuming":
        return None
    said = f"Cursor retries the model call, attempt {count(line, 'attempt')}"
    return Notice(level="warning", kind="retry", text=said)


def used_all_the_same(kind: str) -> Notice:
    said = f"Cursor used its {kind} tool although it was disabled: this version ignores that"
    return Notice(level="error", kind="settings", text=said)


def system(line: Table) -> Notice | None:
    match text(line, "subtype"):
        case "background_shell_timeout":
            said = "a command takes long and continues in the background"
            return Notice(level="info", kind="session", text=said)
        case "task_notification":
            said = text(line, "summary") or text(line, "status") or "a background task changed"
            return Notice(level="info", kind="session", text=said)
    return None
