"""Permission requests and questions, and the answers to them.

What is offered is chosen by its kind: ids and order differ between agents. "allow" is the first
that allows once and "deny" the first that rejects once, whatever the agent calls them. Those that
would hold for ever are not offered: an agent writes them into files of its own, and asks no more.
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
    options: dict[str, tuple[str, Option]]  # our id -> the agent's id, and what we offered
    asking: AcpQuestions | None = None
    title: str = ""


class AcpRequests:
    """`untold`: where it is told of an answer that could not be given as it was."""

    def __init__(
        self, dialect: AcpDialect, peer: RpcPeer, calls: Calls, untold: list[Event]
    ) -> None:
        self._dialect = dialect
        self._peer = peer
        self._calls = calls
        self._open: dict[str, _Open] = {}
        self._early: dict[str, RpcRequest] = {}  # about calls that are still to be told
        self._denials: list[str] = []  # that the model does not hear of from the agent
        self._untold = untold

    def permission(self, asked: RpcRequest) -> Iterator[Event | WireReply]:
        """`session/request_permission`."""
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
        """What was asked about a call before its input was told."""
        for key, asked in list(self._early.items()):
            told = text(table(asked.params, "toolCall"), "toolCallId") == call_id
            if told and self._calls.begun(call_id):
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
        """For the model, once."""
        said, self._denials = "\n".join(self._denials), []
        return said

    def refused(self, asked: RpcRequest) -> Table:
        """Nobody is there to be asked."""
        return self._peer.result(asked, _CANCELLED)

    def is_open(self, asked: RpcRequest) -> bool:
        return asked.key in self._open or asked.key in self._early

    def cancel(self) -> list[Table]:
        """Nobody will answer any more; without this some agents never end the turn."""
        said = [self._peer.result(one.asked, self._withdrawn(one)) for one in self._open.values()]
        said += [self.refused(asked) for asked in self._early.values()]
        self.forget()
        return said

    def withdraw(self, request_id: object) -> Iterator[Event | WireReply]:
        """`$/cancel_request`: the agent waits no longer, but for the end of it."""
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
        """The turn is over, and what it asked with it."""
        self._open.clear()
        self._early.clear()
        self._denials.clear()

    def _outcome(self, request: _Open, answer: Answer) -> Table:
        id, option = request.options.get(answer.option, ("", None))
        if answer.input is not None and (option is None or option.kind != "deny"):
            self._refuse("takes no changed input: the call was denied")
            id, option = request.options.get("deny", ("", None))
        elif option is None and answer.option != "deny":
            self._refuse("offers no way to allow this once: the call was denied")
        if option is None or option.kind == "deny":
            self._calls.deny(request.call_id)
            if self._dialect.row.stops:
                self._denials.append(_denial(request.title, answer.note))
            if answer.note and (told := self._dialect.denial(answer.note)):
                return {"outcome": {"outcome": "selected", "optionId": told}}
        return {"outcome": {"outcome": "selected", "optionId": id}} if option else _CANCELLED

    def _refuse(self, why: str) -> None:
        title = self._dialect.row.title or self._dialect.row.name
        self._untold.append(Notice(level="warning", kind="settings", text=f"{title} {why}"))


def _denial(title: str, note: str | None) -> str:
    return f"This was not allowed: {title}" + (f" ({note})" if note else "")


def _options(told: list[Table]) -> dict[str, tuple[str, Option]]:
    """By our ids, in the agent's order; a kind from tomorrow is not for us to choose."""
    found: dict[str, tuple[str, Option]] = {}
    for one in told:
        theirs, kind = text(one, "optionId"), _KINDS.get(text(one, "kind"))
        if kind is None:
            continue
        ours: str = kind
        if ours in found:
            taken = {"", *_KINDS.values(), *found}
            ours = f"{theirs}~{len(found)}" if theirs in taken else theirs
        found[ours] = theirs, Option(ours, text(one, "name") or theirs, kind)
    return found
