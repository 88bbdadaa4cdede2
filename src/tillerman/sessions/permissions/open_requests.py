"""The open requests of one session: each is answered once, by policy, person or clock."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from msgspec import MsgspecError, convert, to_builtins
from msgspec.structs import replace

from tillerman.core.agent import AgentInfo
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
from tillerman.core.session_options import check_options
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

_TOO_MANY = Answer("deny", note="Too many requests are open already.")
MOST_OPEN = 1_000  # nobody answers as many, and each is kept until it is answered


class OpenRequests:
    """`answered` is called once for each, before anything else can happen to it.

    `recall` reads what earlier answers of the session still mean, when somebody first asks;
    `agent` tells who asks by now.
    """

    def __init__(
        self,
        policy: Policy,
        clocks: Timers,
        limit: float | None,
        answered: Answered,
        *,
        recall: Callable[[], SessionRules] = SessionRules,
        remembered: ProjectRules | None = None,
        agent: Callable[[], AgentInfo] = lambda: AgentInfo("", ""),
        rules_changed: Callable[[tuple[Rule, ...]], None] = lambda _: None,
    ) -> None:
        self._policy = policy
        self._clocks = clocks
        self.limit = limit
        self._answered = answered
        self._recall = recall
        self._recalled: SessionRules | None = None
        self._remembered = remembered
        self._agent = agent
        self._rules_changed = rules_changed
        self._rules: tuple[Rule, ...] = ()  # as they were last reported
        self._open: dict[str, Request] = {}
        self._naming = RequestIds()

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def ids(self) -> Collection[str]:
        return self._open.keys()

    def open(self, request: Request) -> Request:
        """As everybody but the agent knows it; before anyone can see it, so that nobody answers
        too early."""
        if earlier := self._naming.ours(request.request_id):
            self.settle(earlier, Answer("deny"), "withdrawn")  # the agent could not tell them apart
        taken = self._memory.names
        name = self._naming.name(request.request_id, taken)
        taken.add(name)
        request = replace(request, request_id=name)
        self._open[name] = request
        return request

    def theirs(self, request_id: str) -> str:
        """What the agent calls an open request, or one that is just being answered."""
        return self._naming.theirs(request_id)

    def decide(self, request: Request, context: DecisionContext) -> Decision | None:
        """What the policy says of it; None for a question, which is for a person."""
        if not isinstance(request, PermissionRequested):
            return None
        rules = self.remembered_rules()
        policy = self._policy.remembering(rules) if rules else self._policy
        return policy.decide(request, replace(context, agent=self._agent().name))

    def explained(self, request: Request, decision: Decision | None) -> Request:
        """With why a person is asked, where a rule of the user's or a guard asks."""
        if decision is None or not isinstance(request, PermissionRequested):
            return request
        guarded = decision.source != "tillerman" or decision.rule.startswith("guard.")
        if decision.verdict != "ask" or not guarded or not decision.note:
            return request
        reason = "; ".join(filter(None, (request.reason, decision.note)))
        explained = replace(request, reason=reason, title=visible(request.title))
        self._open[request.request_id] = explained
        return explained

    def judge(
        self, request: Request, context: DecisionContext, decision: Decision | None = None
    ) -> None:
        """The policy's answer, one that waited for this, or some time for a person's.

        `decision`: what the policy said of it just now.
        """
        waited = self._memory.asked(request)
        if self._settled_by(decision or self.decide(request, context), request):
            return
        if waited:
            answer = replace(waited.answer, remember=None)  # it is a rule already
            self.settle(request.request_id, answer, "person", waited.surface)
            return
        if len(self._open) > MOST_OPEN:
            self.settle(request.request_id, _TOO_MANY, "policy", "guard.requests")
            return
        clock = _clock_of(request.request_id)
        self._clocks.start(clock, self.limit, self._expire, request.request_id)

    def judge_by(self, policy: Policy, context: DecisionContext) -> None:
        """Another preset counts from now on."""
        self._policy = policy
        self.judge_again(context)

    def judge_again(self, context: DecisionContext) -> None:
        """There is a new rule: it answers what else is open."""
        for request in list(self._open.values()):
            self._settled_by(self.decide(request, context), request)

    def settle(self, request_id: str, answer: Answer, by: By, surface: str | None = None) -> None:
        """Closes the request, or says that somebody else was first."""
        request = self._open.get(request_id)
        if request is None:
            raise RequestNotOpen(request_id)
        answer = checked(request, answer)
        if answer.remember == "project" and self._remembered:
            assert isinstance(request, PermissionRequested)
            if rule := remembered_rule(request, answer):
                self._remembered.add(rule)
        del self._open[request_id]
        self._clocks.stop(_clock_of(request_id))
        event = RequestAnswered(request_id=request_id, answer=answer, by=by, surface=surface)
        self._memory.answered(request, event)
        if answer.remember:
            self.remembered_rules()
        self._answered(request, event)
        self._naming.drop(request_id)

    def forget(self, theirs: str) -> str | None:
        """The agent asks no longer, whatever it says was the answer. None: nobody asked."""
        name = self._naming.ours(theirs)
        if name is None:
            return None
        self._naming.drop(name)
        self._clocks.stop(_clock_of(name))
        del self._open[name]
        return name

    def forget_rule(self, told: str) -> None:
        """What the session always answered alike is asked from now on."""
        if not self._memory.forget(told):
            raise unknown_rule(told)
        self.remembered_rules()

    def withdraw_all(self) -> None:
        for request_id in list(self._open):
            self.settle(request_id, Answer("deny"), "withdrawn")

    def turn_ended(self, end: TurnEnded) -> None:
        self._memory.turn_ended(end)

    @property
    def _memory(self) -> SessionRules:
        if self._recalled is None:
            self._recalled = self._recall()
        return self._recalled

    def remembered_rules(self) -> tuple[Rule, ...]:
        """Answers that count as rules by now: of the session, then of the project."""
        rules = (*self._memory.rules, *(self._remembered.rules() if self._remembered else ()))
        if rules != self._rules:
            self._rules = rules
            self._rules_changed(rules)
        return rules

    def _settled_by(self, decision: Decision | None, request: Request) -> bool:
        """False: it is for a person."""
        if decision is None or decision.verdict == "ask":
            return False
        assert isinstance(request, PermissionRequested)
        self.settle(request.request_id, _told(decision, request), "policy", decision.rule)
        return True

    def _expire(self, request_id: str) -> None:
        self.settle(request_id, _late(self.limit), "timeout")


def checked(request: Request, answer: Answer) -> Answer:
    """The answer as the agent gets it; `UsageError` for what the request does not offer.

    An agent's own "always" is never chosen, for it writes files of the agent's and then asks no
    more: the agent gets "once", and the rule is ours.
    """
    _refuse_malformed(answer)
    if isinstance(request, QuestionAsked):
        if answer.remember:
            raise UsageError("the answer to a question cannot be remembered")
        if answer.option not in ("allow", "deny"):
            raise UsageError(
                f"question {request.request_id} has no option {answer.option!r}",
                hint="`allow` goes with the answers, `deny` answers none",
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
            "the agent takes no changed input",
            hint="deny it, and say what to do instead",
        )
    if answer.remember and remembered_rule(request, answer) is None:
        raise UsageError(
            f"request {request.request_id} does not say enough to be remembered",
            hint="answer it once, or write a rule of your own: `tillerman policy`",
        )
    if answer.remember and answer.input is not None:
        raise UsageError(
            "changed input cannot be remembered",
            hint="allow it once, or write a rule that rewrites it: `tillerman policy`",
        )
    return answer


def _refuse_malformed(answer: Answer) -> None:
    """Who answers through the Python API can put anything into an `Answer`."""
    check_options({"remember": answer.remember})
    try:
        convert(to_builtins(answer), Answer)
    except (MsgspecError, TypeError) as error:
        raise UsageError(f"this is no answer: {error}", hint="Answer(option, note=…)") from None


def unknown_rule(told: str) -> UsageError:
    return UsageError(
        f"the session has no rule that says: {told}",
        hint="`tillerman requests remembered --session ID` shows them",
    )


def of_itself(event: RequestAnswered, name: str) -> RequestAnswered:
    """What an agent says of an answer counts for this request alone."""
    answer = replace(event.answer, remember=None)
    return replace(event, request_id=name, answer=answer, waits=False)


def ends_planning(request: Request, answer: Answer) -> bool:
    is_the_plan = isinstance(request, PermissionRequested) and request.tool == "ExitPlanMode"
    return is_the_plan and not denies(request, answer)


def _told(decision: Decision, request: PermissionRequested) -> Answer:
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
    return Answer(
        "deny", note=f"Nobody answered within {time}, so this was denied. Go on without it."
    )


def _clock_of(request_id: str) -> str:
    """Not the bare id: an agent chooses it, and could stop a clock of ours."""
    return f"request {request_id}"
