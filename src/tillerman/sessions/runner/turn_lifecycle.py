"""The life of a turn: begins it, continues it after a failure, ends it, and starts the next.

What an input does in which state is in the table of `turn_state.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from tillerman.core.agent import Conversation, Prompt
from tillerman.core.errors import AgentError, SessionBusy, TillermanError
from tillerman.core.events import Notice, TurnEnded, TurnStarted, UserMessage
from tillerman.core.failure import Failure
from tillerman.core.session_options import WhenBusy
from tillerman.sessions.fallback.handover import TurnProgress, as_failure
from tillerman.sessions.fallback.policy import Replay, RetryAfter, SwitchAgent
from tillerman.sessions.limits.enforcer import LimitEffects, StopAgent
from tillerman.sessions.output_schema_check import Repair
from tillerman.sessions.permissions.denied_mentions import without_denied_mentions
from tillerman.sessions.runner.collaborators import Collaborators
from tillerman.sessions.runner.turn_state import TurnAction, TurnInput, TurnMachine, TurnState

NextStep = RetryAfter | SwitchAgent | Repair | Replay

CANCEL_GRACE = 5.0  # seconds for background tasks to end after the turn


class TurnLifecycle:
    def __init__(self, parts: Collaborators) -> None:
        self._parts = parts
        self._log = parts.log
        self._connection = parts.connection
        self._limits = parts.limits
        self._handover = parts.handover
        self.machine = TurnMachine()
        self.progress = TurnProgress()
        self.background = False  # the agent has background tasks
        self.idle = asyncio.Event()
        self.idle.set()
        self._queue: deque[Prompt] = deque()
        self._begin_lock = asyncio.Lock()
        self._asked: Prompt | None = None  # the prompt of the open turn
        self._over = asyncio.Event()  # no turn is open
        self._numbers: dict[int, int | None] = {}  # turns of followed prompts, by the object's id
        self._continuing: asyncio.Task[None] | None = None

    # -- begin -----------------------------------------------------------------------------------

    async def prompt(self, prompt: Prompt, when_busy: WhenBusy) -> None:
        match self.machine.on(_PROMPTS[when_busy]):
            case TurnAction.BEGIN:
                await self._begin(prompt, when_busy)
            case TurnAction.REFUSE:
                raise _busy()
            case TurnAction.STEER:
                if await self._steer(prompt):
                    self._log.write_own(UserMessage(text=prompt.text, how="steer"))
                else:
                    await self.prompt(prompt, "queue")
            case _:
                self._queue.append(prompt)
                self.idle.clear()
                self._log.write_own(UserMessage(text=prompt.text, how="queued"))

    async def _steer(self, prompt: Prompt) -> bool:
        """Steers the turn; False if it ended at the same time."""
        conversation = await self._connection.open()
        try:
            await conversation.steer(self._without_denied_files(prompt))
        except SessionBusy:
            return False
        return True

    async def _begin(
        self, prompt: Prompt, when_busy: WhenBusy = "queue", *, queued: bool = False
    ) -> None:
        self.idle.clear()
        self._parts.until.stop()
        async with self._begin_lock:
            self.machine.on(TurnInput.BEGIN)
            try:
                conversation = await self._handover.connect()
                sent, account = prompt, None
                if self._parts.turns.last:
                    sent, account = await self._handover.with_history(prompt)
                self._parts.settings.prompted(prompt, account.text if account else "")
                sending = self._sending(conversation, self._with_schema(sent))
                if sending is None and when_busy == "refuse":
                    raise _busy()
            except BaseException:
                self.machine.on(TurnInput.CANNOT_START)
                self.become_idle()
                raise
            if sending is None:
                self.machine.on(TurnInput.AGENT_BUSY)
                self._queue.appendleft(prompt)
                if not queued:
                    self._log.write_own(UserMessage(text=prompt.text, how="queued"))
                return
            self._asked = prompt
            self._parts.meter.begin()
            files = self._log.store_files(prompt.files)
            self.machine.on(TurnInput.SENT)
            self.start(TurnStarted(origin="prompt", prompt=prompt.text, attachments=files))
            if account:
                self._log.write_own(account)
            await self._send(conversation, sending)

    def _sending(
        self, conversation: Conversation, prompt: Prompt
    ) -> Coroutine[Any, Any, None] | None:
        """Returns the prompt call; None if the agent has just started a turn of its own.

        That turn comes first. The conversation knows of it before its event arrives, and refuses
        immediately.
        """
        if self.machine.open:
            return None
        try:
            return conversation.prompt(prompt)
        except SessionBusy:
            return None

    def _with_schema(self, prompt: Prompt, way: NextStep | None = None) -> Prompt:
        """The prompt to send: with the schema, for an agent without schema support."""
        answer = self._parts.answer
        if answer is not None and not isinstance(way, Repair):
            prompt = answer.request(prompt, self._connection.agent.info)
        return self._without_denied_files(prompt)

    def _without_denied_files(self, prompt: Prompt) -> Prompt:
        """Takes the mentions apart of files that a rule denies, so that no agent attaches them."""
        plain = without_denied_mentions(prompt.text, self._parts.broker.decide)
        if not plain.files:
            return prompt
        text = f"a rule does not allow to read what the prompt mentions: {', '.join(plain.files)}"
        self._log.write_own(Notice(level="warning", kind="policy", text=text))
        return replace(prompt, text=plain.text)

    def start(self, event: TurnStarted, raw: bytes | None = None) -> None:
        parts = self._parts
        self._log.begin_turn()
        self.idle.clear()
        self._over.clear()
        if id(self._asked) in self._numbers:
            self._numbers[id(self._asked)] = parts.turns.last
        parts.fallback.begin()
        parts.retries.begin_turn()
        if parts.answer:
            parts.answer.begin_turn()
        self.progress.visible = self.progress.begun = False
        self._log.write_own(event, raw)
        self._log.write_all_own(self._handover.pending_notices())
        self.enforce(self._limits.begin_turn())
        if self._connection.native_id:  # else the agent has not reported its model yet
            self.check_price()
        self.await_output()

    async def _send(self, conversation: Conversation, sending: Coroutine[Any, Any, None]) -> None:
        """Sends the prompt of the open turn; errors end the turn."""
        if conversation is not self._connection.conversation:
            sending.close()
            failure = Failure(
                kind="agent_crashed",
                message="the agent exited before it received the prompt",
                hint="its last output is in the agent_exited event",
            )
            await self.decide(TurnEnded(reason="failed", failure=failure))
            return
        try:
            await sending
        except AgentError as error:
            await self.decide(TurnEnded(reason="failed", failure=as_failure(error)))
        else:
            self._connection.has_no_history = False

    # -- continue --------------------------------------------------------------------------------

    async def decide(self, event: TurnEnded, raw: bytes | None = None) -> None:
        """Handles the end of the agent's turn: continues by a fallback, or ends the turn."""
        event = self._parts.retries.ending(event, visible=self.progress.visible)
        event, way = await self._next_step(event)
        if way is not None:
            self.machine.on(TurnInput.CAN_CONTINUE)
            self._limits.pause()
            self._log.flush()
            self._continuing = asyncio.create_task(self._continue(way, event, raw))
        else:
            await self._end(event, raw)

    async def _next_step(self, event: TurnEnded) -> tuple[TurnEnded, NextStep | None]:
        """Returns the end of the turn with the checked answer, or the step that continues it."""
        if not self.machine.open or not self._asked:
            return event, None
        way: NextStep | None = None
        if self._parts.answer and event.reason == "completed":
            event, way = await self._parts.answer.check(event)
        failure = None if self._limits.violation else event.failure
        if failure is None or event.reason != "failed" or not self._asked:
            return event, None
        visible = self.progress.visible
        if way is None and failure.kind == "history_lost" and self._connection.native_id:
            self._connection.has_no_history = (
                True  # the next prompt then includes a summary of the history
            )
            way = None if visible else Replay()
        if way is None:
            way = self._parts.fallback.next_step(failure, visible=visible)
        return event, way

    async def _continue(self, way: NextStep, end: TurnEnded, raw: bytes | None) -> None:
        try:
            assert end.failure and self._asked
            why, first = end.failure.message, self._parts.turns.last == 1
            prompt = await self._handover.next_prompt(
                way, why, raw, asked=self._asked, progress=self.progress, first=first
            )
            if prompt is None:
                await self._cannot_continue(end, raw)
                return
            conversation = await self._handover.connect()
            self._log.write_all_own(self._handover.pending_notices())
            sent = prompt.text if isinstance(way, SwitchAgent) else ""
            self._parts.settings.prompted(self._asked, sent)
            sending = conversation.prompt(self._with_schema(prompt, way))
        except Exception as error:  # the turn must end, whatever the error
            self._log.write_own(Notice(level="error", kind="fallback", text=_error_text(error)))
            await self._cannot_continue(end, raw)
            return
        self._continuing = None
        self.machine.on(TurnInput.SENT)
        self.progress.visible = False
        self._parts.retries.begin_turn()
        self._limits.begin_work()
        self.await_output()
        await self._send(conversation, sending)

    async def _cannot_continue(self, end: TurnEnded, raw: bytes | None) -> None:
        self._continuing = None
        self.machine.on(TurnInput.CANNOT_CONTINUE)
        await self._end(end, raw)

    # -- end -------------------------------------------------------------------------------------

    async def cancel(self) -> None:
        """Cancels the turn and background tasks; closes the agent if it does not stop."""
        self._queue.clear()
        if (conversation := await self._interrupt()) is None:
            return
        try:
            async with asyncio.timeout(CANCEL_GRACE):
                await self.idle.wait()
        except TimeoutError:
            if self.background and not self.machine.open:
                await conversation.close()

    async def withdraw(self, prompt: Prompt) -> bool:
        """Cancels the turn of this prompt, or takes it out of the queue.

        False if the prompt is still being sent, and the caller has to cancel that.
        """
        if self._asked is prompt:
            await self._interrupt()
            await self._over.wait()
        elif any(queued is prompt for queued in self._queue):
            self._queue = deque(queued for queued in self._queue if queued is not prompt)
            self.become_idle()
        elif self._parts.until.stop():
            self.become_idle()
        else:
            return False
        return True

    async def _interrupt(self) -> Conversation | None:
        """Interrupts the agent, whether it starts, works or is to continue."""
        self._parts.retries.clear()
        if self.machine.state is not TurnState.CONTINUING:
            self._handover.cancel()
        async with self._begin_lock:  # also cancels a turn that is just starting
            conversation = self._connection.conversation
        if self.machine.on(TurnInput.CANCEL) is TurnAction.END:
            self.stop()
            await self._end(TurnEnded(reason="cancelled"))
        if self._parts.until.stop():
            self.become_idle()
        if conversation:
            await conversation.cancel()
        return conversation

    def follow(self, prompt: Prompt) -> None:
        """Remembers the number of the turn that this prompt will start."""
        self._numbers[id(prompt)] = None

    def turn_of(self, prompt: Prompt) -> int | None:
        """The number of the turn of a followed prompt; None if it has not begun."""
        return self._numbers.get(id(prompt))

    def number_of(self, prompt: Prompt) -> int | None:
        """Like `turn_of`, once: the prompt is forgotten."""
        return self._numbers.pop(id(prompt), None)

    def stop(self) -> None:
        """Cancels the preparation of a next step."""
        if self._continuing:
            self._continuing.cancel()
            self._continuing = None

    async def _end(self, event: TurnEnded, raw: bytes | None = None) -> None:
        if not self.machine.open:
            return
        parts = self._parts
        self._log.flush()
        if not self.background:
            parts.requests.withdraw_all()
            parts.bypass.turn_ended()
        if parts.enforcement:
            await parts.enforcement.protection.settle()
        for change in await parts.snapshot.changes():
            self._log.write_own(change)
        if verdict := self._limits.violation:
            self._queue.clear()
            if event.reason == "completed" and verdict.kind != "gate_bypassed":
                self._warn(f"{verdict.message}: the turn had already ended")
            else:
                event = TurnEnded(reason="failed", failure=verdict)
        self._log.write_own(event, raw)
        parts.requests.turn_ended(event)
        self._limits.end_turn()
        self._asked = None
        self._log.end_turn()
        self.machine.on(TurnInput.OVER)
        self._over.set()
        self._go_on(event)

    def _go_on(self, end: TurnEnded) -> None:
        """After a turn: starts the next queued prompt or the until-check, or becomes idle."""
        parts = self._parts
        if self._queue:
            parts.tasks.start(self._begin(self._queue.popleft(), queued=True))
        elif parts.until.wanted and end.reason == "completed" and not self.background:
            parts.until.begun(parts.tasks.start(self._check()))
        else:
            self.become_idle()

    async def _check(self) -> None:
        notice, prompt = await self._parts.until.run()
        if notice:
            self._log.write_own(notice)
        if prompt is not None and not self.machine.open and not self._queue:
            await self._begin(Prompt(prompt))
        else:
            self.become_idle()

    def become_idle(self) -> None:
        """Becomes idle, unless anything is open, queued or running."""
        if self.machine.open or self._queue or self.background or self._parts.until:
            return
        self._limits.rest()
        self.idle.set()
        self._log.appender.wake_readers()

    # -- limits ----------------------------------------------------------------------------------

    def await_output(self) -> None:
        """Starts the idle timer, unless a user or another agent is being waited for."""
        state = self.machine.state
        works = state is TurnState.WORKING or (
            self.background and state is not TurnState.CONTINUING
        )
        if works and not self._parts.broker.requests.unanswered:
            self._limits.expect_output()
        else:
            self._limits.pause()

    def check_price(self) -> None:
        agent, model = self._connection.agent.info, self._connection.model
        self.enforce(self._limits.check_price(agent, model))

    def enforce(self, effects: LimitEffects) -> None:
        for effect in effects:
            if isinstance(effect, StopAgent):
                self._stop_agent(effect.why)
            else:
                self._warn(effect.text)

    def _stop_agent(self, why: Failure) -> None:
        if not self.machine.open:
            text = f"background work was stopped: {why.message}"
            self._log.write_own(Notice(level="error", kind="limit", text=text))
        self._parts.tasks.start(self.cancel())

    def _warn(self, text: str) -> None:
        self._log.write_own(Notice(level="warning", kind="limit", text=text))


_PROMPTS: dict[WhenBusy, TurnInput] = {
    "queue": TurnInput.PROMPT,
    "refuse": TurnInput.PROMPT_OR_REFUSE,
    "steer": TurnInput.STEER,
}


def _error_text(error: Exception) -> str:
    return (
        error.message if isinstance(error, TillermanError) else f"{type(error).__name__}: {error}"
    )


def _busy() -> SessionBusy:
    return SessionBusy(
        "the agent is still working on a turn in this session",
        hint="wait, cancel the turn, or queue the prompt",
    )
