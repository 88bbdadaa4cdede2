"""Builds the parts of a live session that the runner hands its events to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from tillerman.core.agent import Agent, DecodedLine, Host, SessionSpec
from tillerman.core.errors import TillermanError
from tillerman.core.events import Entry, TurnEnded
from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.sessions.agent.connection import AgentConnection
from tillerman.sessions.agent.live_settings import LiveSettings
from tillerman.sessions.fallback.handover import Handover
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.fallback.retry_monitor import RetryWatch
from tillerman.sessions.fallback.turn_snapshot import TurnSnapshot
from tillerman.sessions.limits.enforcer import LimitEnforcer
from tillerman.sessions.limits.timers import Timers
from tillerman.sessions.limits.usage_meter import UsageMeter
from tillerman.sessions.log.appender import LogAppender
from tillerman.sessions.log.attachment_indexer import AttachmentIndexer
from tillerman.sessions.log.event_writer import EventWriter, TurnNumbers
from tillerman.sessions.log.sanitizer import EventSanitizer
from tillerman.sessions.output_schema_check import AnswerCheck
from tillerman.sessions.permissions.bypass_detector import BypassDetector
from tillerman.sessions.permissions.open_requests import OpenRequests
from tillerman.sessions.permissions.project_rules import ProjectRules
from tillerman.sessions.permissions.request_broker import RequestBroker
from tillerman.sessions.permissions.session_rules import SessionRules
from tillerman.sessions.program_callbacks import ProgramCallbacks
from tillerman.sessions.run_settings import LaunchPlan, RunSettings
from tillerman.sessions.runner.background_tasks import BackgroundTasks
from tillerman.sessions.runner.prompt_check import PromptCheck
from tillerman.sessions.runner.until_check import AfterTurn, UntilCheck

if TYPE_CHECKING:
    from tillerman.config.model_table import Models
    from tillerman.sessions.enforcement.settings import SessionEnforcement


class Notified(Protocol):
    """What happens outside of any call of the runner: in other tasks, by timers, in the store."""

    async def agent_output(self, batch: Sequence[DecodedLine]) -> None: ...
    async def agent_lost(self, end: TurnEnded) -> None: ...
    def agent_opened(self, agent: Agent, spec: SessionSpec) -> None: ...
    def timer_expired(self, name: str) -> None: ...
    def task_failed(self, error: TillermanError) -> None: ...
    def request_resolved(self) -> None: ...
    def store_failed(self) -> None: ...


@dataclass(frozen=True)
class LogParts:
    """The log of the session: its stages, and its entries so far."""

    appender: LogAppender
    sanitizer: EventSanitizer
    indexer: AttachmentIndexer
    history: Callable[[], Iterable[Entry]]
    last_turn: int


@dataclass(frozen=True)
class PermissionParts:
    """How requests of the session are decided."""

    policy: Callable[[str], Policy]  # by preset
    context: DecisionContext
    recall: Callable[[], SessionRules]
    remembered: ProjectRules
    rules_changed: Callable[[Sequence[Rule]], None] = lambda _: None


@dataclass(frozen=True)
class Collaborators:
    connection: AgentConnection
    settings: LiveSettings
    turns: TurnNumbers
    sanitizer: EventSanitizer
    log: EventWriter
    meter: UsageMeter
    timers: Timers
    limits: LimitEnforcer
    bypass: BypassDetector
    broker: RequestBroker
    policy: Callable[[str], Policy]
    fallback: FallbackPolicy
    retries: RetryWatch
    snapshot: TurnSnapshot
    handover: Handover
    tasks: BackgroundTasks
    prompt_check: PromptCheck
    until: UntilCheck
    answer: AnswerCheck | None
    callbacks: ProgramCallbacks
    enforcement: SessionEnforcement | None

    @property
    def requests(self) -> OpenRequests:
        return self.broker.requests


def build(
    plan: LaunchPlan,
    runner: Notified,
    *,
    host: Callable[[RunSettings], Host],
    native_id: str | None,
    log: LogParts,
    permissions: PermissionParts,
    fallback: FallbackPolicy,
    enforcement: SessionEnforcement | None,
) -> Collaborators:
    run_settings, cwd = plan.run_settings, plan.spec.cwd
    connection = AgentConnection(
        plan,
        native_id,
        host,
        received=runner.agent_output,
        lost=runner.agent_lost,
        opened=runner.agent_opened,
    )
    turns = TurnNumbers(log.last_turn)
    writer = EventWriter(log.appender, log.sanitizer, log.indexer, turns, log.history)
    log.appender.on_failure = runner.store_failed
    models = cache(partial(_models, run_settings))
    meter = UsageMeter(run_settings.limits, models)
    settings = LiveSettings(permissions.context, connection, writer, models)
    timers = Timers(runner.timer_expired)
    snapshot = TurnSnapshot(cwd)
    tasks = BackgroundTasks(runner.task_failed)
    bypass = BypassDetector()
    callbacks = ProgramCallbacks(run_settings.callbacks, run_settings.limits.request)
    after_turn = _after_turn(callbacks, log, writer)
    requests = partial(
        OpenRequests,
        permissions.policy(run_settings.approve),
        timers,
        run_settings.limits.request,
        recall=permissions.recall,
        remembered=permissions.remembered,
        rules_changed=permissions.rules_changed,
    )
    return Collaborators(
        connection=connection,
        settings=settings,
        turns=turns,
        sanitizer=log.sanitizer,
        log=writer,
        meter=meter,
        timers=timers,
        limits=LimitEnforcer(run_settings.limits, meter, timers),
        bypass=bypass,
        broker=RequestBroker(
            requests,
            bypass,
            connection,
            writer,
            settings,
            callbacks,
            later=tasks.start,
            settled=runner.request_resolved,
        ),
        policy=permissions.policy,
        fallback=fallback,
        retries=RetryWatch(fallback),
        snapshot=snapshot,
        handover=Handover(connection, fallback, snapshot, meter, writer, run_settings),
        tasks=tasks,
        prompt_check=PromptCheck(run_settings.vet, callbacks, cwd, connection),
        until=UntilCheck(run_settings.until, after_turn, cwd, connection),
        callbacks=callbacks,
        answer=AnswerCheck(run_settings.answer, writer.last_message)
        if run_settings.answer
        else None,
        enforcement=enforcement,
    )


def _after_turn(
    callbacks: ProgramCallbacks, log: LogParts, writer: EventWriter
) -> AfterTurn | None:
    """Calls the program with the result of the turn that has just ended."""
    if (callback := callbacks.after_turn) is None:
        return None

    async def after_turn() -> str | None:
        from tillerman.core.transcript.transcript import fold
        from tillerman.core.transcript.turn_result import result

        await writer.appender.durable()
        transcript = fold(log.history())
        return await callback(result(transcript, transcript.turns[-1]))

    return after_turn


def _models(run_settings: RunSettings) -> Models:
    from tillerman.config.model_table import load_models  # lazy: few report tokens without cost

    return load_models(run_settings.models)
