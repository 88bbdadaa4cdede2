"""The Agent Client Protocol, translated to events and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

from bridle.agents.acp import failures, opening, prompts
from bridle.agents.acp.calls import Calls
from bridle.agents.acp.dialect import Dialect
from bridle.agents.acp.lines import piece
from bridle.agents.acp.opening import Abilities
from bridle.agents.acp.permission import Requests
from bridle.agents.acp.settings import Change, Settings
from bridle.agents.acp.speech import Speech
from bridle.agents.acp.usage import Meter
from bridle.agents.fields import Table, at, table, tables, text
from bridle.agents.hearing import unrecognized
from bridle.agents.jsonrpc import Answered, Asked, Nonsense, Peer, RpcError, Told
from bridle.core.agent import Keep, Launch, Mode, Prompt, Reply, SessionSpec
from bridle.core.events import (
    AgentReady,
    Answer,
    Event,
    Notice,
    PlanChanged,
    PlanStep,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from bridle.core.failure import Failure

Said = Iterator[Event | Reply | Keep]

_STEPS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}
_HISTORY = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call",
     "tool_call_update", "plan"}
)  # fmt: skip


class AcpWire:
    """One conversation: hello, a session, its settings, and then one prompt after the other.

    A prompt that comes too early waits. If the opening fails, the turn of the waiting prompt fails
    of it, and the next prompt tries again from there.
    """

    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, dialect: Dialect, spec: SessionSpec) -> None:
        self._dialect = dialect
        self._spec = spec
        self._peer = Peer()
        self._abilities: Abilities | None = None
        self._session = ""
        self._replaying = False
        self._opening = False  # a step of it waits for its answer
        self._failure: Failure | None = None  # of the opening
        self._ready = False
        self._settings = Settings(dialect.row, spec)
        self._speech = Speech()
        self._calls = Calls(dialect, str(spec.cwd))
        self._requests = Requests(dialect, self._peer, self._calls)
        self._meter = Meter()
        self._turn: Literal["prompt", "agent"] | None = None
        self._waiting: Prompt | None = None
        self._cancelled = False
        self._was_denied = False
        self._preamble = dialect.preamble(spec)

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return self._dialect.launch(spec)

    def greet(self) -> Iterable[Table]:
        return [one.message for one in self._open() if isinstance(one, Reply)]

    def prompt(self, prompt: Prompt) -> Iterable[Table]:
        prompts.refuse_files(self._dialect.row.name, prompt)
        self._turn, self._waiting = "prompt", prompt
        self._cancelled = self._was_denied = False
        self._calls.begin()
        self._meter.begin()
        if self._ready:
            return [self._send_prompt()]
        if self._opening:
            return []
        self._failure = None
        return [one.message for one in self._open() if isinstance(one, Reply)]

    def answer(self, request_id: str, answer: Answer) -> Iterable[Table]:
        said = list(self._requests.answer(request_id, answer))
        self._was_denied = self._was_denied or self._calls.denied
        return said

    def cancel(self) -> Iterable[Table]:
        if self._turn is None:
            return []
        self._cancelled = True
        if self._waiting:
            return []  # the opening goes on, and the prompt is not sent
        told = self._peer.notify("session/cancel", {"sessionId": self._session})
        return [told, *self._requests.cancel()]

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[Table]:
        self._settings.want(model, mode)
        if not self._ready or self._opening:
            return []
        return [one.message for one in self._set_next() if isinstance(one, Reply)]

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | Reply | Keep]:
        if self._turn and not self._replaying and not self._calls.denied:
            heard = piece(line)
            if (
                heard is not None
                and heard.session == self._session
                and not heard.text.startswith(self._dialect.row.asides)
            ):
                event = self._speech.hear(heard.thought, heard.text, heard.message_id)
                return () if event is None else (event,)
        return list(self._line(line))

    def _line(self, raw: bytes) -> Said:
        match self._peer.hear(raw):
            case Told(method="session/update", params=params):
                yield from self._updated(params, raw)
            case Told() as told:
                yield from self._told(told, raw)
            case Asked() as asked:
                yield from self._asked(asked, raw)
            case Answered() as answered:
                yield from answered.pass_on()
            case Nonsense(why):
                yield unrecognized(raw, why)
        while self._requests.notices:
            yield self._requests.notices.pop(0)

    def _updated(self, params: Table, raw: bytes) -> Said:
        update = table(params, "update")
        kind = text(update, "sessionUpdate")
        if self._session and text(params, "sessionId") not in (self._session, ""):
            yield unrecognized(raw, f"a {kind} of another session")
        elif self._replaying and kind in _HISTORY:
            return
        elif kind in _HISTORY and self._turn is None:
            yield from self._unasked(kind, update, raw)
        else:
            yield from self._update(kind, update, raw)

    def _update(self, kind: str, update: Table, raw: bytes) -> Said:
        parent = self._dialect.parent(update)
        match kind:
            case "agent_message_chunk" | "agent_thought_chunk":
                yield from self._chunk(kind == "agent_thought_chunk", update, parent)
            case "tool_call" | "tool_call_update":
                if not text(update, "toolCallId"):
                    yield unrecognized(raw, "a tool call without an id")
                    return
                self._speech.rest()
                yield from self._calls.told(update, parent)
            case "plan":
                yield PlanChanged(steps=tuple(_steps(update)), parent=parent)
            case "usage_update":
                self._meter.update(update)
            case "available_commands_update":
                names = (text(one, "name") for one in tables(update, "availableCommands"))
                yield SettingsChanged(commands=tuple(filter(None, names)))
                if self._replaying and self._session:
                    yield from self._replayed()
            case "current_mode_update":
                id = text(update, "currentModeId") or text(update, "modeId")
                yield from self._settings.mode_told(id)
            case "config_option_update":
                yield from self._settings.options(update)
            case "session_info_update":
                if title := text(update, "title"):
                    yield SettingsChanged(title=title)
            case "user_message_chunk":
                return  # our own words
            case _:
                yield unrecognized(raw, f"an update of kind {kind!r}")

    def _chunk(self, thought: bool, update: Table, parent: str | None) -> Said:
        usage = at(update, "_meta", "usage")
        if isinstance(usage, dict):
            self._meter.call(usage)
        content = table(update, "content")
        said = text(content, "text")
        if said and text(content, "type") == "text" and said.startswith(self._dialect.row.asides):
            yield Notice(level="info", kind="session", text=said.strip())
            return
        if text(content, "type") not in ("text", ""):
            said = text(content, "uri") or f"({text(content, 'type')})"
        if parent is None and said:
            yield from self._calls.spoken()
        id = text(update, "messageId") or None
        if event := self._speech.hear(thought, said, id, parent):
            yield event

    def _unasked(self, kind: str, update: Table, raw: bytes) -> Said:
        """Outside of a turn: the agent woke, or has a last word about what is over."""
        said = text(table(update, "content"), "text").strip()
        if self._dialect.row.turn_over and (said or kind.startswith("tool_call")):
            self._turn = "agent"
            self._calls.begin()
            self._meter.begin()
            yield TurnStarted(origin="agent")
            yield from self._update(kind, update, raw)
        elif kind.endswith("_chunk"):
            if said and kind == "agent_message_chunk":
                yield Notice(level="info", kind="stray", text=said)
        elif not self._calls.knows(text(update, "toolCallId")):
            yield unrecognized(raw, f"a {kind} outside of a turn")

    def _told(self, told: Told, raw: bytes) -> Said:
        if told.method == self._dialect.row.turn_over and self._turn != "prompt":
            if self._turn:
                yield from self._end(TurnEnded(reason="completed"), {})
            return
        if told.method == "$/cancel_request":
            return
        events = self._dialect.told(told)
        if events is None:
            yield unrecognized(raw, f"a notification {told.method!r}")
        else:
            yield from events

    def _asked(self, asked: Asked, raw: bytes) -> Said:
        if asked.method == "session/request_permission":
            self._speech.rest()
            yield from self._requests.permission(asked)
        elif asking := self._dialect.asking(asked):
            yield self._requests.question(asked, asking)
        else:
            yield Reply(self._peer.unknown(asked))
            if not _is_declined(asked.method) and asked.method not in self._dialect.row.ignores:
                yield unrecognized(raw, f"a request {asked.method!r} was refused")

    # -- opening -----------------------------------------------------------------------------

    def _open(self) -> Said:
        """The next step, or the prompt that waited for the last one."""
        self._opening = True
        if self._failure:
            yield from self._not_opened(self._failure)
        elif self._abilities is None:
            params = opening.hello(self._dialect, self._spec)
            yield Reply(self._peer.request("initialize", params, self._greeted))
        elif not self._session:
            yield from self._open_session(self._abilities)
        elif self._settings.next():
            yield from self._set_next()
        else:
            self._opening = False
            yield from self._opened()

    def _greeted(self, result: Any, error: RpcError | None) -> Said:
        if error:
            self._failure = self._read(error)
        elif not (failure := opening.wrong_version(result)):
            self._abilities = opening.abilities(result)
        else:
            self._failure = failure
        yield from self._open()

    def _open_session(self, can: Abilities) -> Said:
        call = opening.session(self._dialect, self._spec, can)
        if isinstance(call, Failure):
            yield from self._not_opened(call)
            return
        self._replaying = call.method == "session/load"

        def then(result: Any, error: RpcError | None) -> Said:
            if error:
                self._replaying = False
                self._failure = failures.not_opened(
                    error, self._dialect.row, resuming=bool(self._spec.resume)
                )
                self._failure = self._dialect.failure(error) or self._failure
                yield from self._open()
                return
            told = result if isinstance(result, dict) else {}
            self._session = text(told, "sessionId") or call.params.get("sessionId", "")
            if not self._session:
                self._failure = Failure(
                    kind="agent_failed", message="the agent opened a session without an id"
                )
            self._settings.opened(told)
            if not (self._replaying and self._dialect.row.replays == "after"):
                yield from self._replayed()

        yield Reply(self._peer.request(call.method, call.params, then))

    def _replayed(self) -> Said:
        self._replaying = False
        yield from self._open()

    def _opened(self) -> Said:
        if not self._ready:
            self._ready = True
            yield AgentReady(
                native_id=self._session,
                model=self._settings.model or None,
                version=self._abilities.version if self._abilities else None,
            )
        if self._waiting is None:
            return
        if self._cancelled:
            yield from self._end(TurnEnded(reason="cancelled"), {})
        elif why := self._unfit(self._waiting):
            yield from self._end(TurnEnded(reason="failed", failure=why), {})
        else:
            yield Reply(self._send_prompt())

    def _not_opened(self, why: Failure) -> Said:
        self._opening = False
        self._failure = why
        if self._waiting:
            reason: Literal["cancelled", "failed"] = "cancelled" if self._cancelled else "failed"
            failure = None if self._cancelled else why
            yield from self._end(TurnEnded(reason=reason, failure=failure), {})

    def _read(self, error: RpcError) -> Failure:
        return self._dialect.failure(error) or failures.failure(error, self._dialect.row)

    # -- settings ----------------------------------------------------------------------------

    def _set_next(self) -> Said:
        """Model, effort and mode, one after the other; in a session that runs a refusal is told."""
        while what := self._settings.next():
            change = self._settings.change(what, self._session)
            if change:
                then = self._changed(change)
                yield Reply(self._peer.request(change.method, change.params, then))
                return
            self._settings.drop(what) if self._ready else None
            why = failures.lacking(f"choice of {what}", self._dialect.row)
            if not self._ready:
                yield from self._not_opened(why)
                return
            yield Notice(level="error", kind="settings", text=why.message)

    def _changed(self, change: Change) -> Any:
        def then(result: Any, error: RpcError | None) -> Said:
            if error is None:
                told = result if isinstance(result, dict) else {}
                events = list(self._settings.done(change, told))
                yield from events if self._ready else ()
            elif self._ready:
                self._settings.drop(change.what)
                why = f"{change.what} {change.value!r} was refused: {self._read(error).message}"
                yield Notice(level="error", kind="settings", text=why)
            else:
                self._failure = _refused(change, self._read(error))
            yield from self._open() if not self._ready else self._set_next()

        return then

    # -- a turn ------------------------------------------------------------------------------

    def _unfit(self, prompt: Prompt) -> Failure | None:
        """What is wrong with a prompt for this agent, now that it said what it takes."""
        images = any(map(prompts.is_image, prompt.files))
        if images and self._abilities and not self._abilities.images:
            return failures.lacking("place for images in a prompt", self._dialect.row)
        return None

    def _send_prompt(self) -> Table:
        prompt, self._waiting = self._waiting, None
        assert prompt is not None
        embeds = self._abilities is not None and self._abilities.embeds
        blocks = prompts.blocks(prompt, preamble=self._preamble, embeds=embeds)
        self._preamble = ""
        params = {"sessionId": self._session, "prompt": blocks}
        return self._peer.request("session/prompt", params, self._prompted)

    def _prompted(self, result: Any, error: RpcError | None) -> Said:
        if self._turn != "prompt":
            return
        told = result if isinstance(result, dict) else {}
        reason = text(told, "stopReason")
        if self._cancelled and (error or reason != "end_turn"):
            end = TurnEnded(reason="cancelled")
        elif error:
            end = TurnEnded(reason="failed", failure=self._read(error))
        elif reason == "cancelled":
            end = self._broken_off()
        elif why := failures.stopped(reason):
            end = TurnEnded(reason="failed", failure=why)
        else:
            if reason != "end_turn":
                stop = f"the agent stopped for a reason that is not known: {reason or 'none'}"
                yield Notice(level="warning", kind="session", text=stop)
            end = TurnEnded(reason="completed")
        yield from self._end(end, told)

    def _broken_off(self) -> TurnEnded:
        """Nobody cancelled: some agents end their turn when a call is denied."""
        if not self._was_denied:
            return TurnEnded(reason="cancelled")
        return TurnEnded(
            reason="failed",
            failure=Failure(
                kind="denied",
                message="the agent ended its turn after a call was denied",
                hint="prompt again to go on",
            ),
        )

    def _end(self, end: TurnEnded, result: Table) -> Said:
        whole = self._dialect.row.usage == "turn" or not self._calls.any
        yield from self._calls.finish_all()
        self._requests.forget()
        self._speech.rest()
        self._turn = self._waiting = None
        if "usage" in self._dialect.row.info.can and self._ready:
            yield self._meter.report(result, whole=whole)
        yield end


def _steps(update: Table) -> Iterator[PlanStep]:
    for entry in tables(update, "entries"):
        yield PlanStep(text(entry, "content"), _STEPS.get(text(entry, "status"), "pending"))


def _is_declined(method: str) -> bool:
    """What the client said it has not."""
    return method.startswith(("fs/", "terminal/"))


def _refused(change: Change, why: Failure) -> Failure:
    message = f"{change.what} {change.value!r} was refused: {why.message}"
    if change.what == "model" and why.kind == "agent_failed":
        hint = "name another model with -m"
        return Failure(kind="model_not_found", message=message, hint=hint)
    return Failure(kind=why.kind, message=message, status=why.status, hint=why.hint)
