"""The events that `opencode serve` streams, translated to ours. Who reads them is elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridle.agents.fields import Table, count, storable, strings, table, tables, text
from bridle.agents.opencode import failures
from bridle.agents.opencode.parts import Parts
from bridle.agents.opencode.tools import Call, plan
from bridle.agents.questions import question
from bridle.core.events import (
    Event,
    Notice,
    Option,
    PermissionRequested,
    PlanChanged,
    QuestionAsked,
    SettingsChanged,
    TurnEnded,
    Unrecognized,
)
from bridle.core.wire import Keep

Said = Iterator[Event | Keep]

OPTIONS = (
    Option("once", "Allow once", "allow"),
    Option("always", "Always allow", "always"),
    Option("reject", "Deny", "deny"),
)
# Told about the server or the project, not about a conversation; or told again elsewhere.
QUIET = frozenset(
    {
        "server.connected", "server.heartbeat", "server.instance.disposed", "global.disposed",
        "plugin.added", "catalog.updated", "reference.updated", "integration.updated",
        "file.watcher.updated", "file.edited", "session.created", "session.deleted",
        "session.diff", "session.compacted", "message.removed", "message.part.removed",
        "permission.replied", "question.replied", "question.rejected", "lsp.updated",
        "lsp.client.diagnostics", "vcs.branch.updated", "installation.update-available",
        "project.updated", "mcp.tools.changed", "command.executed",
    }
)  # fmt: skip


class ServeEvents:
    """One session among those that the server tells of; subagents are sessions of their own."""

    def __init__(self, session: str, cwd: str, servers: tuple[str, ...] = ()) -> None:
        self._session = session
        self._cwd = cwd
        self._parts = Parts(cwd, servers)
        self._children: dict[str, str] = {}  # a subagent's session -> the call it works inside
        self._users: set[str] = set()  # messages of the user, which are echoed
        self._title = ""
        self._working = False
        self._failed: TurnEnded | None = None

    def prompted(self) -> None:
        """A turn is open until the session is idle again."""
        self._working = True
        self._failed = None

    def hear(self, event: Table) -> Said:
        kind, told = text(event, "type"), table(event, "properties")
        if kind in QUIET:
            return
        session = text(told, "sessionID")
        parent = self._children.get(session)
        if session and session != self._session and parent is None:
            return  # another conversation on the same server
        match kind:
            case "message.updated":
                info = table(told, "info")
                if text(info, "role") == "user":
                    self._users.add(text(info, "id"))
            case "message.part.updated":
                yield from self._part(table(told, "part"), parent)
            case "message.part.delta":
                if text(told, "messageID") not in self._users:
                    yield from self._parts.delta(text(told, "partID"), text(told, "delta"), parent)
            case "permission.asked":
                yield self._permission(told, parent)
            case "question.asked":
                yield self._question(told, parent)
            case "todo.updated":
                yield plan(tables(told, "todos"), parent)
            case "session.updated" if parent is None:
                yield from self._settings(table(told, "info"))
            case "session.status":
                yield from self._status(table(told, "status"), parent)
            case "session.error" if parent is None:
                self._failed = self._failed or _ending(table(told, "error"))
            case "session.error":
                why = failures.failure(table(told, "error")).message
                yield Notice(level="error", kind="subagent", text=why, parent=parent)
            case "session.idle" if parent is None and self._working:
                self._working = False
                yield from self._parts.finish()
                yield self._failed or TurnEnded(reason="completed")
            case "session.idle" | "session.updated":
                pass  # it may come twice after an error
            case _:
                yield _unknown(event, f"an event of type {kind!r}")

    def _part(self, part: Table, parent: str | None) -> Said:
        if text(part, "messageID") in self._users:
            return
        if not self._parts.knows(part):
            yield _unknown(part, f"a part of type {text(part, 'type')!r}")
            return
        if child := self._parts.child_of(part):
            self._children[child[0]] = child[1]
        for event in self._parts.updated(part, parent):
            if not isinstance(event, PlanChanged):  # todo.updated tells it
                yield event

    def _permission(self, asked: Table, parent: str | None) -> PermissionRequested:
        """Asked for a call that has begun, or for something that is no call of its own."""
        call_id, kind = text(table(asked, "tool"), "callID"), text(asked, "permission")
        outside = kind == "external_directory"
        call = self._parts.call(call_id)
        if call is None:
            metadata = storable(table(asked, "metadata"))
            path = text(metadata, "filepath")
            call = Call(call_id, kind, metadata | ({"filePath": path} if path else {}))
        return PermissionRequested(
            request_id=text(asked, "id"),
            tool=call.tool,
            title=call.title(self._cwd),
            input=call.input,
            paths=call.paths or tuple(strings(asked, "patterns") if outside else ()),
            call_id=call_id or None,
            options=OPTIONS,
            reason="it is outside of the project" if outside else "",
            parent=parent,
        )

    def _question(self, asked: Table, parent: str | None) -> QuestionAsked:
        return QuestionAsked(
            request_id=text(asked, "id"),
            questions=tuple(map(question, tables(asked, "questions"))),
            call_id=text(table(asked, "tool"), "callID") or None,
            parent=parent,
        )

    def _settings(self, info: Table) -> Iterator[Event]:
        title = text(info, "title")
        if title and title != self._title and not title.startswith("New session - "):
            self._title = title
            yield SettingsChanged(title=title)

    def _status(self, status: Table, parent: str | None) -> Iterator[Event]:
        if text(status, "type") == "retry":
            attempt = count(status, "attempt")
            said = f"{text(status, 'message')} (attempt {attempt})"
            yield Notice(level="warning", kind="retry", text=said, parent=parent)


def _unknown(told: Table, why: str) -> Unrecognized:
    return Unrecognized(raw=msgspec.json.encode(storable(told)).decode(), why=why)


def _ending(error: Table) -> TurnEnded:
    if text(error, "name") == failures.ABORTED:
        return TurnEnded(reason="cancelled")
    return TurnEnded(reason="failed", failure=failures.failure(error))
