"""Translates the events of a run into events of the log. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

from tillerman.agents.cursor_cloud.api_objects import CloudRun, run_of, state_of
from tillerman.agents.cursor_cloud.sse_parser import ServerEvent
from tillerman.agents.cursor_cloud.tool_names import NAMES
from tillerman.agents.decoding.fields import Table, parse, storable, table, text
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.core import events as ev
from tillerman.core import tools
from tillerman.core.failure import Failure

Outcome = Literal["completed", "failed", "denied", "cancelled"]

_OUTCOMES: dict[str, Outcome] = {
    "success": "completed",
    "failure": "failed",
    "error": "failed",
    "rejected": "denied",
    "permissionDenied": "denied",
}
_SILENT = frozenset({"heartbeat", "done"})
_TEXTS = ("content", "interleavedOutput", "stdout", "markdown", "message", "reason", "error",
          "errorMessage")  # fmt: skip


class RunEvents:
    """The state of one run: which message is being written, which calls have started."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._number = 0
        self._open = ""  # the kind of the open message
        self._said: list[str] = []
        self._calls: set[str] = set()

    def decode(self, event: ServerEvent) -> list[ev.Event]:
        """Never raises: what it does not know is kept as `Unrecognized`."""
        if event.kind in _SILENT:
            return []
        found = parse(event.data.encode("utf-8", "surrogatepass"))
        if isinstance(found, str):
            return [_kept(event, found)]
        try:
            return list(self._decode(event, storable(found)))
        except (TypeError, ValueError, RecursionError) as error:
            return [_kept(event, str(error))]

    def _decode(self, event: ServerEvent, fields: Table) -> Iterator[ev.Event]:
        match event.kind:
            case "assistant" if isinstance(fields.get("text"), str):
                self._said.append(fields["text"])
                yield from self._chunk("assistant", fields["text"])
            case "thinking" if isinstance(fields.get("text"), str):
                yield from self._chunk("thinking", fields["text"])
            case "tool_call" if text(fields, "callId"):
                self._open = ""
                yield from self._call(event, fields)
            case "status" if state_of(text(fields, "status")) != "unknown":
                return
            case "result":
                yield from self._result(event, run_of(fields))
            case kind:
                yield _kept(event, f"an event {kind!r} of this form is not known")

    def _chunk(self, kind: str, words: str) -> Iterator[ev.Event]:
        if not words:
            return
        if kind != self._open:
            self._open = kind
            self._number += 1
        id = f"{self._run}:{self._number}"
        if kind == "thinking":
            yield ev.ThoughtChunk(message_id=id, text=words)
        else:
            yield ev.MessageChunk(message_id=id, text=words)

    def _call(self, event: ServerEvent, fields: Table) -> Iterator[ev.Event]:
        id, name = text(fields, "callId"), text(fields, "name")
        if id not in self._calls:
            self._calls.add(id)
            input = table(fields, "args")
            tool = NAMES.get(name, name or "MCP")
            yield ev.ToolStarted(
                call_id=id,
                tool=tool,
                name=name,
                title=tools.title(tool, input, name=name),
                input=input,
                paths=tools.paths_of(input),
            )
        match text(fields, "status"):
            case "running":
                return
            case "completed":
                outcome, content = _result_of(fields)
                yield ev.ToolFinished(call_id=id, outcome=outcome, content=content)
            case status:
                yield _kept(event, f"a call's status {status!r} is not known")

    def _result(self, event: ServerEvent, run: CloudRun) -> Iterator[ev.Event]:
        if run.state != "failed" and run.text and run.text.strip() not in "".join(self._said):
            self._open = ""
            yield from self._chunk("assistant", run.text)
        for branch in run.branches:
            where = f"branch {branch.branch} of {branch.repository}"
            more = f", pull request {branch.pull_request}" if branch.pull_request else ""
            yield ev.Notice(level="info", kind="session", text=where + more)
        match run.state:
            case "failed" | "expired":
                expired = "the cloud agent expired before it finished"
                message = run.text or (expired if run.state == "expired" else "it gave no reason")
                hint = "prompt it again, or see its page: `tillerman cloud show ID`"
                failure = Failure(kind="agent_failed", message=message, hint=hint)
                yield ev.TurnEnded(reason="failed", failure=failure)
            case "cancelled":
                yield ev.TurnEnded(reason="cancelled")
            case "finished":
                yield ev.TurnEnded(reason="completed")
            case _:
                yield _kept(event, f"the status {run.status!r} is not known")
                yield ev.TurnEnded(reason="completed")


def _result_of(fields: Table) -> tuple[Outcome, tuple[ev.Content, ...]]:
    result = table(fields, "result")
    for key, outcome in _OUTCOMES.items():
        if isinstance(result.get(key), dict):
            return outcome, _content(table(result, key))
    if table(fields, "truncated").get("result") is True:
        return "completed", (ev.Text("(the cloud did not send this result: it is too long)"),)
    return "completed", _content(result)


def _content(body: Table) -> tuple[ev.Content, ...]:
    if not body:
        return ()
    if patch := text(body, "diffString"):
        return (ev.Diff(text(body, "path"), patch=patch),)
    if words := next((text(body, key) for key in _TEXTS if text(body, key)), ""):
        return (ev.Text(words),)
    return (ev.Text(json.dumps(body, ensure_ascii=False)),)


def _kept(event: ServerEvent, why: str) -> ev.Unrecognized:
    id = f"id: {event.id}\n" if event.id is not None else ""
    raw = f"{id}event: {event.kind}\ndata: {event.data}"
    return unrecognized(raw.encode("utf-8", "surrogatepass"), why)
