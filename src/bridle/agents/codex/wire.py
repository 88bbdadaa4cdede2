"""Codex's app-server: JSON-RPC over lines, translated to events and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Literal

import bridle
from bridle.agents.codex import failures, notices
from bridle.agents.codex.items import KINDS, Items
from bridle.agents.codex.launch import launch, opening, user_input
from bridle.agents.codex.plan import steps
from bridle.agents.codex.requests import REFUSED, Requests
from bridle.agents.codex.settings import Settings
from bridle.agents.codex.speech import Speech
from bridle.agents.codex.subagents import Subagents
from bridle.agents.codex.usage import Meter
from bridle.agents.fields import Table, parse, storable, table, text
from bridle.agents.hearing import unrecognized
from bridle.agents.jsonrpc import Answered, Asked, Nonsense, Peer, RpcError, Told
from bridle.core.agent import Keep, Launch, Mode, Prompt, Reply, SessionSpec
from bridle.core.events import (
    AgentReady,
    Answer,
    Event,
    Notice,
    PlanChanged,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from bridle.core.failure import Failure

Said = Iterator[Event | Reply | Keep]

_DELTAS = {
    "item/reasoning/summaryTextDelta": True,
    "item/reasoning/textDelta": False,
}


class CodexWire:
    """One conversation: one thread, and those of its subagents.

    The thread is asked for together with the greeting. What is prompted before it is open waits
    for it; words within a turn wait until that turn has an id.
    """

    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, spec: SessionSpec, clock: Callable[[], float] = time.time) -> None:
        self._spec = spec
        self._clock = clock
        self._peer = Peer(version=False)
        self._settings = Settings(spec)
        self._thread = ""
        self._opening = False
        self._greeted = False
        self._turn_open = False
        self._turn = ""  # its id, once told
        self._waiting: list[list[Table]] = []  # input that cannot go out yet
        self._cancelled = False
        self._error: Table = {}
        self._speech = Speech()
        self._items = Items(str(spec.cwd))
        self._subagents = Subagents()
        self._requests = Requests(str(spec.cwd), self._peer, self._items)
        self._meter = Meter()
        self._retry_after: float | None = None

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return launch(spec)

    def greet(self) -> Iterable[dict[str, Any]]:
        client = {"name": "bridle", "title": "Bridle", "version": bridle.__version__}
        hello = {"clientInfo": client, "capabilities": {"experimentalApi": True}}
        return [
            self._peer.request("initialize", hello, self._met),
            self._peer.notify("initialized"),
            self._open(),
        ]

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        input = user_input(prompt)
        if self._turn_open and self._turn:
            return [self._steer(input)]
        first = not self._turn_open
        self._turn_open = True
        if first and self._thread:
            return [self._start(input)]
        self._waiting.append(input)
        if self._thread or self._opening:
            return []
        return [self._open()] if self._greeted else self.greet()

    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]:
        messages, thread, turn = self._requests.answer(request_id, answer)
        if thread and turn:
            note = user_input(Prompt(f"Denied: {answer.note}"))
            params = {"threadId": thread, "expectedTurnId": turn, "input": note}
            messages.append(self._peer.request("turn/steer", params, _pass_over))
        return messages

    def cancel(self) -> Iterable[dict[str, Any]]:
        self._cancelled = self._turn_open
        running = dict(self._subagents.running)
        if self._turn_open and self._turn:
            running = {self._thread: self._turn, **running}
        return [
            self._peer.request("turn/interrupt", {"threadId": id, "turnId": turn}, _pass_over)
            for id, turn in running.items()
        ]

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]:
        self._settings.configure(model, mode)
        if not self._thread:
            return []  # each turn tells them too
        params = {"threadId": self._thread, **self._settings.params(True)}
        return [self._peer.request("thread/settings/update", params, self._configured)]

    # -- the thread and its turns ------------------------------------------------------------

    def _open(self) -> Table:
        self._opening = True
        method, params = opening(self._spec)
        return self._peer.request(method, params, self._opened)

    def _met(self, result: Any, error: RpcError | None) -> Said:
        self._greeted = error is None
        yield from ()

    def _opened(self, result: Any, error: RpcError | None) -> Said:
        self._opening = False
        answer = result if isinstance(result, dict) else {}
        thread = text(table(answer, "thread"), "id")
        if not thread:
            message = error.message if error else "it named no thread"
            yield from self._refused("opening the conversation", message)
            return
        self._thread = thread
        self._settings.opened(answer)
        yield AgentReady(
            native_id=thread,
            model=self._settings.model or None,
            version=text(table(answer, "thread"), "cliVersion") or None,
        )
        if self._cancelled:
            yield from self._end(TurnEnded(reason="cancelled"))
        elif self._waiting:
            yield Reply(self._start(self._waiting.pop(0)))

    def _start(self, input: list[Table]) -> Table:
        params = {"threadId": self._thread, "input": input, **self._settings.turn()}
        return self._peer.request("turn/start", params, self._started)

    def _started(self, result: Any, error: RpcError | None) -> Said:
        if error:
            yield from self._refused("the turn", error.message)
        elif isinstance(result, dict):
            yield from self._runs(text(table(result, "turn"), "id"))

    def _runs(self, turn: str) -> Said:
        """The turn has an id: what waited for it goes out."""
        if self._turn or not turn or not self._turn_open:
            return
        self._turn = turn
        for input in self._waiting:
            yield Reply(self._steer(input))
        self._waiting.clear()
        if self._cancelled:
            for message in self.cancel():
                yield Reply(message)

    def _steer(self, input: list[Table]) -> Table:
        params = {"threadId": self._thread, "expectedTurnId": self._turn, "input": input}

        def then(result: Any, error: RpcError | None) -> Said:
            if error and not self._turn_open:  # it came too late, and is a prompt after all
                yield from self._wake()
                yield Reply(self._start(input))
            elif error:
                said = f"words within the turn were refused: {error.message}"
                yield Notice(level="warning", kind="session", text=said)

        return self._peer.request("turn/steer", params, then)

    def _refused(self, what: str, message: str) -> Said:
        if self._turn_open:
            failure = failures.refusal(what, message)
            yield from self._end(TurnEnded(reason="failed", failure=failure))
        else:
            text_ = failures.refusal(what, message).message
            yield Notice(level="error", kind="session", text=text_)

    def _configured(self, result: Any, error: RpcError | None) -> Said:
        if error:
            yield Notice(level="error", kind="settings", text=error.message)

    def _wake(self) -> Said:
        """The agent works: a turn is open, or opens by itself."""
        if not self._turn_open:
            self._turn_open = True
            yield TurnStarted(origin="agent")

    def _completed(self, turn: Table) -> Said:
        turn_id = text(turn, "id")
        if not self._turn_open or (self._turn and turn_id and turn_id != self._turn):
            return
        end = self._ending(turn)
        threads = self._items.running() if end.reason == "cancelled" else set()
        if not threads:
            yield from self._end(end)
            return

        # An interrupt leaves running commands alone; the turn is not over while they work.
        def then(result: Any, error: RpcError | None) -> Said:
            left.pop()
            if not left and self._turn_open:
                yield from self._end(end)

        left = list(threads)
        for thread in threads:
            params = {"threadId": thread}
            yield Reply(self._peer.request("thread/backgroundTerminals/clean", params, then))

    def _ending(self, turn: Table) -> TurnEnded:
        match text(turn, "status"):
            case "interrupted":
                return TurnEnded(reason="cancelled")
            case "failed":
                return TurnEnded(reason="failed", failure=self._failure(turn))
        result = None
        if self._spec.output_schema is not None:
            said = parse(self._speech.last.encode())
            result = storable(said) if isinstance(said, dict) else None
        return TurnEnded(reason="completed", result=result)

    def _failure(self, turn: Table) -> Failure:
        failure = failures.failure(table(turn, "error") or self._error)
        if failure.kind != "rate_limited" or self._retry_after is None:
            return failure
        from msgspec.structs import replace

        return replace(failure, retry_after=self._retry_after)

    def _end(self, end: TurnEnded) -> Said:
        run_on = end.reason == "completed"
        yield from self._items.drop(run_on=run_on)
        yield from self._subagents.leave(run_on=run_on)
        yield from self._requests.drop()
        self._turn_open = self._cancelled = False
        self._turn = ""
        self._waiting.clear()
        self._error = {}
        self._retry_after = None
        self._speech.rest()
        yield self._meter.report()
        yield end

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | Reply | Keep]:
        match self._peer.hear(line):
            case Told(method, params):
                return self._told(method, params, line)
            case Asked() as asked:
                return self._asked(asked, line)
            case Answered() as answered:
                return answered.pass_on()
            case Nonsense(why):
                return [unrecognized(line, why)]

    def _parent(self, params: Table) -> str | None:
        thread = text(params, "threadId")
        if not thread or not self._thread or thread == self._thread:
            return None
        return self._subagents.parent_of(thread)

    def _asked(self, asked: Asked, line: bytes) -> Said:
        known = self._requests.hear(asked, self._parent(asked.params))
        if known is not None:
            yield from known
            return
        yield Reply(self._peer.unknown(asked))
        if asked.method not in REFUSED:
            yield unrecognized(line, f"a request {asked.method!r} was refused")

    def _told(self, method: str, params: Table, line: bytes) -> Said:
        parent = self._parent(params)
        thread = text(params, "threadId")
        item, item_id = table(params, "item"), text(params, "itemId")
        match method:
            case "item/agentMessage/delta" | "item/plan/delta":
                yield from self._wake_for(parent)
                yield from self._speech.message(params, parent)
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                yield from self._wake_for(parent)
                yield from self._speech.thought(params, parent, summary=_DELTAS[method])
            case "item/commandExecution/outputDelta":
                yield from self._items.output(item_id, text(params, "delta"))
            case "item/mcpToolCall/progress":
                yield from self._items.progress(item_id, text(params, "message"))
            case "item/started":
                yield from self._item_started(item, thread, parent, line)
            case "item/completed":
                yield from self._item_completed(item, thread, parent, line)
            case "turn/started" if parent is None:
                yield from self._wake()
                yield from self._runs(text(table(params, "turn"), "id"))
            case "turn/started":
                self._subagents.began(thread, text(table(params, "turn"), "id"))
            case "turn/completed" if parent is None:
                yield from self._completed(table(params, "turn"))
            case "turn/completed":
                yield from self._subagent_ended(thread, table(params, "turn"), parent)
            case "turn/plan/updated":
                yield PlanChanged(steps=steps(params), parent=parent)
            case "thread/tokenUsage/updated":
                now = parent is not None or not self._turn or text(params, "turnId") == self._turn
                now = now and self._turn_open and bool(self._thread)
                usage = table(params, "tokenUsage")
                self._meter.update(thread, usage, now=now, main=parent is None)
            case "error":
                yield from self._told_error(params, parent)
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

    def _wake_for(self, parent: str | None) -> Said:
        if parent is None:
            yield from self._wake()

    def _item_started(self, item: Table, thread: str, parent: str | None, line: bytes) -> Said:
        kind = text(item, "type")
        if kind in notices.QUIET_ITEMS:
            return
        yield from self._wake_for(parent)
        match kind:
            case "collabAgentToolCall" if text(item, "tool") == "spawnAgent":
                yield from self._subagents.spawning(item, parent)
            case "subAgentActivity":
                yield from self._subagents.active(item, parent)
            case _ if kind in KINDS:
                yield from self._items.started(item, thread, parent)
            case "agentMessage" | "plan" | "reasoning" | "contextCompaction" | "exitedReviewMode":
                pass  # told as it goes on, or when it is over
            case _:
                yield unrecognized(line, f"an item of type {kind!r}")

    def _item_completed(self, item: Table, thread: str, parent: str | None, line: bytes) -> Said:
        match kind := text(item, "type"):
            case "agentMessage" | "plan" | "reasoning":
                yield from self._wake_for(parent)
                yield from self._speech.whole(item, parent)
                if parent is not None and kind == "agentMessage":
                    self._subagents.said(thread, text(item, "text"))
            case "collabAgentToolCall" if text(item, "tool") == "spawnAgent":
                yield from self._subagents.spawned(item, parent)
            case "subAgentActivity":
                pass  # begun and ended at once
            case _ if kind in KINDS:
                yield from self._items.completed(item, thread, parent)
            case "contextCompaction":
                said = "compacted the conversation"
                yield Notice(level="info", kind="compaction", text=said, parent=parent)
            case "exitedReviewMode":
                yield Notice(level="info", kind="session", text=text(item, "review") or "reviewed")
            case _ if kind not in notices.QUIET_ITEMS:
                yield unrecognized(line, f"an item of type {kind!r}")

    def _subagent_ended(self, thread: str, turn: Table, parent: str | None) -> Said:
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

    def _told_error(self, params: Table, parent: str | None) -> Said:
        error = table(params, "error")
        if params.get("willRetry") is True:
            yield from self._speech.broken()
            yield notices.retry(error, parent)
        elif parent is None:
            self._error = error  # the end of the turn tells it


def _pass_over(result: Any, error: RpcError | None) -> Said:
    """Of an interrupt, and of a note: the turn they were for may be over."""
    yield from ()
