"""One live session: reads its agent's events, writes its log, resolves its requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tillerman.core.agent import Agent, Conversation, DecodedLine, Host, Mode, Prompt, SessionSpec
from tillerman.core.errors import (
    AgentError,
    SessionBusy,
    TillermanError,
    Unsupported,
)
from tillerman.core.events import (
    AgentReady,
    AgentStarted,
    Answer,
    BackgroundChanged,
    Entry,
    Event,
    MessageChunk,
    Notice,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from tillerman.core.failure import Failure
from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.core.permission.command_actions import load_reader
from tillerman.core.session_options import Preset, WhenBusy, check_options, check_required
from tillerman.sessions.agent.connection import AgentConnection
from tillerman.sessions.agent.live_settings import LiveSettings
from tillerman.sessions.fallback.handover import Handover, as_failure
from tillerman.sessions.fallback.policy import FallbackPolicy, Replay, RetryAfter, SwitchAgent
from tillerman.sessions.fallback.retry_monitor import RetryWatch
from tillerman.sessions.fallback.turn_snapshot import TurnSnapshot
from tillerman.sessions.limits.enforcer import LimitEnforcer
from tillerman.sessions.limits.timers import Timers
from tillerman.sessions.limits.usage_meter import UsageMeter
from tillerman.sessions.log.appender import LogAppender
from tillerman.sessions.log.attachment_indexer import AttachmentIndexer
from tillerman.sessions.log.event_writer import EventWriter
from tillerman.sessions.log.sanitizer import ChunkBatch, EventSanitizer
from tillerman.sessions.log.turn_numbers import TurnNumbers
from tillerman.sessions.output_check import AnswerCheck, Repair
from tillerman.sessions.permissions.bypass_detector import WATCHES, BypassDetector
from tillerman.sessions.permissions.open_requests import OpenRequests
from tillerman.sessions.permissions.project_rules import ProjectRules
from tillerman.sessions.permissions.request_broker import RequestBroker
from tillerman.sessions.permissions.session_rules import SessionRules
from tillerman.sessions.run_settings import LaunchPlan, RunSettings
from tillerman.sessions.runner.background_tasks import BackgroundTasks
from tillerman.sessions.runner.prompt_check import PromptCheck
from tillerman.sessions.runner.until_check import UntilCheck
from tillerman.store.group_commit import Storage

if TYPE_CHECKING:
    from tillerman.config.model_table import Models
    from tillerman.sessions.enforcement.settings import SessionEnforcement

_ACTED_ON = frozenset(
    {
        TurnStarted, TurnEnded, PermissionRequested, QuestionAsked, RequestAnswered, UsageReported,
    }
)  # fmt: skip
_NOTED = frozenset({BackgroundChanged, SettingsChanged, AgentReady})

_VISIBLE: frozenset[type] = frozenset({MessageChunk, ToolStarted})  # output or action

STARTS = 0.03  # minimum seconds before an agent makes a request
CANCEL_GRACE = 5.0  # seconds for background tasks to end after the turn


class Runner:
    def __init__(
        self,
        order: LaunchPlan,
        *,
        host: Callable[[RunSettings], Host],
        journal: LogAppender,
        intake: EventSanitizer,
        history: Callable[[], Iterable[Entry]],
        native_id: str | None,
        last_turn: int,
        policy: Callable[[str], Policy],  # by preset
        context: DecisionContext,
        recall: Callable[[], SessionRules],
        remembered: ProjectRules,
        shelf: AttachmentIndexer,
        relay: FallbackPolicy,
        opened: Callable[[Agent, SessionSpec], None],
        rules_changed: Callable[[Sequence[Rule]], None] = lambda _: None,
        enforcement: SessionEnforcement | None = None,
    ) -> None:
        limits = order.terms.limits
        self._policy = policy
        self._enforcement = enforcement
        self._relay = relay
        self._retries = RetryWatch(relay, self._stop_turn)
        self._aside = BackgroundTasks(self._went_wrong)
        self._gate = BypassDetector(self._bypassed)
        self._line = AgentConnection(
            order,
            native_id,
            host,
            heard=self._heard,
            lost=self._gone,
            opened=partial(self._opened, opened),
        )
        self._models = cache(partial(_models, order.terms))
        self._meter = UsageMeter(limits, self._models)
        self._watched = _VISIBLE | self._meter.watches | WATCHES
        self._turns = TurnNumbers(last_turn)
        self._log = EventWriter(journal, intake, shelf, self._turns, history)
        self._bearing = LiveSettings(context, self._line, self._log, self._models)
        self._outlook = TurnSnapshot(order.spec.cwd)
        self._heirs = Handover(
            self._line, relay, self._outlook, self._meter, self._log, order.terms.notices
        )
        self._background = False
        self._queue: deque[Prompt] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._clocks = Timers()
        self._guard = LimitEnforcer(
            limits,
            self._meter,
            self._clocks,
            agent=lambda: self.agent,
            stop=self._stop,
            warn=self._warn,
        )
        self._liaison = RequestBroker(
            partial(
                OpenRequests,
                policy(order.terms.approve),
                self._clocks,
                limits.request,
                recall=recall,
                remembered=remembered,
                agent=lambda: self._line.agent.info,
                rules_changed=rules_changed,
            ),
            self._gate,
            self._line,
            self._log,
            self._bearing,
            later=self._aside.do,
            settled=self._await_words,
        )
        self._requests = self._liaison.requests
        self._begin_lock = asyncio.Lock()
        self._asked: Prompt | None = None  # the prompt of the open turn
        self._visible = False  # the agent produced output or actions in it
        self._begun = False  # or an earlier agent of the turn did
        self._going_on: asyncio.Task[None] | None = None  # continues after the agent stopped
        self._vetting = PromptCheck(order.terms.vet, order.spec.cwd, lambda: self._line.host)
        wanted = order.terms.answer
        self._answer = AnswerCheck(wanted, self._log.last_said) if wanted else None
        self._check = UntilCheck(order.terms.until, order.spec.cwd, lambda: self._line.host)
        journal.on_failure = self._stop_agent

    @property
    def agent(self) -> str:
        return self._line.agent.info.name

    @property
    def request_limit(self) -> float | None:
        return self._requests.limit

    @property
    def open_requests(self) -> Collection[str]:
        return self._requests.ids

    @property
    def liaison(self) -> RequestBroker:
        """The request broker, for tool calls beside the agent."""
        return self._liaison

    def remembered_rules(self) -> tuple[Rule, ...]:
        return self._requests.remembered_rules()

    # -- calls of surfaces -----------------------------------------------------------------------

    async def prompt(
        self,
        prompt: Prompt,
        when_busy: WhenBusy = "queue",
    ) -> None:
        check_required(when_busy=when_busy)
        if not self._line.agent.info.prompted:
            raise Unsupported(
                self._line.agent.info.title,
                "prompts: this session belongs to an external MCP client",
                hint="`tillerman run` starts a session with an agent",
            )
        await self._vetting.read(prompt)
        self._check.renew()
        if not self._turns and not self._begin_lock.locked():
            await self._begin(prompt, when_busy)
        elif when_busy == "refuse":
            raise _busy()
        elif when_busy == "steer" and not self._going_on and await self._steer(prompt):
            self._log.say(UserMessage(text=prompt.text, how="steer"))
        elif self._turns:
            self._queue.append(prompt)
            self._idle.clear()
            self._log.say(UserMessage(text=prompt.text, how="queued"))
        else:
            await self._begin(prompt, when_busy)

    async def _steer(self, prompt: Prompt) -> bool:
        """Steers the turn; False if it ended at the same time."""
        conversation = await self._line.open()
        try:
            await conversation.steer(prompt)
        except SessionBusy:
            return False
        return True

    def answer(self, request_id: str, answer: Answer, *, surface: str) -> None:
        self._requests.settle(request_id, answer, "person", surface)

    def forget_rule(self, told: str) -> None:
        self._requests.forget_rule(told)
        self._log.say(SettingsChanged(forgotten=told))

    async def cancel(self) -> None:
        """Cancels the turn and background tasks; closes the agent if it does not stop."""
        self._queue.clear()
        self._retries.clear()
        if not self._going_on:
            self._heirs.give_up()
        async with self._begin_lock:  # also cancels a turn that is just starting
            conversation = self._line.conversation
        if self._going_on:
            self._going_on.cancel()
            self._going_on = None
            await self._end_turn(TurnEnded(reason="cancelled"))
        if self._check.stop():
            self._settle_idle()
        if conversation is None:
            return
        await conversation.cancel()
        try:
            await asyncio.wait_for(self._idle.wait(), CANCEL_GRACE)
        except TimeoutError:
            if self._background and not self._turns:
                await conversation.close()

    async def configure(
        self,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        approve: Preset | None = None,
    ) -> None:
        check_options({"model": model, "mode": mode, "approve": approve})
        if approve:
            self._bearing.approve(approve)
            self._requests.judge_by(self._policy(approve), self._bearing.context)
        if model or mode:
            await self._bearing.configure(model=model, mode=mode)

    async def idle(self) -> None:
        """Waits until no turn is open or queued, and no background task runs."""
        await self._idle.wait()
        await self._log.journal.durable()

    def rested(self) -> bool:
        """Whether the session is idle, and all entries are durable."""
        return self._idle.is_set() and self._log.journal.settled

    def storage_changed(self, storage: Storage) -> None:
        self._log.storage_changed(storage)

    async def close(self) -> None:
        if self._going_on:
            self._going_on.cancel()
        self._check.stop()
        await self._line.close()
        self._aside.cancel()
        await self._log.journal.durable()

    # -- turns -----------------------------------------------------------------------------------

    async def _begin(
        self, prompt: Prompt, when_busy: WhenBusy = "queue", *, queued: bool = False
    ) -> None:
        self._idle.clear()
        self._check.stop()
        async with self._begin_lock:
            try:
                conversation = await self._heirs.meet()
                told, account = prompt, None
                if self._turns.last:
                    told, account = await self._heirs.reminded(prompt)
                self._bearing.prompted(prompt, account.text if account else "")
                sending = self._sending(conversation, self._with_schema(told))
                if sending is None and when_busy == "refuse":
                    raise _busy()
            except Exception:
                self._settle_idle()
                raise
            if sending is None:
                self._queue.appendleft(prompt)
                if not queued:
                    self._log.say(UserMessage(text=prompt.text, how="queued"))
                return
            self._asked = prompt
            self._meter.begin()
            self._start_turn(
                TurnStarted(
                    origin="prompt",
                    prompt=prompt.text,
                    attachments=self._log.keep(prompt.files),
                )
            )
            if account:
                self._log.say(account)
            await self._send(conversation, sending)

    async def _send(self, conversation: Conversation, sending: Coroutine[Any, Any, None]) -> None:
        """Sends the prompt of the open turn; errors end the turn."""
        if conversation is not self._line.conversation:
            sending.close()
            failure = Failure(
                kind="agent_crashed",
                message="the agent exited before it received the prompt",
                hint="its last output is in the agent_exited event",
            )
            await self._stopped(TurnEnded(reason="failed", failure=failure))
            return
        try:
            await sending
        except AgentError as error:
            await self._stopped(TurnEnded(reason="failed", failure=as_failure(error)))
        else:
            self._line.blank = False

    def _with_schema(self, prompt: Prompt, way: object = None) -> Prompt:
        """Adds the schema to the prompt, for an agent without schema support."""
        if self._answer is None or isinstance(way, Repair):
            return prompt
        return self._answer.request(prompt, self._line.agent.info)

    def _sending(
        self, conversation: Conversation, prompt: Prompt
    ) -> Coroutine[Any, Any, None] | None:
        """Returns the prompt call; None if the agent has just started a turn of its own.

        That turn comes first. The conversation knows of it before its event arrives, and refuses
        immediately.
        """
        if self._turns:
            return None
        try:
            return conversation.prompt(prompt)
        except SessionBusy:
            return None

    def _start_turn(self, event: TurnStarted, raw: bytes | None = None) -> None:
        self._log.begin_turn()
        self._idle.clear()
        self._relay.begin()
        self._retries.begin_turn()
        if self._answer:
            self._answer.begin_turn()
        self._visible = self._begun = False
        self._log.say(event, raw)
        self._log.say_all(self._heirs.news())
        self._guard.begin_turn()
        if self._line.native_id:  # else the agent has not reported its model yet
            self._guard.check_price(self._line.agent.info, self._line.model)
        self._await_words()

    async def _stopped(self, event: TurnEnded, raw: bytes | None = None) -> None:
        """Handles the end of the agent's turn: continues by a fallback, or ends the turn."""
        event = self._retries.ending(event, visible=self._visible)
        way: RetryAfter | SwitchAgent | Repair | Replay | None = None
        if self._answer and event.reason == "completed" and self._turns and self._asked:
            event, way = await self._answer.check(event)
        failure = None if self._guard.verdict else event.failure
        if failure and self._turns and self._asked and event.reason == "failed":
            if way is None and failure.kind == "history_lost" and self._line.native_id:
                self._line.blank = True  # the next prompt then includes a summary of the history
                way = None if self._visible else Replay()
            if way is None:
                way = self._relay.way_on(failure, visible=self._visible)
            if way is not None:
                self._guard.pause()
                self._log.let_go()
                self._going_on = asyncio.create_task(self._go_on(way, event, raw))
                return
        await self._end_turn(event, raw)

    async def _go_on(
        self, way: RetryAfter | SwitchAgent | Repair | Replay, end: TurnEnded, raw: bytes | None
    ) -> None:
        try:
            assert end.failure and self._asked
            why, first = end.failure.message, self._turns.last == 1
            prompt = await self._heirs.next_prompt(
                way, why, raw, asked=self._asked, begun=lambda: self._begun, first=first
            )
            if prompt is None:
                self._going_on = None
                await self._end_turn(end, raw)
                return
            conversation = await self._heirs.meet()
            self._log.say_all(self._heirs.news())
            self._bearing.prompted(self._asked, prompt.text if isinstance(way, SwitchAgent) else "")
            sending = conversation.prompt(self._with_schema(prompt, way))
        except Exception as error:  # the turn must end, whatever the error
            self._going_on = None
            self._log.say(Notice(level="error", kind="fallback", text=_told(error)))
            await self._end_turn(end, raw)
            return
        self._going_on = None
        self._visible = False
        self._retries.begin_turn()
        self._guard.begin_work()
        self._await_words()
        await self._send(conversation, sending)

    async def _end_turn(self, event: TurnEnded, raw: bytes | None = None) -> None:
        if not self._turns:
            return
        self._log.let_go()
        if not self._background:
            self._requests.withdraw_all()
            self._gate.turn_ended()
        if self._enforcement:
            await self._enforcement.protection.settle()
        for change in await self._outlook.changes():
            self._log.say(change)
        if verdict := self._guard.verdict:
            self._queue.clear()
            if event.reason == "completed" and verdict.kind != "gate_bypassed":
                self._warn(f"{verdict.message}: the turn had already ended")
            else:
                event = TurnEnded(reason="failed", failure=verdict)
        self._log.say(event, raw)
        self._requests.turn_ended(event)
        self._guard.end_turn()
        self._asked = None
        self._log.end_turn()
        self._next(event)

    def _next(self, end: TurnEnded) -> None:
        """After a turn: starts the next queued prompt or the until-check, or becomes idle."""
        if self._queue:
            self._aside.do(self._begin(self._queue.popleft(), queued=True))
        elif self._check.wanted and end.reason == "completed" and not self._background:
            self._check.begin(self._checked, self._aside.do)
        else:
            self._settle_idle()

    async def _checked(self, notice: Notice, prompt: str | None) -> None:
        self._log.say(notice)
        if prompt is not None and not self._turns and not self._queue:
            await self._begin(Prompt(prompt))
        else:
            self._settle_idle()

    def _settle_idle(self) -> None:
        if not self._turns and not self._queue and not self._background and not self._check:
            self._guard.rest()
            self._idle.set()
            self._log.journal.wake_readers()

    # -- agent -----------------------------------------------------------------------------------

    def warm(self) -> None:
        self._line.warm()

    async def _heard(self, batch: Sequence[DecodedLine]) -> None:
        taken = self._log.take_at_once(batch)
        if isinstance(taken, ChunkBatch):
            self._hear_words(taken)
        else:
            for raw, events in taken:
                for event in events:
                    if type(event) in _ACTED_ON:
                        await self._act(event, raw)
                    else:
                        self._hear(event, raw)
                del raw, events
        self._guard.pause()  # while the store is behind, the delay is not the agent's
        await self._log.journal.room()
        self._await_words()

    def _opened(
        self, tell: Callable[[Agent, SessionSpec], None], agent: Agent, spec: SessionSpec
    ) -> None:
        if conversation := self._line.conversation:
            self._gate.opened(agent.info.title, conversation.asks)
        asyncio.get_running_loop().call_later(STARTS, load_reader)
        tell(agent, spec)

    def _bypassed(self, why: Failure) -> None:
        """Fails the turn and closes the agent, whose further output cannot be trusted."""
        self._guard.condemn(why)
        if not self._turns:
            self._log.say(Notice(level="error", kind="session", text=why.message))
        self._stop_agent()

    def _stop_turn(self) -> None:
        if self._line.conversation:
            self._aside.do(self._line.conversation.cancel())

    def _stop_agent(self) -> None:
        if self._line.conversation:
            self._aside.do(self._line.conversation.close())

    async def _gone(self, end: TurnEnded) -> None:
        """Cleans up after the conversation has ended: turn, background tasks, open requests."""
        if not self._going_on:
            await self._stopped(end)
        if self._background:
            self._background = False
            self._log.say(BackgroundChanged(tasks=()))
        self._requests.withdraw_all()
        self._log.let_go()
        self._settle_idle()

    def _hear(self, event: Event, raw: bytes | None) -> None:
        kind = type(event)
        if isinstance(event, SettingsChanged):
            event = replace(event, approve=None)  # an agent cannot change the preset
            event = self._bearing.without_foreign_title(event)
            if self._bearing.knows(event):
                return
        if kind in _NOTED:
            self._note(event)
        if isinstance(event, AgentStarted) and self._enforcement:
            event = replace(event, enforcement=self._enforcement.states())
        self._log.write(event, raw)
        if kind in self._watched:
            self._watch(event)
        if isinstance(event, Notice) and event.failure and self._turns and not self._going_on:
            self._retries.observe(event, visible=self._visible)

    def _hear_words(self, words: ChunkBatch) -> None:
        """Like `_hear` for each chunk."""
        if type(words.whole) in self._guard.watches:  # a single chunk may exceed a limit
            for heard in words.heard:
                self._hear(heard.events[0], heard.raw)
            return
        self._log.write_words(words)
        if type(words.whole) in self._watched:
            self._watch(words.whole)

    async def _act(self, event: Event, raw: bytes | None) -> None:
        match event:
            case TurnStarted() if self._turns:
                text = "the agent reported the start of a turn during a turn"
                self._log.write(Notice(level="warning", kind="stray", text=text), raw)
            case TurnStarted():
                self._start_turn(event, raw)  # first: from here on no prompt starts another turn
                await self._outlook.look()
            case TurnEnded() if self._going_on:  # it has stopped already, and is being replaced
                if raw:
                    text = "the agent reported the end of its turn twice"
                    self._log.write(Notice(level="warning", kind="stray", text=text), raw)
            case TurnEnded():
                await self._stopped(event, raw)
            case UsageReported():
                usage = self._meter.priced(event, self._line.model)
                self._log.write(usage, raw)
                self._guard.use(usage, self._line.model)
            case PermissionRequested() | QuestionAsked():
                self._liaison.ask(event, raw)
            case RequestAnswered():
                self._liaison.settle(event, raw)

    def _note(self, event: Event) -> None:
        """Updates state that later steps depend on; other events are only written."""
        match event:
            case BackgroundChanged(tasks=tasks):
                self._background = bool(tasks)
                self._settle_idle() if not tasks else self._idle.clear()
            case SettingsChanged():
                self._bearing.changed(event)
            case AgentReady():
                self._bearing.ready(event)
                if self._turns:
                    self._guard.check_price(self._line.agent.info, self._line.model)

    # -- limits ----------------------------------------------------------------------------------

    def _await_words(self) -> None:
        """Starts the idle timer, unless a user or another agent is being waited for."""
        self._guard.pause()
        if (self._turns or self._background) and not self._requests and not self._going_on:
            self._guard.await_words()

    def _watch(self, event: Event) -> None:
        if type(event) in _VISIBLE:
            self._visible = self._begun = True
        if type(event) in WATCHES:
            self._gate.hear(event)
            self._liaison.hear(event)
        if type(event) in self._guard.watches:
            self._guard.count(event)

    def _warn(self, text: str) -> None:
        self._log.say(Notice(level="warning", kind="limit", text=text))

    def _stop(self, why: Failure) -> None:
        """Stops the agent after a limit was exceeded."""
        if not self._turns:
            text = f"background work was stopped: {why.message}"
            self._log.say(Notice(level="error", kind="limit", text=text))
        self._aside.do(self.cancel())

    # -- helpers --------------------------------------------------------------------------------

    def _went_wrong(self, error: TillermanError) -> None:
        self._log.say(Notice(level="error", kind="session", text=error.message))
        self._settle_idle()


def _models(terms: RunSettings) -> Models:
    from tillerman.config.model_table import load_models  # lazy: few report tokens without cost

    return load_models(terms.models)


def _told(error: Exception) -> str:
    return (
        error.message if isinstance(error, TillermanError) else f"{type(error).__name__}: {error}"
    )


def _busy() -> SessionBusy:
    return SessionBusy(
        "the agent is still working on a turn in this session",
        hint="wait, cancel the turn, or queue the prompt",
    )
