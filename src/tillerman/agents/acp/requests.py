"""Permission requests and questions of ACP agents, and the responses to them.

Options are selected by kind, since ids and order differ between agents. "allow" is the first option
that allows once and "deny" the first that rejects once. Permanent options are not offered: an agent
stores them in its own files and no longer asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from tillerman.agents.acp.dialect import AcpDialect, AcpQuestions
from tillerman.agents.acp.tool_calls import Calls
from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.agents.jsonrpc.peer import RpcPeer, RpcRequest
from tillerman.core.events import (
    Answer,
    Event,
    Notice,
    Option,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
)
from tillerman.core.wire import WireReply

_KINDS: dict[str, Literal["allow", "deny"]] = {"allow_once": "allow", "reject_once": "deny"}
_CANCELLED = {"outcome": {"outcome": "cancelled"}}


class _Open(NamedTuple):
    asked: RpcRequest
    call_id: str
    options: dict[str, tuple[str, Option]]  # our id -> the agent's id and the option offered
    asking: AcpQuestions | None = None
    title: str = ""


class AcpRequests:
    """Open requests; `unreported` collects events about answers that could not be applied."""

    def __init__(
        self, dialect: AcpDialect, peer: RpcPeer, calls: Calls, unreported: list[Event]
    ) -> None:
        self._dialect = dialect
        self._peer = peer
        self._calls = calls
        self._open: dict[str, _Open] = {}
        self._early: dict[str, RpcRequest] = {}  # about calls that have not been reported yet
        self._denials: list[str] = []  # that the agent does not report to the model
        self._unreported = unreported

    def permission(self, asked: RpcRequest) -> Iterator[Event | WireReply]:
        """Handles `session/request_permission`."""
        call = table(asked.params, "toolCall")
        id = text(call, "toolCallId")
        if self._dialect.asks_early(call) and not self._calls.begun(id):
            self._early[asked.key] = asked
            return
        if not id:
            call = {**call, "toolCallId": f"asked-{asked.key}"}
        if asking := self._dialect.asking(asked):
            begun = self._calls.asked(call, asked.key, "")
            yield from (event for event in begun if not isinstance(event, PermissionRequested))
            yield self.question(asked, asking)
            return
        options = _options(tables(asked.params, "options"))
        reason = text(table(call, "rawInput"), "reason")
        for event in self._calls.asked(call, asked.key, reason):
            if isinstance(event, PermissionRequested):
                id = text(call, "toolCallId")
                self._open[asked.key] = _Open(asked, id, options, title=event.title)
                offered = tuple(option for _, option in options.values())
                yield replace(event, options=offered or event.options)
            else:
                yield event

    def begun(self, call_id: str) -> Iterator[Event | WireReply]:
        """Handles requests that arrived before the input of their call."""
        for key, asked in list(self._early.items()):
            is_same_call = text(table(asked.params, "toolCall"), "toolCallId") == call_id
            if is_same_call and self._calls.begun(call_id):
                yield from self.permission(self._early.pop(key))

    def question(self, asked: RpcRequest, asking: AcpQuestions) -> Event:
        self._open[asked.key] = _Open(asked, asking.call_id or "", {}, asking)
        return QuestionAsked(
            request_id=asked.key, questions=asking.questions, call_id=asking.call_id
        )

    def answer(self, request_id: str, answer: Answer) -> Iterator[Table]:
        request = self._open.pop(request_id, None)
        if request is None:
            return
        if request.asking:
            yield self._peer.result(request.asked, request.asking.result(answer))
            return
        yield self._peer.result(request.asked, self._outcome(request, answer))

    def denials(self) -> str:
        """Returns the collected denials as text for the model and clears them."""
        reported, self._denials = "\n".join(self._denials), []
        return reported

    def refused(self, asked: RpcRequest) -> Table:
        """The response to a request that cannot be shown to the user."""
        return self._peer.result(asked, _CANCELLED)

    def is_open(self, asked: RpcRequest) -> bool:
        return asked.key in self._open or asked.key in self._early

    def cancel(self) -> list[Table]:
        """Cancels all open requests; without a response some agents never end the turn."""
        messages = [
            self._peer.result(one.asked, self._withdrawn(one)) for one in self._open.values()
        ]
        messages += [self.refused(asked) for asked in self._early.values()]
        self.forget()
        return messages

    def withdraw(self, request_id: object) -> Iterator[Event | WireReply]:
        """Handles `$/cancel_request`: a withdrawn request still needs a response."""
        if not isinstance(request_id, str | int | float):
            return
        key = RpcRequest(request_id, "", {}).key
        if early := self._early.pop(key, None):
            yield WireReply(self.refused(early))
        if request := self._open.pop(key, None):
            yield WireReply(self._peer.result(request.asked, self._withdrawn(request)))
            yield RequestAnswered(request_id=key, answer=Answer("deny"), by="withdrawn")

    def _withdrawn(self, request: _Open) -> Any:
        return request.asking.result(Answer("deny")) if request.asking else _CANCELLED

    def forget(self) -> None:
        """Clears all requests at the end of the turn."""
        self._open.clear()
        self._early.clear()
        self._denials.clear()

    def _outcome(self, request: _Open, answer: Answer) -> Table:
        id, option = request.options.get(answer.option, ("", None))
        if answer.input is not None and (option is None or option.kind != "deny"):
            self._refuse("does not accept changed input: the call was denied")
            id, option = request.options.get("deny", ("", None))
        elif option is None and answer.option != "deny":
            self._refuse("has no option to allow this once: the call was denied")
        if option is None or option.kind == "deny":
            self._calls.deny(request.call_id)
            if self._dialect.row.stops:
                self._denials.append(_denial(request.title, answer.note))
            if answer.note and (reported := self._dialect.denial(answer.note)):
                return {"outcome": {"outcome": "selected", "optionId": reported}}
        return {"outcome": {"outcome": "selected", "optionId": id}} if option else _CANCELLED

    def _refuse(self, why: str) -> None:
        title = self._dialect.row.title or self._dialect.row.name
        self._unreported.append(Notice(level="warning", kind="settings", text=f"{title} {why}"))


def _denial(title: str, note: str | None) -> str:
    return f"This was denied: {title}" + (f" ({note})" if note else "")


def _options(reported: list[Table]) -> dict[str, tuple[str, Option]]:
    """Options by our ids, in the agent's order; options of unknown kind are left out."""
    found: dict[str, tuple[str, Option]] = {}
    for one in reported:
        theirs, kind = text(one, "optionId"), _KINDS.get(text(one, "kind"))
        if kind is None:
            continue
        ours: str = kind
        if ours in found:
            taken = {"", *_KINDS.values(), *found}
            ours = f"{theirs}~{len(found)}" if theirs in taken else theirs
        found[ours] = theirs, Option(ours, text(one, "name") or theirs, kind)
    return found
