"""Broker between requests and answers: opens requests, resolves them, returns the answers.

Tool calls that run beside the agent in its session also request approval here, and are recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from msgspec.structs import replace

from tillerman.core.errors import UsageError
from tillerman.core.events import (
    Answer,
    Event,
    Notice,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
)
from tillerman.core.permission import Decision
from tillerman.sessions.agent.connection import AgentConnection
from tillerman.sessions.agent.live_settings import LiveSettings
from tillerman.sessions.log.event_writer import EventWriter
from tillerman.sessions.permissions.bypass_detector import BypassDetector
from tillerman.sessions.permissions.open_requests import (
    Answered,
    By,
    OpenRequests,
    ends_planning,
    of_itself,
)
from tillerman.sessions.permissions.session_rules import Request, denies
from tillerman.sessions.program_callbacks import CallbackOutcome, ProgramCallbacks

Ask = Callable[[PermissionRequested], Awaitable[Answer | None]]

MOST_CALLS = 1_000  # an agent may start any number


class RequestBroker:
    """Passes requests of the agent and of workspace tools to `OpenRequests`, and answers back.

    `callbacks` are asked before the policy, and before a user. `later` runs a task in the
    background; `settled` is called when a request is resolved.
    """

    def __init__(
        self,
        requests: Callable[[Answered], OpenRequests],
        bypass: BypassDetector,
        connection: AgentConnection,
        log: EventWriter,
        settings: LiveSettings,
        callbacks: ProgramCallbacks,
        *,
        later: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        settled: Callable[[], None],
    ) -> None:
        self.requests = requests(self._answered)
        self._bypass = bypass
        self._connection = connection
        self._log = log
        self._settings = settings
        self._callbacks = callbacks
        self._later = later
        self._resolved = settled
        self._consulted: dict[str, asyncio.Future[Answer]] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}  # running callbacks, by request
        self.mcp_calls: dict[str, ToolStarted] = {}  # running calls of MCP servers

    def observe(self, event: Event) -> None:
        """Follows the running calls of MCP servers."""
        match event:
            case ToolStarted(tool="MCP", call_id=call_id) if len(self.mcp_calls) < MOST_CALLS:
                self.mcp_calls[call_id] = event
            case ToolFinished(call_id=call_id):
                self.mcp_calls.pop(call_id, None)

    def caller_of(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """The agent's call behind this workspace tool call, if the agent reported one."""
        for call_id, call in self.mcp_calls.items():
            if call.name.endswith(tool) and call.input == arguments:
                del self.mcp_calls[call_id]
                return call_id
        return None

    def decide(self, event: PermissionRequested) -> Decision | None:
        """Returns the policy's decision, without opening a request."""
        return self.requests.decide(event, self._settings.context)

    async def ask_for_tool(self, event: PermissionRequested, ask: Ask | None = None) -> Answer:
        """Requests approval for a tool call beside the agent, and waits for the answer.

        `ask` is an additional way to ask a user, specific to the caller.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        request, decision = self._opened(event)
        self._consulted[request.request_id] = answer
        self._log.write_own(request, more_follows=True)
        self._decide(request, decision)
        asking = None
        if ask and not answer.done():
            asking = asyncio.ensure_future(self._ask(ask, event, request.request_id))
        try:
            return await answer
        except asyncio.CancelledError:
            if request.request_id in self.requests.ids:
                self.requests.resolve(request.request_id, Answer("deny"), "withdrawn")
            raise
        finally:
            if asking:
                asking.cancel()

    async def _ask(self, ask: Ask, event: PermissionRequested, request_id: str) -> None:
        reported = await ask(event)
        if reported is None or request_id not in self.requests.ids:
            return
        try:
            self.requests.resolve(request_id, reported, "person", "mcp")
        except UsageError:  # it cannot be remembered
            self.requests.resolve(request_id, replace(reported, remember=None), "person", "mcp")

    def record(self, event: Event, *, more_follows: bool = False) -> None:
        """Records an event that does not come from the agent."""
        self._log.record(event, more_follows=more_follows)
        self._resolved()

    def agent_asked(self, event: PermissionRequested | QuestionAsked, raw: bytes | None) -> None:
        changeable = "changed_input" in self._connection.agent.info.can
        if isinstance(event, PermissionRequested) and not changeable:
            event = replace(event, changeable=False)
        request, decision = self._opened(event)
        self._log.write(request, raw)
        self._decide(request, decision)

    def _decide(self, request: Request, decision: Decision | None) -> None:
        """Has the request answered by the program's check, the policy, the program, or a user."""
        if not isinstance(request, PermissionRequested) or not self._callbacks.checks_calls:
            self._resolve_or_wait(request, decision)
        elif decision is None or decision.verdict != "deny":
            self.requests.hold(request.request_id)
            self._call_back(request, self._check(request))
        else:
            self._resolve_or_wait(request, decision)

    def _resolve_or_wait(self, request: Request, decision: Decision | None) -> None:
        self.requests.resolve_or_wait(request, self._settings.context, decision)
        if request.request_id in self.requests.ids and self._callbacks.answers(request):
            self._call_back(request, self._answer(request))

    async def _check(self, request: PermissionRequested) -> None:
        """`before_call`: its denial counts; its approval counts unless a rule denies the call."""
        outcome = await self._callbacks.before_call(request)
        if request.request_id not in self.requests.ids:
            return
        self.requests.release(request.request_id)
        decision = self.decide(request)  # again: the preset or the rules may have changed
        if outcome.answer is None or (decision and decision.verdict == "deny"):
            self._resolve_or_wait(request, decision)
        else:
            self._resolve(request, outcome, "policy", "before_call")

    async def _answer(self, request: Request) -> None:
        outcome = await self._callbacks.answer(request)
        if outcome.answer and request.request_id in self.requests.ids:
            self._resolve(request, outcome, "person", "callback")

    def _resolve(self, request: Request, outcome: CallbackOutcome, by: By, surface: str) -> None:
        """Resolves the request by the answer of a callback; an invalid answer denies it.

        So does one that changes the call to what a rule denies.
        """
        assert outcome.answer
        notice = outcome.notice
        try:
            answer = self._permitted(request, outcome.answer)
            self.requests.resolve(request.request_id, answer, by, surface)
        except UsageError as error:
            text = f"{surface} returned an answer that cannot be used: {error.message}"
            notice = Notice(level="error", kind="session", text=text)
            self.requests.resolve(request.request_id, Answer("deny", note=text), by, surface)
        if notice:
            self._log.write_own(notice)

    def _permitted(self, request: Request, answer: Answer) -> Answer:
        if answer.input is None or isinstance(request, QuestionAsked) or denies(request, answer):
            return answer
        changed = self.decide(replace(request, input=answer.input, paths=()))
        if changed and changed.verdict == "deny":
            return Answer("deny", note=changed.note)
        return answer

    def _call_back(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        name = request.request_id
        task = self._asked[name] = self._later(work)
        task.add_done_callback(lambda done: self._call_ended(name, done))

    def _call_ended(self, request_id: str, task: asyncio.Task[None]) -> None:
        if self._asked.get(request_id) is task:
            del self._asked[request_id]

    def _opened(self, event: Request) -> tuple[Request, Decision | None]:
        """Opens the request; returns it with the reason for asking, and the policy's decision."""
        request = self.requests.open(event)
        decision = self.requests.decide(request, self._settings.context)
        return self.requests.explained(request, decision), decision

    def agent_resolved(self, event: RequestAnswered, raw: bytes | None) -> None:
        """Resolves a request that the agent reports as answered."""
        if name := self.requests.forget(event.request_id):
            self._cancel_callback(name)
            self._log.write(of_itself(event, name), raw)
        else:
            text = f"the agent resolved request {event.request_id}, which was already resolved"
            self._log.write(Notice(level="info", kind="stray", text=text), raw)

    def _cancel_callback(self, request_id: str) -> None:
        """Cancels the callback of a request that was answered elsewhere."""
        task = self._asked.pop(request_id, None)
        if task and task is not asyncio.current_task():
            task.cancel()

    def _answered(self, request: Request, event: RequestAnswered) -> None:
        self._cancel_callback(event.request_id)
        self._log.write_own(event, more_follows=event.request_id in self._consulted)
        if consulted := self._consulted.pop(event.request_id, None):
            if not consulted.done():
                consulted.set_result(event.answer)
        else:
            self._pass_on(request, event)
        if ends_planning(request, event.answer):
            self._settings.set_mode("agent")
        if event.answer.remember:
            self.requests.decide_again(self._settings.context)
        self._resolved()

    def _pass_on(self, request: Request, event: RequestAnswered) -> None:
        self._bypass.answered(request, event)
        if event.by != "withdrawn" and self._connection.conversation:
            theirs = self.requests.vendor_id(event.request_id)
            self._later(self._connection.conversation.answer(theirs, event.answer))
