"""The open requests of one session: each is answered once, by policy, person or clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from bridle.core.errors import RequestNotOpen, UsageError
from bridle.core.events import Answer, PermissionRequested, QuestionAsked, RequestAnswered
from bridle.core.permission import Context, Policy
from bridle.sessions.clocks import Clocks

Request = PermissionRequested | QuestionAsked
By = Literal["policy", "person", "timeout", "withdrawn"]

_LATE = Answer("deny", note="Nobody answered in time.")
_TOO_MANY = Answer("deny", note="Too many requests are open already.")
MOST_OPEN = 1_000  # nobody answers as many, and each is kept until it is answered


class Requests:
    """`answered` is called once for each, before anything else can happen to it."""

    def __init__(
        self,
        policy: Policy,
        clocks: Clocks,
        limit: float | None,
        answered: Callable[[Request, RequestAnswered], None],
    ) -> None:
        self._policy = policy
        self._clocks = clocks
        self._limit = limit
        self._answered = answered
        self._open: dict[str, Request] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def open(self, request: Request) -> None:
        """Before anyone can see it, so that nobody answers too early."""
        if request.request_id in self._open:  # an answer must not be taken for another's
            self.settle(request.request_id, Answer("deny"), "withdrawn")
        self._open[request.request_id] = request

    def judge(self, request: Request, context: Context) -> None:
        """The policy's answer, or some time for a person's."""
        if isinstance(request, PermissionRequested):
            decision = self._policy.decide(request, context)
            if decision.verdict != "ask":
                note = decision.note if decision.verdict == "deny" else None
                answer = Answer(decision.verdict, note=note)
                self.settle(request.request_id, answer, "policy", decision.rule)
                return
        if len(self._open) > MOST_OPEN:
            self.settle(request.request_id, _TOO_MANY, "policy", "guard.requests")
            return
        clock = _clock_of(request.request_id)
        self._clocks.start(
            clock, self._limit, self.settle, request.request_id, _LATE, "timeout", None
        )

    def settle(self, request_id: str, answer: Answer, by: By, surface: str | None = None) -> None:
        """Closes the request, or says that somebody else was first."""
        request = self._open.get(request_id)
        if request is None:
            raise RequestNotOpen(request_id)
        _refuse_what_is_not_offered(request, answer)
        self.forget(request_id)
        self._answered(
            request, RequestAnswered(request_id=request_id, answer=answer, by=by, surface=surface)
        )

    def forget(self, request_id: str) -> None:
        """The agent asks no longer, whatever it says was the answer."""
        self._open.pop(request_id, None)
        self._clocks.stop(_clock_of(request_id))

    def withdraw_all(self) -> None:
        for request_id in list(self._open):
            self.settle(request_id, Answer("deny"), "withdrawn")


def ends_planning(request: Request, answer: Answer) -> bool:
    is_the_plan = isinstance(request, PermissionRequested) and request.tool == "ExitPlanMode"
    return is_the_plan and _allows(request, answer)


def _allows(request: Request, answer: Answer) -> bool:
    """By the kind of the option that was chosen: agents name theirs as they like."""
    if isinstance(request, PermissionRequested):
        for option in request.options:
            if option.id == answer.option:
                return option.kind != "deny"
    return answer.option != "deny"


def _refuse_what_is_not_offered(request: Request, answer: Answer) -> None:
    if isinstance(request, QuestionAsked):
        return
    offered = {option.id for option in request.options}
    if answer.option not in offered | {"allow", "deny"}:
        raise UsageError(
            f"request {request.request_id} has no option {answer.option!r}",
            hint=f"it offers: {', '.join(sorted(offered))}",
        )


def _clock_of(request_id: str) -> str:
    """Not the bare id: an agent chooses it, and could stop a clock of ours."""
    return f"request {request_id}"
