"""One live session: hands what its agent and its user do to the parts that it concerns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tillerman.agents.stdio.capability_check import watched_classes
from tillerman.core.agent import Agent, DecodedLine, Host, Mode, Prompt, SessionSpec
from tillerman.core.errors import TillermanError, Unsupported
from tillerman.core.events import (
    AgentReady,
    AgentStarted,
    Answer,
    BackgroundChanged,
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
)
from tillerman.core.failure import Failure
from tillerman.core.permission import Rule
from tillerman.core.permission.command_actions import load_reader
from tillerman.core.program.callbacks import ToolCall
from tillerman.core.session_options import Preset, WhenBusy, check_options, check_required
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.log.sanitizer import ChunkBatch
from tillerman.sessions.permissions.bypass_detector import WATCHES
from tillerman.sessions.permissions.open_requests import REQUEST_TIMER
from tillerman.sessions.permissions.request_broker import RequestBroker
from tillerman.sessions.run_settings import LaunchPlan, RunSettings
from tillerman.sessions.runner.collaborators import LogParts, PermissionParts, build
from tillerman.sessions.runner.turn_lifecycle import TurnLifecycle
from tillerman.sessions.runner.turn_state import TurnAction, TurnInput, TurnState
from tillerman.store.group_commit import Storage

if TYPE_CHECKING:
    from tillerman.sessions.enforcement.settings import SessionEnforcement

_ACTED_ON = frozenset(
    {
        TurnStarted, TurnEnded, PermissionRequested, QuestionAsked, RequestAnswered, UsageReported,
    }
)  # fmt: skip
_NOTED = frozenset({BackgroundChanged, SettingsChanged, AgentReady})

_VISIBLE: frozenset[type] = frozenset({MessageChunk, ToolStarted})  # output or action

STARTS = 0.03  # minimum seconds before an agent makes a request


class Runner:
    def __init__(
        self,
        plan: LaunchPlan,
        *,
        host: Callable[[RunSettings], Host],
        native_id: str | None,
        log: LogParts,
        permissions: PermissionParts,
        fallback: FallbackPolicy,
        opened: Callable[[Agent, SessionSpec], None],
        enforcement: SessionEnforcement | None = None,
    ) -> None:
        self._parts = parts = build(
            plan,
            self,
            host=host,
            native_id=native_id,
            log=log,
            permissions=permissions,
            fallback=fallback,
            enforcement=enforcement,
        )
        self._report_opened = opened
        self._turn = TurnLifecycle(parts)
        self._machine = self._turn.machine
        self._connection = parts.connection
        self._settings = parts.settings
        self._sanitizer = parts.sanitizer
        self._log = parts.log
        self._limits = parts.limits
        self._bypass = parts.bypass
        self._broker = parts.broker
        self._requests = parts.requests
        self._enforcement = enforcement
        self._callbacks = parts.callbacks
        self._follows_calls = parts.callbacks.follows_calls
        self._watched = _VISIBLE | parts.meter.watches | WATCHES

    @property
    def agent(self) -> str:
        return self._connection.agent.info.name

    @property
    def request_limit(self) -> float | None:
        return self._requests.limit

    @property
    def open_requests(self) -> Collection[str]:
        return self._requests.ids

    @property
    def broker(self) -> RequestBroker:
        """The request broker, for tool calls beside the agent."""
        return self._broker

    def remembered_rules(self) -> tuple[Rule, ...]:
        return self._requests.remembered_rules()

    # -- calls of surfaces -----------------------------------------------------------------------

    async def prompt(self, prompt: Prompt, when_busy: WhenBusy = "queue") -> None:
        check_required(when_busy=when_busy)
        await self.send(await self.check(prompt), when_busy)

    async def check(self, prompt: Prompt) -> Prompt:
        """The prompt to send, as the checks of the user and the program leave it."""
        info = self._connection.agent.info
        if not info.prompted:
            raise Unsupported(
                info.title,
                "prompts: this session belongs to an external MCP client",
                hint="`tillerman run` starts a session with an agent",
            )
        return await self._parts.prompt_check.check(prompt)

    async def send(self, prompt: Prompt, when_busy: WhenBusy = "queue") -> None:
        self._parts.until.renew()
        await self._turn.prompt(prompt, when_busy)

    def follow(self, prompt: Prompt) -> None:
        self._turn.follow(prompt)

    def turn_of(self, prompt: Prompt) -> int | None:
        return self._turn.turn_of(prompt)

    def number_of(self, prompt: Prompt) -> int | None:
        return self._turn.number_of(prompt)

    async def withdraw(self, prompt: Prompt) -> bool:
        """Cancels the turn of the prompt; False if it is still being sent."""
        if not await self._turn.withdraw(prompt):
            return False  # without a pause, in which the prompt could be sent
        await self._log.appender.durable()
        return True

    def answer(self, request_id: str, answer: Answer, *, surface: str) -> None:
        self._requests.resolve(request_id, answer, "person", surface)

    def forget_rule(self, rule: str) -> None:
        self._requests.forget_rule(rule)
        self._log.write_own(SettingsChanged(forgotten=rule))

    async def cancel(self) -> None:
        """Cancels the turn and background tasks; closes the agent if it does not stop."""
        await self._turn.cancel()

    async def configure(
        self,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        approve: Preset | None = None,
    ) -> None:
        check_options({"model": model, "mode": mode, "approve": approve})
        if approve:
            self._settings.approve(approve)
            self._requests.apply_policy(self._parts.policy(approve), self._settings.context)
        if model or mode:
            await self._settings.configure(model=model, mode=mode)

    async def idle(self) -> None:
        """Waits until no turn is open or queued, and no background task runs."""
        await self._turn.idle.wait()
        await self._log.appender.durable()

    async def durable(self) -> None:
        """Waits until every entry so far is durable."""
        await self._log.appender.durable()

    def is_idle(self) -> bool:
        """Whether the session is idle, and all entries are durable."""
        return self._turn.idle.is_set() and self._log.appender.settled

    def storage_changed(self, storage: Storage) -> None:
        self._log.storage_changed(storage)

    def warm(self) -> None:
        self._connection.warm()

    async def close(self) -> None:
        self._turn.stop()
        self._parts.until.stop()
        await self._connection.close()
        self._parts.tasks.cancel()
        await self._log.appender.durable()

    # -- notifications ---------------------------------------------------------------------------

    async def agent_output(self, batch: Sequence[DecodedLine]) -> None:
        taken = self._sanitizer.sanitize_batch(batch)
        if isinstance(taken, ChunkBatch):
            self._record_chunks(taken)
        else:
            for raw, events, pictures in taken:
                if pictures:
                    self._log.store_images(pictures)
                for event in events:
                    if type(event) in _ACTED_ON:
                        await self._handle(event, raw)
                    else:
                        self._record(event, raw)
                del raw, events, pictures
        self._log.appender.submit()
        if self._log.appender.behind:
            self._limits.pause()  # the delay is not the agent's
        await self._log.appender.room()
        self._turn.await_output()

    def agent_opened(self, agent: Agent, spec: SessionSpec) -> None:
        if conversation := self._connection.conversation:
            watched = watched_classes(agent.info, spec, conversation.asks)
            self._bypass.opened(agent.info.title, watched)
        asyncio.get_running_loop().call_later(STARTS, load_reader)
        self._report_opened(agent, spec)

    async def agent_lost(self, end: TurnEnded) -> None:
        """Cleans up after the conversation has ended: turn, background tasks, open requests."""
        if self._machine.on(TurnInput.AGENT_GONE) is TurnAction.DECIDE:
            await self._turn.decide(end)
        if self._turn.background:
            self._turn.background = False
            self._log.write_own(BackgroundChanged(tasks=()))
        self._requests.withdraw_all()
        self._log.flush()
        self._turn.become_idle()

    def timer_expired(self, name: str) -> None:
        if name.startswith(REQUEST_TIMER):
            self._requests.expired(name)
        else:
            self._turn.enforce(self._limits.expired(name))

    def request_resolved(self) -> None:
        self._turn.await_output()

    def task_failed(self, error: TillermanError) -> None:
        self._log.write_own(Notice(level="error", kind="session", text=error.message))
        self._turn.become_idle()

    def store_failed(self) -> None:
        self._close_agent()

    # -- events of the agent ---------------------------------------------------------------------

    async def _handle(self, event: Event, raw: bytes | None) -> None:
        """Handles an event that changes the state of the turn, or is changed itself."""
        match event:
            case TurnStarted():
                if self._machine.on(TurnInput.AGENT_STARTED) is TurnAction.START:
                    self._turn.start(event, raw)  # from here on no prompt starts another turn
                    await self._parts.snapshot.capture()
                else:
                    self._warn_stray("the agent reported the start of a turn during a turn", raw)
            case TurnEnded():
                action = self._machine.on(TurnInput.AGENT_ENDED)
                if action is TurnAction.DECIDE:
                    await self._turn.decide(event, raw)
                elif action is TurnAction.WARN and raw:  # it is being replaced
                    self._warn_stray("the agent reported the end of its turn twice", raw)
            case UsageReported():
                usage = self._parts.meter.priced(event, self._connection.model)
                self._log.write(usage, raw)
                self._turn.enforce(self._limits.use(usage, self._connection.model))
            case PermissionRequested() | QuestionAsked():
                self._broker.agent_asked(event, raw)
            case RequestAnswered():
                self._broker.agent_resolved(event, raw)

    def _record(self, event: Event, raw: bytes | None) -> None:
        kind = type(event)
        if isinstance(event, SettingsChanged):
            event = replace(event, approve=None)  # an agent cannot change the preset
            event = self._settings.without_foreign_title(event)
            if self._settings.knows(event):
                return
        if kind in _NOTED:
            self._update_state(event)
        if isinstance(event, AgentStarted) and self._enforcement:
            event = replace(event, enforcement=self._enforcement.states())
        self._log.write(event, raw)
        if kind in self._watched:
            self._observe(event)
        if isinstance(event, Notice) and event.failure:
            self._watch_retry(event)

    def _record_chunks(self, chunks: ChunkBatch) -> None:
        """Like `_record` for each chunk."""
        if type(chunks.whole) in self._limits.watches:  # a single chunk may exceed a limit
            for line in chunks.lines:
                self._record(line.events[0], line.raw)
            return
        self._log.write_chunks(chunks)
        if type(chunks.whole) in self._watched:
            self._observe(chunks.whole)

    def _update_state(self, event: Event) -> None:
        """Updates state that later steps depend on; other events are only written."""
        match event:
            case BackgroundChanged(tasks=tasks):
                self._turn.background = bool(tasks)
                self._turn.become_idle() if not tasks else self._turn.idle.clear()
            case SettingsChanged():
                self._settings.changed(event)
            case AgentReady():
                self._settings.ready(event)
                if self._machine.open:
                    self._turn.check_price()

    def _observe(self, event: Event) -> None:
        if type(event) in _VISIBLE:
            self._turn.progress.visible = self._turn.progress.begun = True
        if type(event) in WATCHES:
            if bypass := self._bypass.observe(event):
                self._stop_bypass(bypass)
            if isinstance(event, ToolStarted) or self._broker.mcp_calls:
                self._broker.observe(event)
            if self._follows_calls and (call := self._callbacks.finished_call(event)):
                self._parts.tasks.start(self._after_call(call))
        if type(event) in self._limits.watches:
            self._turn.enforce(self._limits.count(event, self.agent))

    async def _after_call(self, call: ToolCall) -> None:
        if notice := await self._callbacks.after_call(call):
            self._log.write_own(notice)

    def _watch_retry(self, retry: Notice) -> None:
        if self._machine.state is not TurnState.WORKING:
            return
        visible = self._turn.progress.visible
        if self._parts.retries.must_stop(retry, visible=visible) and self._connection.conversation:
            self._parts.tasks.start(self._connection.conversation.cancel())

    def _warn_stray(self, text: str, raw: bytes | None) -> None:
        self._log.write(Notice(level="warning", kind="stray", text=text), raw)

    def _stop_bypass(self, why: Failure) -> None:
        """Fails the turn and closes the agent, whose further output cannot be trusted."""
        self._limits.fail_turn(why)
        if not self._machine.open:
            self._log.write_own(Notice(level="error", kind="session", text=why.message))
        self._close_agent()

    def _close_agent(self) -> None:
        if self._connection.conversation:
            self._parts.tasks.start(self._connection.conversation.close())
