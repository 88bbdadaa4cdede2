"""Translates between Codex's app-server (JSON-RPC over lines) and events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

from msgspec.structs import replace

from tillerman.agents.codex import failures, notices
from tillerman.agents.codex.fast_path import piece
from tillerman.agents.codex.hook_requests import CodexHookRequests, config
from tillerman.agents.codex.launch import launch, user_input
from tillerman.agents.codex.messages import CodexMessages
from tillerman.agents.codex.requests import REFUSED, CodexRequests
from tillerman.agents.codex.settings import CodexSettings
from tillerman.agents.codex.thread import Thread, pass_over, settings_update
from tillerman.agents.codex.thread_items.items import KINDS, Items
from tillerman.agents.codex.thread_items.subagents import Subagents
from tillerman.agents.codex.thread_items.todo_list import steps
from tillerman.agents.codex.usage import CodexUsage
from tillerman.agents.decoding.fields import Table, parse, storable, table, text
from tillerman.agents.jsonrpc.peer import (
    RpcInvalid,
    RpcNotification,
    RpcPeer,
    RpcRequest,
    RpcResponse,
    Said,
)
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.core.agent import Exit, Mode, Prompt, SessionSpec
from tillerman.core.events import (
    Answer,
    Event,
    Notice,
    PermissionRequested,
    PlanChanged,
    SettingsChanged,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.wire import AttachmentBytes, Launch, WireReply
from tillerman.hooks.protocol import HookReply


class CodexWire:
    """One conversation: its main thread, and those of its subagents."""

    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, spec: SessionSpec, clock: Callable[[], float] = time.time) -> None:
        self._spec = spec
        self._clock = clock
        self._peer = RpcPeer(version=False)
        self._settings = CodexSettings(spec)
        self._thread = Thread(spec, self._peer, self._settings, self._end)
        self._speech = CodexMessages()
        self._items = Items(str(spec.cwd))
        self._subagents = Subagents()
        self._requests = CodexRequests(str(spec.cwd), self._peer, self._items, self._may_run)
        self._gate = CodexHookRequests(self._subagents.inside)
        self._meter = CodexUsage()
        self._error: Table = {}
        self._retry_after: float | None = None

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return launch(spec)

    def hook(self, command: str, seconds: int) -> None:
        """Sets the command of the hook before every call; must precede `greet`."""
        self._thread.hooks = config(command, seconds)

    def greet(self) -> Iterable[dict[str, Any]]:
        return self._thread.greet()

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        return self._thread.prompt(user_input(prompt))

    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]:
        messages, thread, turn = self._requests.answer(request_id, answer)
        if thread and turn:
            note = user_input(Prompt(f"Denied: {answer.note}"))
            params = {"threadId": thread, "expectedTurnId": turn, "input": note}
            # first, or the model's next request might be sent without it
            messages.insert(0, self._peer.request("turn/steer", params, pass_over))
        return messages

    def cancel(self) -> Iterable[dict[str, Any]]:
        self._gate.drop()
        running = self._subagents.running.items()
        messages = [self._thread.interrupt(thread, turn) for thread, turn in running]
        return [*messages, *self._thread.cancel()]

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]:
        self._settings.configure(model, mode)
        return settings_update(self._thread, self._peer, self._settings.params(True))

    def explain(self, exit: Exit, stderr: str) -> Failure | None:
        """The failure of a start: before `initialize` is answered, only stderr has the reason."""
        if self._thread.greeted:
            return None
        messages = [line.strip() for line in stderr.splitlines() if line.strip()]
        why = f": {messages[-1]}" if messages else ""
        message = f"codex ended before its app-server answered{why}"
        return Failure(kind="agent_failed", message=message, hint=failures.TOO_OLD)

    # -- hook requests -----------------------------------------------------------------------

    def hooked(self, ask: str, payload: bytes) -> PermissionRequested | HookReply:
        return self._gate.asked(ask, payload)

    def rule(self, ask: str, answer: Answer) -> HookReply | None:
        return self._gate.answer(ask, answer)

    def gone(self, ask: str) -> list[Event]:
        return self._gate.gone(ask)

    def _may_run(self, call_id: str) -> bool:
        return self._gate.allows(call_id)

    # -- the end of a turn -------------------------------------------------------------------

    def _ending(self, turn: Table) -> TurnEnded:
        match text(turn, "status"):
            case "interrupted":
                return TurnEnded(reason="cancelled")
            case "failed":
                failure = failures.failure(table(turn, "error") or self._error)
                if failure.kind == "rate_limited":
                    failure = replace(failure, retry_after=self._retry_after)
                return TurnEnded(reason="failed", failure=failure)
        result = None
        if self._spec.output_schema is not None:
            parsed = parse(self._speech.last.encode())
            result = storable(parsed) if isinstance(parsed, dict) else None
        return TurnEnded(reason="completed", result=result)

    def _end(self, end: TurnEnded) -> Said:
        run_on = end.reason == "completed"
        yield from self._items.drop(run_on=run_on)
        yield from self._subagents.leave(run_on=run_on)
        yield from self._requests.drop()
        self._thread.rest()
        self._speech.end_turn()
        self._error = {}
        self._retry_after = None
        yield end

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]:
        reported = self._decode(line)
        return [*self._gate.unreported(), *reported] if self._thread.hooks else reported

    def _decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]:
        more = piece(line)
        if more and self._thread.working and more.thread_id == self._thread.id:
            return self._speech.add(more.item_id, more.delta)
        match self._peer.receive(line):
            case RpcNotification(method, params):
                return self._notification(method, params, line)
            case RpcRequest() as asked:
                return self._asked(asked, line)
            case RpcResponse() as answered:
                return answered.pass_on()
            case RpcInvalid(why):
                return [unrecognized(line, why)]

    def _parent(self, params: Table) -> str | None:
        thread = text(params, "threadId")
        if not thread or not self._thread.id or thread == self._thread.id:
            return None
        return self._subagents.parent_of(thread)

    def _asked(self, asked: RpcRequest, line: bytes) -> Said:
        known = self._requests.receive(asked, self._parent(asked.params))
        if known is not None:
            yield from known
            return
        yield WireReply(self._peer.unknown(asked))
        if asked.method not in REFUSED:
            yield unrecognized(line, f"a request {asked.method!r} was refused")

    def _notification(self, method: str, params: Table, line: bytes) -> Said:
        parent = self._parent(params)
        thread = text(params, "threadId")
        item, item_id = table(params, "item"), text(params, "itemId")
        match method:
            case "item/agentMessage/delta" | "item/plan/delta":
                yield from self._wake(parent)
                yield from self._speech.message(params, parent)
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                yield from self._wake(parent)
                yield from self._speech.thought(params, parent, summary="summary" in method)
            case "item/commandExecution/outputDelta":
                yield from self._items.output(item_id, text(params, "delta"))
            case "item/mcpToolCall/progress":
                yield from self._items.progress(item_id, text(params, "message"))
            case "item/started":
                yield from self._item_started(item, thread, parent, line)
            case "item/completed":
                yield from self._item_completed(item, thread, parent, line)
            case "turn/started" if parent is None:
                yield from self._thread.wake()
                yield from self._thread.runs(text(table(params, "turn"), "id"))
            case "turn/started":
                self._subagents.began(thread, text(table(params, "turn"), "id"))
            case "turn/completed" if parent is None:
                turn = table(params, "turn")
                running = self._items.running()
                yield from self._thread.completed(text(turn, "id"), self._ending(turn), running)
            case "turn/completed":
                yield from self._subagent_ended(thread, table(params, "turn"), parent)
            case "turn/plan/updated":
                yield PlanChanged(steps=steps(params), parent=parent)
            case "thread/tokenUsage/updated":
                yield from self._used(params, thread, parent)
            case "error":
                yield from self._reported_error(params, parent)
            case "serverRequest/resolved":
                yield from self._requests.resolved(params.get("requestId"))
            case "thread/settings/updated" if parent is None:
                yield from self._settings.told(table(params, "threadSettings"))
            case "thread/name/updated":
                if parent is None and (name := text(params, "threadName")):
                    yield SettingsChanged(title=name)
            case "mcpServer/startupStatus/updated":
                if notice := notices.server_status(params):
                    yield notice
            case "hook/completed" if text(table(params, "run"), "source") == "sessionFlags":
                pass  # our hook: reported as the end of the call
            case "hook/completed":
                if notice := notices.hook(params, parent):
                    yield notice
            case "account/rateLimits/updated":
                if limit := notices.limits(params, self._clock()):
                    self._retry_after = limit.after
                    yield limit.notice
            case _ if notice := notices.notice(method, params, parent):
                yield notice
            case _ if method not in notices.QUIET and not method.startswith(notices.QUIET_PREFIX):
                yield unrecognized(line, f"a notification {method!r}")

    def _wake(self, parent: str | None) -> Said:
        if parent is None:
            yield from self._thread.wake()

    def _item_started(self, item: Table, thread: str, parent: str | None, line: bytes) -> Said:
        kind = text(item, "type")
        if kind in notices.QUIET_ITEMS:
            return
        if kind == "subAgentActivity":  # also after the turn
            yield from self._subagents.active(item, parent)
            return
        yield from self._wake(parent)
        match kind:
            case "collabAgentToolCall" if text(item, "tool") == "spawnAgent":
                yield from self._subagents.spawning(item, parent)
            case _ if kind in KINDS:
                yield from self._items.started(item, thread, parent)
            case "agentMessage" | "plan" | "reasoning" | "contextCompaction" | "exitedReviewMode":
                pass  # reported by deltas, or on completion
            case _:
                yield unrecognized(line, f"an item of type {kind!r}")

    def _item_completed(self, item: Table, thread: str, parent: str | None, line: bytes) -> Said:
        match kind := text(item, "type"):
            case "agentMessage" | "plan" | "reasoning":
                yield from self._wake(parent)
                yield from self._speech.whole(item, parent)
                if parent is not None and kind == "agentMessage":
                    self._subagents.said(thread, text(item, "text"))
            case "collabAgentToolCall" if text(item, "tool") == "spawnAgent":
                yield from self._subagents.spawned(item, parent)
            case "subAgentActivity":
                pass  # its start and end come together
            case _ if kind in KINDS:
                yield from self._items.completed(item, thread, parent)
            case "contextCompaction":
                message = "compacted the conversation"
                yield Notice(level="info", kind="compaction", text=message, parent=parent)
            case "exitedReviewMode":
                yield Notice(level="info", kind="session", text=text(item, "review") or "reviewed")
            case _ if kind not in notices.QUIET_ITEMS:
                yield unrecognized(line, f"an item of type {kind!r}")

    def _subagent_ended(self, thread: str, turn: Table, parent: str | None) -> Said:
        if thread in self._items.running():
            yield WireReply(self._thread.clean(thread, pass_over))
        yield from self._items.drop(run_on=False, parent=parent)
        match text(turn, "status"):
            case "failed":
                why = failures.failure(table(turn, "error")).message
                yield Notice(level="error", kind="subagent", text=why, parent=parent)
                yield from self._subagents.ended(thread, "failed")
            case "interrupted":
                yield from self._subagents.ended(thread, "cancelled")
            case _:
                yield from self._subagents.ended(thread, "completed")

    def _used(self, params: Table, thread: str, parent: str | None) -> Said:
        """Reports usage; right after a resume Codex reports a turn of an earlier process."""
        turn, main = self._thread.turn, parent is None
        now = self._thread.working and (not main or text(params, "turnId") == turn)
        if used := self._meter.update(thread, table(params, "tokenUsage"), now=now, main=main):
            yield used

    def _reported_error(self, params: Table, parent: str | None) -> Said:
        error = table(params, "error")
        if params.get("willRetry") is True:
            yield from self._speech.broken(parent)
            yield notices.retry(error, parent)
        elif parent is None:
            self._error = error  # reported at the end of the turn
