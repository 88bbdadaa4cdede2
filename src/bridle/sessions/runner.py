"""One live session: reads its agent, writes its log, answers its requests."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from bridle.core.agent import Agent, Conversation, Host, Mode, Prompt, SessionSpec
from bridle.core.errors import AgentError, BridleError, SessionBusy, UsageError
from bridle.core.events import (
    AgentReady,
    Answer,
    BackgroundChanged,
    Event,
    Notice,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from bridle.core.failure import Failure
from bridle.core.permission import Context, Policy
from bridle.core.versions import warning
from bridle.sessions.clocks import Clocks
from bridle.sessions.intake import Intake
from bridle.sessions.journal import Journal
from bridle.sessions.outlook import Outlook
from bridle.sessions.requests import Request, Requests, ends_planning
from bridle.sessions.shelf import Shelf
from bridle.sessions.terms import Limits
from bridle.sessions.turns import Turns
from bridle.store.writer import Storage

_ACTED_ON = frozenset({TurnStarted, TurnEnded, PermissionRequested, QuestionAsked})
_NOTED = frozenset({BackgroundChanged, RequestAnswered, SettingsChanged, AgentReady})

_NO_SPACE = Notice(
    level="error",
    kind="storage",
    text="no space left for the log: the agent is held back until some is free",
)
_SPACE_AGAIN = Notice(level="info", kind="storage", text="there is space again: it goes on")

_LONG = "a system prompt or MCP config is longer than a command line may be"
CANCEL_GRACE = 5.0  # seconds for background work to end, once the turn has

WhenBusy = Literal["queue", "refuse", "steer"]


class Runner:
    def __init__(
        self,
        *,
        agent: Agent,
        spec: SessionSpec,
        host: Host,
        journal: Journal,
        intake: Intake,
        native_id: str | None,
        last_turn: int,
        policy: Policy,
        context: Context,
        limits: Limits,
        shelf: Shelf,
    ) -> None:
        self._agent = agent
        self._spec = spec
        self._host = host
        self._journal = journal
        self._intake = intake
        self._native_id = native_id
        self._version: str | None = None  # of the agent, as far as it told
        self._context = context
        self._limits = limits
        self._shelf = shelf
        self._turns = Turns(last_turn)
        self._outlook = Outlook(spec.cwd)
        self._background = False
        self._queue: deque[Prompt] = deque()
        self._conversation: Conversation | None = None
        self._opening: asyncio.Task[Conversation] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._clocks = Clocks()
        self._requests = Requests(policy, self._clocks, limits.request, self._answered)
        self._overruled: Failure | None = None  # why we end the turn, whatever the agent says
        self._begin_lock = asyncio.Lock()
        journal.on_failure = self._stop_agent

    # -- what a surface asks ---------------------------------------------------------------------

    async def prompt(
        self,
        prompt: Prompt,
        when_busy: WhenBusy = "queue",
    ) -> None:
        _refuse_what_is_no_text(prompt)
        if not self._turns and not self._begin_lock.locked():
            await self._begin(prompt, when_busy)
        elif when_busy == "refuse":
            raise _busy()
        elif when_busy == "steer" and await self._steer(prompt):
            self._say(UserMessage(text=prompt.text, how="steer"))
        elif self._turns:
            self._queue.append(prompt)
            self._idle.clear()
            self._say(UserMessage(text=prompt.text, how="queued"))
        else:
            await self._begin(prompt, when_busy)

    async def _steer(self, prompt: Prompt) -> bool:
        """False when the turn ended in this very moment."""
        conversation = await self._open()
        try:
            await conversation.steer(prompt)
        except SessionBusy:
            return False
        return True

    def answer(self, request_id: str, answer: Answer, *, surface: str) -> None:
        self._requests.settle(request_id, answer, "person", surface)

    async def cancel(self) -> None:
        """Ends the turn and what works in the background; the agent itself, if it will not."""
        self._queue.clear()
        async with self._begin_lock:  # a turn that is just beginning is meant too
            conversation = self._conversation
        if conversation is None:
            return
        await conversation.cancel()
        try:
            await asyncio.wait_for(self._idle.wait(), CANCEL_GRACE)
        except TimeoutError:
            if self._background and not self._turns:
                await conversation.close()

    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None:
        """The mode is ours to keep, so it counts at once; the agent tells when it took a model."""
        if mode:
            self._set_mode(mode)
        if model:
            self._spec = replace(self._spec, model=model)
        if self._opening:
            conversation = await self._open()  # it may have begun with what was set before
            await conversation.configure(model=model, mode=mode)
        elif model:
            self._say(SettingsChanged(model=model))

    async def idle(self) -> None:
        """Until no turn is open, none is queued, and nothing works in the background."""
        await self._idle.wait()
        await self._journal.durable()

    def rested(self) -> bool:
        """Idle, and all of it in the log."""
        return self._idle.is_set() and self._journal.settled

    def storage_changed(self, storage: Storage) -> None:
        """Told in the log, so that whoever reads it knows why the agent stands still."""
        if storage == "full" and self._turns:
            self._journal.write_urgent(self._turns.current, _NO_SPACE)
        elif storage == "ok" and self._turns:
            self._write(_SPACE_AGAIN)

    async def close(self) -> None:
        if self._opening:
            await asyncio.wait([self._opening])
        if self._conversation:
            await self._conversation.close()
        if self._listening:
            await self._listening
        for task in list(self._tasks):
            task.cancel()
        await self._journal.durable()

    # -- turns -----------------------------------------------------------------------------------

    async def _begin(
        self, prompt: Prompt, when_busy: WhenBusy = "queue", *, queued: bool = False
    ) -> None:
        self._idle.clear()
        async with self._begin_lock:
            try:
                conversation = await self._meet()
                sending = self._sending(conversation, prompt)
                if sending is None and when_busy == "refuse":
                    raise _busy()
            except Exception:
                self._settle_idle()
                raise
            if sending is None:
                self._queue.appendleft(prompt)
                if not queued:
                    self._say(UserMessage(text=prompt.text, how="queued"))
                return
            self._start_turn(
                TurnStarted(
                    origin="prompt",
                    prompt=prompt.text,
                    attachments=self._shelf.keep(prompt.files),
                )
            )
            if conversation is self._conversation:
                await sending
                return
            sending.close()
            failure = Failure(
                kind="agent_crashed",
                message="the agent ended before it took the prompt",
                hint="its last words are in the agent_exited event",
            )
            await self._end_turn(TurnEnded(reason="failed", failure=failure))

    async def _meet(self) -> Conversation:
        """An agent that died since its last turn is started again; one that dies at once is not."""
        for _ in range(2):
            conversation, _ = await asyncio.gather(self._open(), self._outlook.look())
            if conversation is self._conversation:
                break
        return conversation

    def _sending(
        self, conversation: Conversation, prompt: Prompt
    ) -> Coroutine[Any, Any, None] | None:
        """None when the agent woke in the meantime: its own turn comes first.

        The conversation knows of a turn before we have heard of it, and refuses at once.
        """
        if self._turns:
            return None
        try:
            return conversation.prompt(prompt)
        except SessionBusy:
            return None

    def _start_turn(self, event: TurnStarted, raw: bytes | None = None) -> None:
        self._turns.begin()
        self._idle.clear()
        self._intake.new_turn()
        self._overruled = None
        self._say(event, raw)
        limit = self._limits.turn
        self._clocks.start("turn", limit, self._out_of_time, "the turn", limit)
        self._await_words()

    async def _end_turn(self, event: TurnEnded, raw: bytes | None = None) -> None:
        if not self._turns:
            return
        self._write_all(self._intake.rest())
        if not self._background:
            self._requests.withdraw_all()
        for change in await self._outlook.changes():
            self._say(change)
        if self._overruled and event.reason != "completed":
            event = TurnEnded(reason="failed", failure=self._overruled)
        self._say(event, raw)
        self._shelf.index(self._turns.end())
        self._next()

    def _next(self) -> None:
        """The turn is over: the queue's next prompt, or rest."""
        if self._queue:
            self._later(self._begin(self._queue.popleft(), queued=True))
        else:
            self._settle_idle()

    def _settle_idle(self) -> None:
        if not self._turns and not self._queue and not self._background:
            self._clocks.stop("turn")  # it ran on for what worked in the background
            self._clocks.stop("idle")
            self._idle.set()
            self._journal.wake_readers()

    # -- the agent -------------------------------------------------------------------------------

    def warm(self) -> None:
        """Starts the agent before there is a prompt; what goes wrong is told by the prompt."""
        self._opening = asyncio.create_task(self._connect())
        self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _open(self) -> Conversation:
        if self._opening is None:
            self._opening = asyncio.create_task(self._connect())
        try:
            return await asyncio.shield(self._opening)
        except Exception:
            self._opening = None
            raise

    async def _connect(self) -> Conversation:
        spec = self._spec
        if self._native_id:
            spec = replace(spec, resume=self._native_id)
        try:
            self._conversation = await self._agent.open(spec, self._host)
        except OSError as error:
            raise AgentError(
                self._agent.info.name,
                f"{self._agent.info.name} cannot be started: {error.strerror or error}",
                hint=_LONG if error.errno == errno.E2BIG else "`bridle doctor` checks it",
            ) from error
        self._listening = asyncio.create_task(self._listen(self._conversation))
        return self._conversation

    async def _listen(self, conversation: Conversation) -> None:
        try:
            async for batch in conversation.heard():
                for raw, events, pictures in self._intake.take(batch):
                    self._shelf.keep_bytes(pictures)
                    await self._hear(raw, events)
                    del raw, events, pictures
                del batch
                self._clocks.stop("idle")  # while the store is behind, it is we who are silent
                await self._journal.room()
                self._await_words()
        except Exception as error:
            await conversation.close()
            failure = Failure(kind="stream_broken", message=f"{type(error).__name__}: {error}")
            await self._gone(TurnEnded(reason="failed", failure=failure))
            raise
        await self._gone(
            TurnEnded(
                reason="failed",
                failure=Failure(kind="stream_broken", message="the agent ended without a result"),
            )
        )

    def _stop_agent(self) -> None:
        """Nothing it does would be kept."""
        if self._conversation:
            self._later(self._conversation.close())

    async def _gone(self, end: TurnEnded) -> None:
        """The conversation is over, whatever it left open."""
        self._conversation = self._opening = None
        await self._end_turn(end)
        if self._background:
            self._background = False
            self._say(BackgroundChanged(tasks=()))
        self._requests.withdraw_all()
        self._write_all(self._intake.rest())
        self._settle_idle()

    async def _hear(self, raw: bytes | None, events: Sequence[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind in _ACTED_ON:
                await self._act(event, raw)
            elif kind is SettingsChanged and event == SettingsChanged(mode=self._context.mode):
                continue  # it confirms what we have told already
            else:
                if kind in _NOTED:
                    self._note(event)
                self._write(event, raw)

    async def _act(self, event: Event, raw: bytes | None) -> None:
        match event:
            case TurnStarted() if self._turns:
                text = "the agent says that a turn began within a turn"
                self._write(Notice(level="warning", kind="stray", text=text), raw)
            case TurnStarted():
                self._start_turn(event, raw)  # first: from here on no prompt begins another
                await self._outlook.look()
            case TurnEnded():
                await self._end_turn(event, raw)
            case PermissionRequested() | QuestionAsked():
                self._requests.open(event)
                self._write(event, raw)
                self._requests.judge(event, self._context)

    def _note(self, event: Event) -> None:
        """State that later steps depend on; everything else is only written."""
        match event:
            case BackgroundChanged(tasks=tasks):
                self._background = bool(tasks)
                self._settle_idle() if not tasks else self._idle.clear()
            case RequestAnswered(request_id=request_id):
                self._requests.forget(request_id)
            case SettingsChanged(mode="plan" | "ask" | "agent" as mode):
                if mode in ("plan", "ask", self._spec.mode):  # tighter, or what a person set
                    self._context = replace(self._context, mode=mode)
            case AgentReady(native_id=native_id, version=version):
                self._native_id = native_id
                self._spec = replace(self._spec, fork=False)
                self._judge_version(version)

    def _judge_version(self, version: str | None) -> None:
        if version == self._version:
            return
        self._version = version
        info = self._agent.info
        if text := warning(info.title, info.tested, version):
            self._say(Notice(level="warning", kind="version", text=text))

    def _set_mode(self, mode: Mode) -> None:
        self._spec = replace(self._spec, mode=mode)
        self._context = replace(self._context, mode=mode)
        self._say(SettingsChanged(mode=mode))

    def _answered(self, request: Request, event: RequestAnswered) -> None:
        self._say(event)
        if event.by != "withdrawn" and self._conversation:
            self._later(self._conversation.answer(event.request_id, event.answer))
        if ends_planning(request, event.answer):
            self._set_mode("agent")
        self._await_words()

    # -- time ------------------------------------------------------------------------------------

    def _await_words(self) -> None:
        """An agent that says nothing is stuck, unless it is we who keep it waiting."""
        self._clocks.stop("idle")
        if (self._turns or self._background) and not self._requests:
            limit = self._limits.idle
            self._clocks.start("idle", limit, self._out_of_time, "silence", limit)

    def _out_of_time(self, what: str, limit: float) -> None:
        self._overruled = Failure(
            kind="timed_out",
            message=f"{what} lasted longer than {limit:g} s",
            hint="raise the limit with --timeout, or [limits] in the config",
        )
        if not self._turns:
            text = f"background work was ended: {self._overruled.message}"
            self._say(Notice(level="error", kind="limit", text=text))
        self._later(self.cancel())

    # -- the log ---------------------------------------------------------------------------------

    def _write(self, event: Event, raw: bytes | None = None) -> None:
        turn = self._turns.of(event)
        self._journal.write(turn, event, raw)
        self._shelf.note(turn, event)

    def _write_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self._write(event)

    def _say(self, event: Event, raw: bytes | None = None) -> None:
        """An event of our own making, or one that we may have changed."""
        self._write(self._intake.clean(event), raw)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BridleError as error:
            self._say(Notice(level="error", kind="session", text=error.message))
            self._settle_idle()


def _busy() -> SessionBusy:
    return SessionBusy(
        "a turn is under way in this session",
        hint="wait for it, cancel it, or queue the prompt",
    )


def _refuse_what_is_no_text(prompt: Prompt) -> None:
    """Before anything begins: no agent could be told it, and no log could keep it."""
    for text in (prompt.text, *(file.name for file in prompt.files)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"the prompt is not Unicode text at character {error.start}",
                hint="write it in UTF-8",
            ) from None
