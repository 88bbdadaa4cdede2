"""Between an agent that asks and whoever answers: its requests go in, the answers go back."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from bridle.core.events import Notice, PermissionRequested, QuestionAsked, RequestAnswered
from bridle.sessions.bearing import Bearing
from bridle.sessions.connection import Connection
from bridle.sessions.gate import Gate
from bridle.sessions.recollection import Request
from bridle.sessions.requests import Answered, Requests, ends_planning, of_itself
from bridle.sessions.scribe import Scribe


class Liaison:
    """`later` does what must not be waited for; `settled` is called when one waits no longer."""

    def __init__(
        self,
        requests: Callable[[Answered], Requests],
        gate: Gate,
        line: Connection,
        log: Scribe,
        bearing: Bearing,
        *,
        later: Callable[[Coroutine[Any, Any, None]], object],
        settled: Callable[[], None],
    ) -> None:
        self.requests = requests(self._answered)
        self._gate = gate
        self._line = line
        self._log = log
        self._bearing = bearing
        self._later = later
        self._settled = settled

    def ask(self, event: PermissionRequested | QuestionAsked, raw: bytes | None) -> None:
        request = self.requests.open(event)
        self._log.write(request, raw)
        self.requests.judge(request, self._bearing.context)

    def settle(self, event: RequestAnswered, raw: bytes | None) -> None:
        """The agent says so itself."""
        if name := self.requests.forget(event.request_id):
            self._log.write(of_itself(event, name), raw)
        else:
            text = f"the agent says of request {event.request_id} that it was settled already"
            self._log.write(Notice(level="info", kind="stray", text=text), raw)

    def _answered(self, request: Request, event: RequestAnswered) -> None:
        self._log.say(event)
        self._gate.answered(request, event)
        if event.by != "withdrawn" and self._line.conversation:
            theirs = self.requests.theirs(event.request_id)
            self._later(self._line.conversation.answer(theirs, event.answer))
        if ends_planning(request, event.answer):
            self._bearing.set_mode("agent")
        if event.answer.remember:
            self.requests.judge_again(self._bearing.context)
        self._settled()
