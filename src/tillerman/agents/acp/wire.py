"""Translates between the Agent Client Protocol (ACP) and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

from tillerman.agents.acp import failures, prompt_blocks
from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.fast_path import piece
from tillerman.agents.acp.messages import AcpMessages
from tillerman.agents.acp.requests import AcpRequests
from tillerman.agents.acp.session_setup import SessionSetup
from tillerman.agents.acp.tool_calls import Calls
from tillerman.agents.acp.tools import step_status
from tillerman.agents.acp.usage import AcpUsage
from tillerman.agents.decoding.fields import Table, at, table, tables, text
from tillerman.agents.jsonrpc.peer import (
    RpcError,
    RpcInvalid,
    RpcNotification,
    RpcPeer,
    RpcRequest,
    RpcResponse,
)
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.core.agent import Mode, Prompt, SessionSpec
from tillerman.core.errors import AgentError
from tillerman.core.events import (
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
from tillerman.core.failure import Failure
from tillerman.core.wire import AttachmentBytes, Launch, WireReply

Said = Iterator[Event | WireReply | AttachmentBytes]

_HISTORY = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call",
     "tool_call_update", "plan"}
)  # fmt: skip
_TOLD_WHY = "the agent stopped after a denial: it is told the reason and continues"


class AcpWire:
    """One conversation: handshake, session setup, settings, then one prompt after the other.

    A prompt that arrives before the session is open waits. If the setup fails, the turn of the
    waiting prompt fails with that reason, and the next prompt retries the setup.
    """

    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, dialect: AcpDialect, spec: SessionSpec) -> None:
        self._dialect = dialect
        self._peer = RpcPeer()
        self._opening = SessionSetup(dialect, spec, self._peer, self._opened)
        self._settings = self._opening.settings
        self._speech = AcpMessages(dialect.row.thought_head)
        self._calls = Calls(dialect, str(spec.cwd), tuple(spec.tools.servers))
        self._unreported: list[
            Event
        ] = []  # events caused by host calls, emitted with the next line
        self._requests = AcpRequests(dialect, self._peer, self._calls, self._unreported)
        self._meter = AcpUsage()
        self._turn: Literal["prompt", "agent"] | None = None
        self._waiting: Prompt | None = None
        self._cancelled = False
        self._was_denied = False
        self._preamble = dialect.preamble(spec)

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return self._dialect.launch(spec)

    def greet(self) -> Iterable[Table]:
        return self._to_send(self._opening.step())

    def prompt(self, prompt: Prompt) -> Iterable[Table]:
        """Raises for features that the agent is known to lack: no response would end the turn."""
        prompt_blocks.refuse_files(self._dialect.row.name, prompt)
        messages: list[Table] = []
        if not (self._opening.ready or self._opening.under_way):
            messages = self._to_send(self._opening.step())
            if why := self._opening.failure:
                raise AgentError(self._dialect.row.name, why.message, hint=why.hint)
        self._turn, self._waiting = "prompt", prompt
        if self._dialect.row.drops_images:
            self._unreported += prompt_blocks.images_in_doubt(self._dialect.row.title, prompt)
        self._cancelled = self._was_denied = False
        self._calls.begin()
        self._meter.begin()
        if self._opening.ready:
            messages.append(self._send_prompt())
        return messages

    def answer(self, request_id: str, answer: Answer) -> Iterable[Table]:
        messages = list(self._requests.answer(request_id, answer))
        self._was_denied = self._was_denied or self._calls.denied
        return messages

    def cancel(self) -> Iterable[Table]:
        if self._turn is None:
            return []
        self._cancelled = self._calls.cancelled = True
        if self._waiting:
            return []  # the setup continues, and the prompt is not sent
        reported = self._peer.notify("session/cancel", {"sessionId": self._opening.session})
        return [reported, *self._requests.cancel()]

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[Table]:
        return self._to_send(self._opening.configure(model, mode))

    def _to_send(self, reported: Said) -> list[Table]:
        """Returns the messages; the events are emitted with the next line."""
        received = list(reported)
        self._unreported += [
            one for one in received if not isinstance(one, WireReply | AttachmentBytes)
        ]
        return [one.message for one in received if isinstance(one, WireReply)]

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]:
        if self._turn and not self._opening.replaying and not self._calls.denied:
            received = piece(line)
            if (
                received is not None
                and received.session == self._opening.session
                and not received.text.startswith(self._dialect.row.notice_prefixes)
            ):
                event = self._speech.receive(received.thought, received.text, received.message_id)
                return () if event is None else (event,)
        return list(self._line(line))

    def _line(self, raw: bytes) -> Said:
        yield from self._unreported
        self._unreported.clear()
        match self._peer.receive(raw):
            case RpcNotification(method="session/update", params=params):
                yield from self._updated(params, raw)
            case RpcNotification() as reported:
                yield from self._notification(reported, raw)
            case RpcRequest() as asked:
                yield from self._asked(asked, raw)
            case RpcResponse() as answered:
                yield from answered.pass_on()
            case RpcInvalid(why):
                yield unrecognized(raw, why)

    def _updated(self, params: Table, raw: bytes) -> Said:
        update = table(params, "update")
        kind = text(update, "sessionUpdate")
        session = self._opening.session
        if session and text(params, "sessionId") not in (session, ""):
            yield unrecognized(raw, f"{kind!r} of another session")
        elif self._opening.replaying and kind in _HISTORY:
            return
        elif kind in _HISTORY and (self._turn is None or self._waiting):
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
                yield from self._requests.begun(text(update, "toolCallId"))
                if text(update, "status") in ("completed", "failed"):
                    self._meter.reported_model()
            case "plan":
                yield PlanChanged(steps=tuple(_steps(update)), parent=parent)
            case "usage_update":
                yield from self._meter.update(update)
            case "available_commands_update":
                names = (text(one, "name") for one in tables(update, "availableCommands"))
                yield SettingsChanged(commands=tuple(filter(None, names)))
                if self._opening.replaying and self._opening.session:
                    yield from self._opening.replayed()
            case "current_mode_update":
                id = text(update, "currentModeId") or text(update, "modeId")
                yield from self._settings.mode_reported(id)
            case "config_option_update":
                yield from self._settings.options(update)
            case "session_info_update":
                if title := text(update, "title"):
                    yield SettingsChanged(title=title)
            case "user_message_chunk":
                return  # echo of our prompt
            case _:
                yield unrecognized(raw, f"an update of kind {kind!r}")

    def _chunk(self, thought: bool, update: Table, parent: str | None) -> Said:
        usage = at(update, "_meta", "usage")
        if isinstance(usage, dict):
            yield from self._meter.call(usage, main=parent is None)
        content = table(update, "content")
        message = text(content, "text")
        if (
            message
            and text(content, "type") == "text"
            and message.startswith(self._dialect.row.notice_prefixes)
        ):
            yield Notice(level="info", kind="session", text=message.strip())
            return
        if text(content, "type") not in ("text", ""):
            message = text(content, "uri") or f"({text(content, 'type')})"
        if parent is None and message:
            yield from self._calls.end_denied()
        id = text(update, "messageId") or None
        if event := self._speech.receive(thought, message, id, parent):
            yield event

    def _unasked(self, kind: str, update: Table, raw: bytes) -> Said:
        """Handles updates outside a turn: a turn started by the agent, or a late update."""
        message = text(table(update, "content"), "text").strip()
        wakes = self._dialect.row.turn_over and not self._waiting
        if wakes and (message or kind.startswith("tool_call")):
            yield from self._wake()
            yield from self._update(kind, update, raw)
        elif kind.endswith("_chunk"):
            if message and kind == "agent_message_chunk":
                yield Notice(level="info", kind="stray", text=message)
        elif not self._calls.knows(text(update, "toolCallId")):
            yield unrecognized(raw, f"a {kind} outside of a turn")

    def _wake(self) -> Said:
        self._turn = "agent"
        self._calls.begin()
        self._meter.begin()
        self._meter.reported_model()
        yield TurnStarted(origin="agent")

    def _notification(self, reported: RpcNotification, raw: bytes) -> Said:
        if reported.method == self._dialect.row.turn_over and self._turn != "prompt":
            if self._turn:
                yield from self._end(TurnEnded(reason="completed"), {})
            return
        if reported.method == "$/cancel_request":
            yield from self._requests.withdraw(reported.params.get("requestId"))
            return
        events = self._dialect.told(reported)
        if events is None:
            yield unrecognized(raw, f"a notification {reported.method!r}")
        else:
            yield from events

    def _asked(self, asked: RpcRequest, raw: bytes) -> Said:
        if self._requests.is_open(asked):
            yield unrecognized(raw, "a request with the id of another that is still open")
        elif asked.method == "session/request_permission" and (why := self._denial_reason()):
            yield WireReply(self._requests.refused(asked))
            yield Notice(level="warning", kind="stray", text=f"permission was denied: {why}")
        elif asked.method == "session/request_permission":
            if self._turn is None:
                yield from self._wake()
            self._speech.rest()
            yield from self._requests.permission(asked)
        elif asking := self._dialect.asking(asked):
            yield self._requests.question(asked, asking)
        else:
            yield WireReply(self._peer.unknown(asked))
            if not _is_declined(asked.method) and asked.method not in self._dialect.row.ignores:
                yield unrecognized(raw, f"a request {asked.method!r} was refused")

    def _denial_reason(self) -> str:
        """Why a request is denied at once; a call started outside a turn would never end."""
        if self._turn is None and not self._dialect.row.turn_over:
            return "the agent asked outside of a turn"
        return "the turn was cancelled" if self._turn and self._cancelled else ""

    # -- a turn ------------------------------------------------------------------------------

    def _opened(self) -> Said:
        """Called when the setup ends; if it failed, the waiting prompt fails too."""
        opening = self._opening
        why = opening.failure
        if not why:
            yield AgentReady(
                native_id=opening.session,
                model=self._dialect.model(opening.settings.model) or None,
                version=opening.abilities.version if opening.abilities else None,
            )
        if self._waiting is None:
            return
        why = why or self._unfit(self._waiting)
        if self._cancelled:
            yield from self._end(TurnEnded(reason="cancelled"), {})
        elif why:
            yield from self._end(TurnEnded(reason="failed", failure=why), {})
        else:
            yield WireReply(self._send_prompt())

    def _unfit(self, prompt: Prompt) -> Failure | None:
        """Checks a prompt against the capabilities of the agent."""
        images = any(map(prompt_blocks.is_image, prompt.files))
        if images and self._opening.abilities and not self._opening.abilities.images:
            return failures.lacking("images in a prompt", self._dialect.row)
        return None

    def _send_prompt(self) -> Table:
        prompt, self._waiting = self._waiting, None
        assert prompt is not None
        can = self._opening.abilities
        preamble = "" if can and "systemPrompt" in can.sessions else self._preamble
        embeds = bool(can and can.embeds) and not self._dialect.row.hides_resources
        blocks = prompt_blocks.blocks(prompt, preamble=preamble, embeds=embeds)
        self._preamble = ""
        self._meter.reported_model()
        params = {"sessionId": self._opening.session, "prompt": blocks}
        return self._peer.request("session/prompt", params, self._prompted)

    def _prompted(self, result: Any, error: RpcError | None) -> Said:
        if self._turn != "prompt":
            return
        fields = result if isinstance(result, dict) else {}
        reason = text(fields, "stopReason")
        if words := self._stopped_at(reason):
            yield from self._calls.end_denied()
            blocks = prompt_blocks.blocks(Prompt(words), preamble="", embeds=False)
            params = {"sessionId": self._opening.session, "prompt": blocks}
            yield Notice(level="info", kind="session", text=_TOLD_WHY)
            yield WireReply(self._peer.request("session/prompt", params, self._prompted))
            return
        if self._cancelled and (error or reason != "end_turn"):
            end = TurnEnded(reason="cancelled")
        elif error:
            end = TurnEnded(reason="failed", failure=self._opening.read(error))
        elif reason == "cancelled":
            end = self._broken_off()
        elif why := self._dialect.stopped(reason) or failures.stopped(reason):
            end = TurnEnded(reason="failed", failure=why)
        else:
            if reason != "end_turn":
                stop = f"the agent stopped for an unknown reason: {reason or 'none'}"
                yield Notice(level="warning", kind="session", text=stop)
            end = TurnEnded(reason="completed")
        yield from self._end(end, fields)

    def _stopped_at(self, reason: str) -> str:
        """Text for the model about the denials at which the agent stopped before the turn ended."""
        over = reason in ("end_turn", "cancelled") and self._calls.denied
        return self._requests.denials() if over and not self._cancelled else ""

    def _broken_off(self) -> TurnEnded:
        """The agent ended the turn without a cancel: some agents do so when a call is denied."""
        if not self._was_denied:
            return TurnEnded(reason="cancelled")
        return TurnEnded(
            reason="failed",
            failure=Failure(
                kind="denied",
                message="the agent ended its turn after a call was denied",
                hint="prompt again to continue",
            ),
        )

    def _end(self, end: TurnEnded, result: Table) -> Said:
        whole = self._dialect.row.usage == "turn" or not self._calls.any
        yield from self._calls.finish_all()
        self._requests.forget()
        self._speech.rest()
        self._turn = self._waiting = None
        yield from self._meter.result(result, whole=whole)
        yield end


def _steps(update: Table) -> Iterator[PlanStep]:
    for entry in tables(update, "entries"):
        yield PlanStep(text(entry, "content"), step_status(text(entry, "status")))


def _is_declined(method: str) -> bool:
    """Whether the method belongs to a capability that the client does not offer."""
    return method.startswith(("fs/", "terminal/"))
