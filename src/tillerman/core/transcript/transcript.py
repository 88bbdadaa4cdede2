"""Folds the log into a transcript, the view model that every interface renders.

Rules where the log is ambiguous:
- A message's chunks are one block until a tool call starts beside them; text after the call is
  a new block, so that blocks stay in the agent's order.
- A `ToolUpdated` or `ToolFinished` with content replaces the earlier content of the call.
- An unfinished call is cancelled when its turn fails or is cancelled (unless it runs in the
  background) or when the agent's process ends; open requests are withdrawn with the process.
- An end without its start never raises: a call is created for it, an answer is ignored.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    BackgroundChanged,
    BackgroundTask,
    Entry,
    FilesChanged,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    PlanChanged,
    PlanStep,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
    UserMessage,
)
from tillerman.core.transcript.blocks import (
    Block,
    CallState,
    Message,
    PlanBlock,
    RequestBlock,
    TextBlock,
    Thought,
    ToolCallBlock,
    Turn,
    calls_of,
)
from tillerman.core.transcript.usage_totals import added


class Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """Usage of all turns together; the context is that of the last report."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None  # None: no turn reported its cost
    context_used: int | None = None
    context_limit: int | None = None


@dataclass(slots=True)
class Transcript:
    session: str = ""
    agent: str | None = None
    version: str | None = None
    supervision: str | None = None
    native_id: str | None = None
    model: str | None = None
    mode: str | None = None
    approve: str | None = None  # the preset, if it was changed
    title: str | None = None
    commands: tuple[str, ...] = ()
    opening: list[Block] = field(default_factory=list)  # before the first turn
    turns: list[Turn] = field(default_factory=list)
    background: tuple[BackgroundTask, ...] = ()
    requests: dict[str, RequestBlock] = field(default_factory=dict)  # the open ones
    exited: AgentExited | None = None  # None while a process runs
    unrecognized: int = 0
    last_seq: int = 0

    @property
    def busy(self) -> bool:
        """A turn is running, or work of an earlier one continues in the background."""
        return bool(self.background) or any(turn.status == "running" for turn in self.turns[-1:])

    @property
    def totals(self) -> Totals:
        used = [turn.usage for turn in self.turns if turn.usage]
        costs = [usage.cost_usd for usage in used if usage.cost_usd is not None]
        context = next((usage for usage in reversed(used) if usage.context_used is not None), None)
        return Totals(
            input_tokens=sum(usage.input_tokens for usage in used),
            output_tokens=sum(usage.output_tokens for usage in used),
            cached_tokens=sum(usage.cached_tokens for usage in used),
            cost_usd=sum(costs) if costs else None,
            context_used=context.context_used if context else None,
            context_limit=context.context_limit if context else None,
        )

    def turn(self, number: int) -> Turn | None:
        return next((turn for turn in reversed(self.turns) if turn.number == number), None)


@dataclass(slots=True)
class _Scope:
    """A turn or a call that blocks are added to, and its messages that can still grow."""

    blocks: list[Block]
    growing: dict[tuple[type, str], Message | Thought] = field(default_factory=dict)
    spoken: dict[str, int] = field(default_factory=dict)  # message id -> number of its blocks
    plan: PlanBlock | None = None


class Fold:
    """Builds a transcript entry by entry; `transcript` is complete after each."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self._turns: dict[int, Turn] = {}
        self._scopes: dict[int | str, _Scope] = {0: _Scope(self.transcript.opening)}
        self._calls: dict[str, ToolCallBlock] = {}
        self._running: dict[str, ToolCallBlock] = {}

    def add(self, entry: Entry) -> None:
        self.transcript.session = entry.session
        self.transcript.last_seq = max(self.transcript.last_seq, entry.seq)
        event = entry.event
        match event:
            case MessageChunk():
                self._add_chunk(entry, Message, event.message_id, event.text)
            case ThoughtChunk():
                self._add_chunk(entry, Thought, event.message_id, event.text)
            case MessageWithdrawn():
                self._withdraw(self._scope(entry), event.message_id)
            case ToolStarted():
                self._start_call(entry, event)
            case ToolUpdated():
                call = self._call(entry, event.call_id)
                call.title = event.title or call.title
                call.content = event.content or call.content
            case ToolFinished():
                call = self._call(entry, event.call_id)
                call.content = event.content or call.content
                self._end_call(call, event.outcome, entry.at)
            case PlanChanged():
                self._plan(self._scope(entry), event.steps)
            case UserMessage():
                self._scope(entry).blocks.append(TextBlock(event.text, event.how))
            case Notice():
                self._scope(entry).blocks.append(event)
            case PermissionRequested() | QuestionAsked():
                request = self.transcript.requests[event.request_id] = RequestBlock(event)
                self._scope(entry).blocks.append(request)
            case RequestAnswered():
                answered = self.transcript.requests.pop(event.request_id, None)
                if answered:
                    answered.answer, answered.by = event.answer, event.by
                    answered.surface = event.surface
            case TurnStarted():
                self._start_turn(entry, event)
            case TurnEnded():
                self._end_turn(entry, event)
            case UsageReported():
                if event.parent is None:
                    turn = self._turn(entry)
                    turn.usage = added(turn.usage, event)
                else:
                    call = self._call(entry, event.parent)
                    call.usage = added(call.usage, event)
            case FilesChanged():
                turn = self._turn(entry)
                turn.files, turn.files_left_out = event.files, event.left_out
            case BackgroundChanged():
                self.transcript.background = event.tasks
            case AgentStarted() | AgentReady() | SettingsChanged():
                self._update_agent(entry, event)
            case AgentExited():
                self._exit(entry, event)
            case Unrecognized():
                self.transcript.unrecognized += 1
            case _:
                assert_never(event)

    # -- lookup of turns, calls and scopes --

    def _turn(self, entry: Entry) -> Turn:
        turn = self._turns.get(entry.turn)
        if turn is None:
            turn = self._turns[entry.turn] = Turn(entry.turn, agent=self.transcript.agent)
            insort(self.transcript.turns, turn, key=lambda turn: turn.number)
        return turn

    def _scope(self, entry: Entry) -> _Scope:
        parent = entry.event.parent
        key: int | str = entry.turn if parent is None else parent
        scope = self._scopes.get(key)
        if scope is None:
            if parent is None:
                scope = _Scope(self._turn(entry).blocks)
            else:
                scope = _Scope(self._call(entry, parent).blocks)
            self._scopes[key] = scope
        return scope

    def _top(self, entry: Entry) -> _Scope:
        scope = self._scopes.get(entry.turn)
        if scope is None:
            scope = self._scopes[entry.turn] = _Scope(self._turn(entry).blocks)
        return scope

    def _call(self, entry: Entry, call_id: str) -> ToolCallBlock:
        call = self._calls.get(call_id)
        if call is None:
            call = ToolCallBlock(call_id, title=call_id, turn=entry.turn)
            self._calls[call_id] = self._running[call_id] = call
            inside = entry.event.parent not in (None, call_id)
            scope = self._scope(entry) if inside else self._top(entry)
            scope.blocks.append(call)
        return call

    # -- messages and tool calls --

    def _add_chunk(
        self, entry: Entry, kind: type[Message] | type[Thought], message_id: str, text: str
    ) -> None:
        scope = self._scope(entry)
        block = scope.growing.get((kind, message_id))
        if block is None:
            block = scope.growing[(kind, message_id)] = kind(message_id, text)
            scope.blocks.append(block)
            scope.spoken[message_id] = scope.spoken.get(message_id, 0) + 1
        else:
            block.add(text)

    def _withdraw(self, scope: _Scope, message_id: str) -> None:
        scope.growing.pop((Message, message_id), None)
        scope.growing.pop((Thought, message_id), None)
        left = scope.spoken.pop(message_id, 0)
        place = len(scope.blocks)
        while left:  # from the end: withdrawn messages are mostly recent
            place -= 1
            block = scope.blocks[place]
            if isinstance(block, Message | Thought) and block.message_id == message_id:
                del scope.blocks[place]
                left -= 1

    def _plan(self, scope: _Scope, steps: tuple[PlanStep, ...]) -> None:
        if scope.plan is None:
            scope.plan = PlanBlock(steps)
            scope.blocks.append(scope.plan)
        else:
            scope.plan.steps = steps

    def _start_call(self, entry: Entry, event: ToolStarted) -> None:
        call = self._running.get(event.call_id)
        if call is None or call.turn != entry.turn:
            call = ToolCallBlock(event.call_id, turn=entry.turn, started=entry.at)
            scope = self._scope(entry)
            scope.blocks.append(call)
            scope.growing.clear()
            self._calls[event.call_id] = self._running[event.call_id] = call
            self._scopes.pop(event.call_id, None)
        call.tool, call.name, call.title = event.tool, event.name, event.title
        call.input, call.paths = event.input, event.paths

    def _end_call(self, call: ToolCallBlock, state: CallState, at: str) -> None:
        call.state, call.ended = state, at
        self._running.pop(call.call_id, None)

    # -- turns and agent state --

    def _start_turn(self, entry: Entry, event: TurnStarted) -> None:
        turn = self._turn(entry)
        turn.origin, turn.prompt, turn.attachments = event.origin, event.prompt, event.attachments
        turn.started = entry.at

    def _end_turn(self, entry: Entry, event: TurnEnded) -> None:
        turn = self._turn(entry)
        turn.status, turn.failure, turn.output = event.reason, event.failure, event.result
        turn.ended = entry.at
        if event.reason != "completed":
            behind = self._in_background()
            for call in list(self._running.values()):
                if call.turn == turn.number and call.call_id not in behind:
                    self._end_call(call, "cancelled", entry.at)

    def _in_background(self) -> set[str]:
        left = (self._calls.get(task.call_id or "") for task in self.transcript.background)
        return {call.call_id for call in calls_of(call for call in left if call)}

    def _update_agent(
        self, entry: Entry, event: AgentStarted | AgentReady | SettingsChanged
    ) -> None:
        transcript = self.transcript
        match event:
            case AgentStarted():
                transcript.agent, transcript.version = event.agent, event.version
                transcript.supervision, transcript.exited = event.supervision, None
                turn = self._turns.get(entry.turn)
                if turn and turn.status == "running":  # after a handoff the last turn has ended
                    turn.agent = event.agent
            case AgentReady():
                transcript.native_id = event.native_id
                transcript.version = event.version or transcript.version
                transcript.model = event.model or transcript.model
            case SettingsChanged():
                transcript.model = event.model or transcript.model
                transcript.mode = event.mode or transcript.mode
                transcript.approve = event.approve or transcript.approve
                transcript.title = event.title or transcript.title
                if event.commands is not None:
                    transcript.commands = event.commands

    def _exit(self, entry: Entry, event: AgentExited) -> None:
        transcript = self.transcript
        transcript.exited, transcript.background = event, ()
        for call in list(self._running.values()):
            self._end_call(call, "cancelled", entry.at)
        for request in transcript.requests.values():
            request.by = "withdrawn"
        transcript.requests.clear()


def fold(entries: Iterable[Entry]) -> Transcript:
    folding = Fold()
    for entry in entries:
        folding.add(entry)
    return folding.transcript
