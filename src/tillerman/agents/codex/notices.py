"""Maps Codex's status notifications to notices, and lists the ones that are ignored."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tillerman.agents.codex import failures
from tillerman.agents.decoding.fields import Table, number, table, tables, text
from tillerman.core.events import Notice

QUIET = frozenset(
    {"account/gatewayOAuth/changed", "account/login/completed", "account/updated",
     "app/list/updated", "autoApprovalReview/strictReviewRequired", "command/exec/outputDelta",
     "deprecationNotice", "externalAgentConfig/import/completed",
     "externalAgentConfig/import/progress", "fs/changed", "fuzzyFileSearch/sessionCompleted",
     "fuzzyFileSearch/sessionUpdated", "hook/started", "item/autoApprovalReview/completed",
     "item/autoApprovalReview/started", "item/commandExecution/terminalInteraction",
     "item/fileChange/outputDelta", "item/fileChange/patchUpdated",
     "item/reasoning/summaryPartAdded", "mcpServer/event/stream/notification",
     "mcpServer/oauthLogin/completed", "model/safetyBuffering/updated", "model/verification",
     "modelProvider/authRecoveryCompleted", "process/exited", "process/outputDelta",
     "project/changed", "rawResponse/completed", "rawResponseItem/completed",
     "remoteControl/status/changed", "skills/changed", "thread/archived",
     "thread/attachment/updated", "thread/compacted", "thread/deleted",
     "thread/environment/connected", "thread/environment/disconnected", "thread/goal/cleared",
     "thread/goal/updated", "thread/prediction/updated", "thread/project/updated",
     "thread/queue/changed", "thread/readState/changed", "thread/started",
     "thread/status/changed", "thread/unarchived", "turn/diff/updated",
     "turn/moderationMetadata", "windowsSandbox/setupCompleted"}
)  # fmt: skip
QUIET_PREFIX = "thread/realtime/"  # voice, which is never started
QUIET_ITEMS = frozenset({"userMessage", "hookPrompt", "enteredReviewMode"})

_Kind = Literal["fallback", "session", "settings", "storage"]
_NOTICES: dict[str, tuple[Literal["info", "warning"], _Kind]] = {
    "warning": ("warning", "session"),
    "guardianWarning": ("warning", "session"),
    "configWarning": ("warning", "settings"),
    "modelProvider/authRecoveryStarted": ("info", "session"),
    "thread/closed": ("warning", "session"),
    "thread/reverted": ("warning", "session"),
    "windows/worldWritableWarning": ("warning", "session"),
}
_NEAR = 90  # percent of a limit


class CodexWaitNotice(NamedTuple):
    """A notice about a limit, and how long it lasts in seconds."""

    notice: Notice
    after: float | None


def notice(method: str, params: Table, parent: str | None) -> Notice | None:
    """Maps a notification to a notice; None if it is not one."""
    match method:
        case "model/rerouted":
            message = f"{text(params, 'fromModel')} was replaced with {text(params, 'toModel')}"
            return Notice(level="warning", kind="fallback", text=message, parent=parent)
        case _ if method in _NOTICES:
            level, kind = _NOTICES[method]
            message = text(params, "message") or text(params, "summary") or method
            if details := text(params, "details"):
                message = f"{message}: {details}"
            return Notice(level=level, kind=kind, text=message, parent=parent)
    return None


def retry(error: Table, parent: str | None) -> Notice:
    message = text(error, "message") or "trying again"
    why = text(error, "additionalDetails")
    content = f"{message} ({why})" if why else message
    failure = failures.failure({**error, "message": why or message})
    return Notice(level="warning", kind="retry", text=content, failure=failure, parent=parent)


def server_status(params: Table) -> Notice | None:
    if text(params, "status") != "failed":
        return None
    why = text(params, "error") or text(params, "failureReason") or "no reason was given"
    message = f"MCP server {text(params, 'name')!r} did not start: {why}"
    return Notice(level="warning", kind="session", text=message)


def hook(params: Table, parent: str | None) -> Notice | None:
    """A notice about a user's hook that failed or stopped something."""
    run = table(params, "run")
    status = text(run, "status")
    if status not in ("failed", "blocked", "stopped"):
        return None
    messages = [
        text(run, "statusMessage"),
        *(text(entry, "text") for entry in tables(run, "entries")),
    ]
    why = "; ".join(filter(None, messages)) or "no reason was given"
    text_ = f"a hook on {text(run, 'eventName')} {status}: {why}"
    return Notice(level="warning", kind="session", text=text_, parent=parent)


def limits(params: Table, now: float) -> CodexWaitNotice | None:
    """Handles `account/rateLimits/updated`: a notice if a limit is near or reached."""
    found = table(params, "rateLimits")
    windows = [table(found, key) for key in ("primary", "secondary")]
    full = [window for window in windows if (number(window, "usedPercent") or 0) >= _NEAR]
    if not full:
        return None
    window = max(full, key=lambda each: number(each, "usedPercent") or 0)
    percent = number(window, "usedPercent") or 0
    resets = number(window, "resetsAt")
    after = max(0.0, resets - now) if resets else None
    when = "" if after is None else f"; it resets in {after / 60:.0f} min"
    message = f"{percent:.0f} % of the account's limit is used{when}"
    return CodexWaitNotice(
        Notice(level="warning", kind="limit", text=message), after if percent >= 100 else None
    )
