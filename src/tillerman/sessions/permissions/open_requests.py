"""Open requests of one session: each is answered once, by policy, user or timeout."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from msgspec.structs import replace

from tillerman.core.errors import RequestNotOpen, UsageError
from tillerman.core.events import (
    Answer,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    TurnEnded,
)
from tillerman.core.permission import Decision, DecisionContext, Policy, Rule
from tillerman.core.permission.denial_note import denial_note
from tillerman.core.permission.hidden_characters import visible
from tillerman.core.session_options import check_answer
from tillerman.sessions.limits.timers import Timers
from tillerman.sessions.permissions.project_rules import ProjectRules
from tillerman.sessions.permissions.request_ids import RequestIds
from tillerman.sessions.permissions.session_rules import (
    Request,
    SessionRules,
    denies,
    remembered_rule,
)

By = Literal["policy", "person", "timeout", "withdrawn"]
Answered = Callable[[Request, RequestAnswered], None]

_TOO_MANY = Answer("deny", note="Too many open requests.")
REQUEST_TIMER = "request "  # begins the names of the timers of requests
MOST_OPEN = 1_000  # no user answers that many, and each is stored until then


class OpenRequests:
    """The open requests of a session.

    `answered` is called once per request, before anything else can happen to it. `recall` reads the
    rules from earlier answers of the session, at the first request.
    """

    def __init__(
        self,
        policy: Policy,
        timers: Timers,
        limit: float | None,
        answered: Answered,
        *,
        recall: Callable[[], SessionRules] = SessionRules,
        remembered: ProjectRules | None = None,
        rules_changed: Callable[[tuple[Rule, ...]], None] = lambda _: None,
    ) -> None:
        self._policy = policy
        self._timers = timers
        self.limit = limit
        self._answered = answered
        self._recall = recall
        self._recalled: SessionRules | None = None
        self._remembered = remembered
        self._rules_changed = rules_changed
        self._rules: tuple[Rule, ...] = ()  # as last reported
        self.unanswered: dict[str, Request] = {}  # by public id
        self._held: set[str] = set()  # by a check of the program, which must answer first
        self._naming = RequestIds()

    @property
    def ids(self) -> Collection[str]:
        return self.unanswered.keys()

    def open(self, request: Request) -> Request:
        """Registers the request under a public id. Must run before the event is published."""
        if earlier := self._naming.public_id(request.request_id):
            self.resolve(earlier, Answer("deny"), "withdrawn")  # the agent cannot distinguish them
        taken = self._memory.names
        name = self._naming.name(request.request_id, taken)
        taken.add(name)
        request = replace(request, request_id=name)
        self.unanswered[name] = request
        return request

    def vendor_id(self, request_id: str) -> str:
        """The agent's id of a request that is open or just being answered."""
        return self._naming.vendor_id(request_id)

    def decide(self, request: Request, context: DecisionContext) -> Decision | None:
        """Returns the policy's decision; None for a question, which only a user can answer."""
        if not isinstance(request, PermissionRequested):
            return None
        rules = self.remembered_rules()
        policy = self._policy.remembering(rules) if rules else self._policy
        return policy.decide(request, context)

    def explained(self, request: Request, decision: Decision | None) -> Request:
        """Adds the reason to the request if a user's rule or a guard requires asking."""
        if decision is None or not isinstance(request, PermissionRequested):
            return request
        guarded = decision.source != "tillerman" or decision.rule.startswith("guard.")
        if decision.verdict != "ask" or not guarded or not decision.note:
            return request
        reason = "; ".join(filter(None, (request.reason, decision.note)))
        explained = replace(request, reason=reason, title=visible(request.title))
        self.unanswered[request.request_id] = explained
        return explained

    def resolve_or_wait(
        self, request: Request, context: DecisionContext, decision: Decision | None = None
    ) -> None:
        """Resolves by the policy or a stored answer; else starts the timeout for a user's answer.

        `decision`: the policy's decision, if it is already known.
        """
        waited = self._memory.asked(request)
        if self._resolved_by(decision or self.decide(request, context), request):
            return
        if waited:
            answer = replace(waited.answer, remember=None)  # it is already a rule
            self.resolve(request.request_id, answer, "person", waited.surface)
            return
        if len(self.unanswered) > MOST_OPEN:
            self.resolve(request.request_id, _TOO_MANY, "policy", "guard.requests")
            return
        self._timers.start(_timer_of(request.request_id), self.limit)

    def hold(self, request_id: str) -> None:
        """Lets nobody but the timeout answer the request until it is released."""
        self._held.add(request_id)
        self._timers.start(_timer_of(request_id), self.limit)

    def release(self, request_id: str) -> None:
        self._held.discard(request_id)
        self._timers.stop(_timer_of(request_id))

    def apply_policy(self, policy: Policy, context: DecisionContext) -> None:
        """Applies another preset from now on."""
        self._policy = policy
        self.decide_again(context)

    def decide_again(self, context: DecisionContext) -> None:
        """Applies a new rule to the other open requests."""
        for request in [r for r in self.unanswered.values() if r.request_id not in self._held]:
            self._resolved_by(self.decide(request, context), request)

    def resolve(self, request_id: str, answer: Answer, by: By, surface: str | None = None) -> None:
        """Resolves and closes the request; raises `RequestNotOpen` if it is already resolved."""
        request = self.unanswered.get(request_id)
        if request is None:
            raise RequestNotOpen(request_id)
        if by == "person" and request_id in self._held:
            raise UsageError(
                f"request {request_id} is being checked by the program that runs the session",
                hint="answer it again when that check has ended",
            )
        answer = checked(request, answer)
        if answer.remember == "project" and self._remembered:
            assert isinstance(request, PermissionRequested)
            if rule := remembered_rule(request, answer):
                self._remembered.add(rule)
        del self.unanswered[request_id]
        self._held.discard(request_id)
        self._timers.stop(_timer_of(request_id))
        event = RequestAnswered(request_id=request_id, answer=answer, by=by, surface=surface)
        self._memory.answered(request, event)
        if answer.remember:
            self.remembered_rules()
        self._answered(request, event)
        self._naming.drop(request_id)

    def forget(self, theirs: str) -> str | None:
        """Drops a request that the agent withdrew or resolved itself. None: it is not open."""
        name = self._naming.public_id(theirs)
        if name is None:
            return None
        self._naming.drop(name)
        self._timers.stop(_timer_of(name))
        self._held.discard(name)
        del self.unanswered[name]
        return name

    def forget_rule(self, rule: str) -> None:
        """Removes a rule of the session, so that requests it answered are asked again."""
        if not self._memory.forget(rule):
            raise unknown_rule(rule)
        self.remembered_rules()

    def withdraw_all(self) -> None:
        for request_id in list(self.unanswered):
            self.resolve(request_id, Answer("deny"), "withdrawn")

    def turn_ended(self, end: TurnEnded) -> None:
        self._memory.turn_ended(end)

    @property
    def _memory(self) -> SessionRules:
        if self._recalled is None:
            self._recalled = self._recall()
        return self._recalled

    def remembered_rules(self) -> tuple[Rule, ...]:
        """Remembered rules: of the session, then of the project."""
        rules = (*self._memory.rules, *(self._remembered.rules() if self._remembered else ()))
        if rules != self._rules:
            self._rules = rules
            self._rules_changed(rules)
        return rules

    def _resolved_by(self, decision: Decision | None, request: Request) -> bool:
        """Resolves by the decision; False if a user must decide."""
        if decision is None or decision.verdict == "ask":
            return False
        assert isinstance(request, PermissionRequested)
        self.resolve(request.request_id, _answer_of(decision, request), "policy", decision.rule)
        return True

    def expired(self, timer: str) -> None:
        """Denies the request whose timer ran out."""
        self.resolve(timer.removeprefix(REQUEST_TIMER), _late(self.limit), "timeout")


def checked(request: Request, answer: Answer) -> Answer:
    """Returns the answer as sent to the agent; `UsageError` for an option that is not offered.

    An agent's native "always" is never chosen, since the agent would write it to its own files and
    stop asking: the agent gets "once", and tillerman stores the rule.
    """
    check_answer(answer)
    if isinstance(request, QuestionAsked):
        if answer.remember:
            raise UsageError(
                "the answer to a question cannot be remembered", hint="answer it without `remember`"
            )
        if answer.option not in ("allow", "deny"):
            raise UsageError(
                f"question {request.request_id} has no option {answer.option!r}",
                hint="use `allow` with the answers, or `deny`",
            )
        return answer
    offered = {option.id: option.kind for option in request.options}
    if answer.option not in offered.keys() | {"allow", "deny"}:
        raise UsageError(
            f"request {request.request_id} has no option {answer.option!r}",
            hint=f"it offers: {', '.join(sorted(offered))}",
        )
    if offered.get(answer.option) == "always":
        once = next((id for id, kind in offered.items() if kind == "allow"), "allow")
        answer = replace(answer, option=once, remember=answer.remember or "session")
    if answer.input is not None and not request.changeable:
        raise UsageError(
            "the agent does not accept changed input",
            hint="deny it with a note that says what to do instead",
        )
    if answer.remember and remembered_rule(request, answer) is None:
        raise UsageError(
            f"request {request.request_id} is not specific enough to be remembered",
            hint="answer it once, or write a rule: see `tillerman policy`",
        )
    if answer.remember and answer.input is not None:
        raise UsageError(
            "changed input cannot be remembered",
            hint="allow it once, or write a rule that rewrites it: see `tillerman policy`",
        )
    return answer


def unknown_rule(rule: str) -> UsageError:
    return UsageError(
        f"the session has no such rule: {rule}",
        hint="`tillerman requests remembered --session ID` lists them",
    )


def of_itself(event: RequestAnswered, name: str) -> RequestAnswered:
    """Limits an answer that the agent reports to this request: no rule, nothing stored."""
    answer = replace(event.answer, remember=None)
    return replace(event, request_id=name, answer=answer, waits=False)


def ends_planning(request: Request, answer: Answer) -> bool:
    is_the_plan = isinstance(request, PermissionRequested) and request.tool == "ExitPlanMode"
    return is_the_plan and not denies(request, answer)


def _answer_of(decision: Decision, request: PermissionRequested) -> Answer:
    match decision.verdict:
        case "allow":
            return Answer("allow")
        case "rewrite" if request.changeable:
            return Answer("allow", input=decision.input)
        case "rewrite":
            return Answer("deny", note=denial_note(decision, request))
    return Answer("deny", note=decision.note)


def _late(limit: float | None) -> Answer:
    time = f"{limit / 60:.0f} minutes" if limit and limit >= 120 else f"{limit:g} seconds"
    return Answer("deny", note=f"No answer within {time}, so this was denied. Continue without it.")


def _timer_of(request_id: str) -> str:
    """A prefixed timer name: the agent chooses the id, and could stop another timer with it."""
    return f"{REQUEST_TIMER}{request_id}"
