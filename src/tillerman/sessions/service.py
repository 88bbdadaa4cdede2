"""Session service: starts, resumes, attaches, recovers, finds and deletes sessions."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec

from msgspec.structs import replace

from tillerman.core.agent import Agent, SessionSpec
from tillerman.core.errors import SessionBusy, TillermanError
from tillerman.core.events import encode
from tillerman.core.session_options import check_required
from tillerman.core.timestamps import rfc3339
from tillerman.paths import Paths, private_folder
from tillerman.sessions.lease import SessionLease
from tillerman.sessions.prestart import Prestart, launch_warden, new_session
from tillerman.sessions.remote.owner_socket import OwnerClient
from tillerman.sessions.run_settings import LaunchPlan, RunSettings, known_secrets
from tillerman.sessions.session import AttachedSession, Session, read_all, to_the_end
from tillerman.store.attachments import AttachmentStore
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.group_commit import Storage
from tillerman.store.process_table import ProcessTable
from tillerman.store.search import Search
from tillerman.store.session_row import SessionRow

if TYPE_CHECKING:
    from tillerman.core.permission import Rule
    from tillerman.sessions.fallback.policy import FallbackPolicy
    from tillerman.sessions.permissions.project_rules import ProjectRules
    from tillerman.sessions.permissions.session_rules import SessionRules
    from tillerman.sessions.python_tool_servers import PythonToolServers, ServeFunctions
    from tillerman.sessions.recovery import Recovery
    from tillerman.sessions.request_watch import Change
    from tillerman.sessions.warm.warm_agents import WarmAgents
    from tillerman.sessions.workspace_tools.tool_offer import ServeTools, ToolOffer
    from tillerman.supervision.protocol.launch_warden import Launched
    from tillerman.workspace.protection.protected_state import State


P = ParamSpec("P")


async def _closed(starting: asyncio.Future[Session]) -> None:
    [session] = await asyncio.gather(starting, return_exceptions=True)
    if isinstance(session, Session):
        await session.close()


def _undivided(
    start: Callable[P, Coroutine[Any, Any, Session]],
) -> Callable[P, Coroutine[Any, Any, Session]]:
    """A start that is cancelled goes on to its end, and what it started is closed."""

    @wraps(start)
    async def started(*arguments: P.args, **options: P.kwargs) -> Session:
        starting = asyncio.ensure_future(start(*arguments, **options))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await to_the_end(_closed(starting))
            raise

    return started


class Sessions:
    """All sessions of the user.

    `serve_tools` serves a connection to a session's workspace tools, `serve_functions` one to its
    Python functions.
    """

    def __init__(
        self,
        paths: Paths,
        database: Database,
        serve_tools: ServeTools | None = None,
        serve_functions: ServeFunctions | None = None,
    ) -> None:
        self._paths = paths
        self._database = database
        self.catalog = Catalog(database)
        self.log = EventLog(database)
        self.search = Search(database)
        self.attachments = AttachmentStore(database)
        self.processes = ProcessTable(database)
        self._serve_tools = serve_tools
        self._serve_functions = serve_functions
        self._open: set[Session] = set()
        self._warm: WarmAgents | None = None

    # -- running ---------------------------------------------------------------------------------

    @_undivided
    async def start(
        self,
        agent: Agent,
        spec: SessionSpec,
        run_settings: RunSettings,
        *,
        title: str | None = None,
        head: Prestart | None = None,
        fallback: FallbackPolicy | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> Session:
        """Starts a session. `settings` are stored for a resume; `head` is ended if it fails."""
        try:
            _check(spec, run_settings)
            self.remembered_in(spec.cwd).kept()  # raises before anything is started
        except TillermanError:
            if head:
                head.drop()
            raise
        row = SessionRow(
            id=head.session if head else new_session(),
            agent=agent.info.name,
            cwd=str(spec.cwd),
            created_at=rfc3339(datetime.now(UTC)),
            title=title and known_secrets(run_settings).redact_text(title),
            model=spec.model,
            mode=spec.mode,
            settings={
                "approve": run_settings.approve,
                "accept_advisory": spec.approval.accept_advisory,
                "workspace_tools": run_settings.bench is not None or None,
                **settings,
            },
        )
        warden = (
            head.launched
            if head
            else launch_warden(self._paths.spawns, row.id, run_settings.supervision)
        )
        lease = SessionLease.take(self._paths.leases, row.id)
        assert lease is not None
        created = self.catalog.create(row)
        early = head.scans if head else {}
        plan = LaunchPlan(agent, spec, run_settings)
        session = await self._run(row, plan, lease, warden, fallback, early=early)
        await asyncio.wrap_future(created)
        if self._warm:
            self._warm.used(plan)
        return session

    @_undivided
    async def resume(
        self,
        row: SessionRow,
        agent: Agent,
        spec: SessionSpec,
        run_settings: RunSettings,
        *,
        fallback: FallbackPolicy | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Session:
        """Resumes the session; first ends what its last owner left open.

        Another agent than its last one continues with a summary of the history.
        """
        _check(spec, run_settings)
        self.remembered_in(spec.cwd).kept()
        lease = SessionLease.take(self._paths.leases, row.id)
        if lease is None:
            raise SessionBusy(
                f"session {row.id} is already running in process {row.owner_pid}",
                hint=f"`tillerman sessions follow {row.id}` follows it",
            )
        await self.leftovers.end_turn(row)
        await self.leftovers.withdraw(self.catalog.get(row.id))
        warden = launch_warden(self._paths.spawns, row.id, run_settings.supervision)
        row = self.catalog.get(row.id)
        if row.native_id and not self.catalog.native_ids(row.id):
            spec = replace(spec, fork=True)  # the id still belongs to the original session
        made = LaunchPlan(agent, spec, run_settings)
        return await self._run(row, made, lease, warden, fallback, settings)

    async def _run(
        self,
        row: SessionRow,
        plan: LaunchPlan,
        lease: SessionLease,
        launched: Launched,
        fallback: FallbackPolicy | None,
        settings: Mapping[str, Any] | None = None,
        *,
        early: Mapping[str, State] = MappingProxyType({}),
    ) -> Session:
        # lazy: most commands only read sessions
        from tillerman.sessions.session_starter import SessionStarter, SessionStores

        tools: ToolOffer | None = None
        if plan.run_settings.bench:
            # lazy: few sessions have them
            from tillerman.sessions.workspace_tools.tool_offer import ToolOffer

            tools = ToolOffer(row.id, self._paths, self.processes, self._serve_tools, self.is_run)
        functions: PythonToolServers | None = None
        if plan.run_settings.functions and self._serve_functions:
            # lazy: few sessions have them
            from tillerman.sessions.python_tool_servers import PythonToolServers

            functions = PythonToolServers(
                row.id, self._paths, plan.run_settings.functions, self._serve_functions
            )
        relays = {**(tools.relays if tools else {}), **(functions.relays if functions else {})}
        plan = plan.offering(relays)
        stores = SessionStores(
            self._paths, self._database, self.catalog, self.log, self.search, self.attachments
        )
        start = SessionStarter(
            stores,
            row,
            plan,
            tools=tools,
            functions=functions,
            fallback=fallback,
            settings=settings,
            early=early,
        )
        session = await start.run(launched, lease, self._open.discard)
        self._open.add(session)
        return session

    def attach(self, row: SessionRow) -> AttachedSession:
        socket = str(self._paths.socket(row.id))
        return AttachedSession(row.id, socket, self.log, self.leftovers)

    async def is_run(self, session: str) -> bool:
        """Whether a process runs the session and can receive an answer."""
        client = await OwnerClient.connect(str(self._paths.socket(session)))
        if client:
            client.leave()
        return client is not None

    def remembered_in(self, cwd: Path) -> ProjectRules:
        """Remembered rules of the project that contains this folder."""
        from tillerman.sessions.permissions.project_rules import ProjectRules

        return ProjectRules.of(self._paths, cwd)

    def remembered_by(self, row: SessionRow) -> tuple[Rule, ...]:
        """Remembered rules of a session, newest first."""
        return self._recollection(row).rules

    def _recollection(self, row: SessionRow) -> SessionRules:
        from tillerman.sessions.permissions.session_rules import TOLD_BY, SessionRules

        return SessionRules.of(self.log.of_types(row.id, TOLD_BY))

    def watch_requests(self) -> AsyncIterator[Change]:
        """Watches requests of all sessions, whichever process runs them: opened and resolved."""
        from tillerman.sessions.request_watch import RequestWatch

        vigil = RequestWatch(self.catalog, self.log, self._paths.socket, self._paths.watchers)
        return vigil.changes()

    async def left_running(self, agent: str, cwd: Path) -> SessionRow | None:
        """The newest session here that has running processes but no owner."""
        running = reversed(self.processes.list(live=True))
        for session in dict.fromkeys(one.session for one in running):
            row = self.catalog.get(session)
            if (row.agent, row.cwd) == (agent, str(cwd)) and not await self.is_run(session):
                return row
        return None

    def keep_warm(self, most: int) -> None:
        """From now on keeps up to so many agents started for settings in recent use."""
        from tillerman.sessions.warm.warm_agents import WarmAgents  # only a service keeps any

        self._warm = WarmAgents(self._paths, most)

    @property
    def warm(self) -> int:
        """The agents that are started now and wait for a session."""
        return self._warm.count if self._warm else 0

    async def warm_agent(self, plan: LaunchPlan) -> Prestart | None:
        """A started agent of exactly these settings, for `start`."""
        return await self._warm.take(plan) if self._warm else None

    async def close(self) -> None:
        if self._warm:
            await self._warm.close()
        for session in list(self._open):
            await session.close()

    def watch_storage(self, changed: Callable[[Storage], None]) -> None:
        """Calls back, in another thread, when the disk of the store is full or has space again."""
        self._database.watch(changed)

    # -- recovery --------------------------------------------------------------------------------

    @cached_property
    def leftovers(self) -> Recovery:
        from tillerman.sessions.recovery import Recovery

        return Recovery(self._paths, self.catalog, self.log)

    async def recover(self) -> list[str]:
        """Ends processes and turns that dead owners left; returns their sessions.

        Their requests stay open: a user may still answer them.
        """
        from tillerman.workspace.git import work_tree_snapshot

        private_folder(self._paths.spawns)
        if any(self._paths.spawns.iterdir()):
            from tillerman.supervision.client.orphan_sweep import sweep

            await asyncio.to_thread(sweep, self._paths.spawns)
        await asyncio.to_thread(work_tree_snapshot.sweep)
        if self.processes.list(live=True):
            from tillerman.workspace.processes.process_records import resolve_all_lost

            await resolve_all_lost(self.processes, self._paths.processes, self._paths.spawns)
        recovered = []
        for row in self.catalog.open_turns():
            if lease := SessionLease.take(self._paths.leases, row.id):
                try:
                    await self.leftovers.end_turn(self.catalog.get(row.id))
                    recovered.append(row.id)
                finally:
                    lease.release()
        return recovered

    # -- deletion, recordings, forks -------------------------------------------------------------

    async def delete(self, row: SessionRow) -> None:
        lease = SessionLease.take(self._paths.leases, row.id)
        if lease is None:
            raise SessionBusy(
                f"session {row.id} is running", hint=f"`tillerman sessions cancel {row.id}` first"
            )
        try:
            await self._forget_processes(row.id)
            await asyncio.wrap_future(self.catalog.delete(row.id))
            shutil.rmtree(self._paths.spill / row.id, ignore_errors=True)
            shutil.rmtree(self._paths.quarantine / row.id, ignore_errors=True)
            self._recording(row).unlink(missing_ok=True)
        finally:
            lease.release()

    async def _forget_processes(self, session: str) -> None:
        if not (self._paths.processes / session).exists():
            return
        from tillerman.workspace.processes.process_records import forget  # few sessions have any

        await forget(session, self.processes, self._paths.processes, self._paths.spawns)

    async def expire(self, days: int | None) -> None:
        """Deletes sessions without an owner and new entries for that long; None deletes none."""
        if days is None:
            return
        before = rfc3339(datetime.now(UTC) - timedelta(days=days))
        for session in self.catalog.expired(before):
            with suppress(SessionBusy):
                await self.delete(self.catalog.get(session))

    def record(self, row: SessionRow) -> Path:
        """Writes the log to a file for replay."""
        path = self._recording(row)
        private_folder(path.parent)
        draft = path.with_suffix(f".{os.getpid()}")
        with draft.open("wb") as out:
            out.writelines(encode(entry) + b"\n" for entry in read_all(self.log, row.id))
        return draft.replace(path)

    def _recording(self, row: SessionRow) -> Path:
        return self._paths.cache / f"{row.id}.jsonl"

    async def fork(self, row: SessionRow, *, up_to_seq: int | None = None) -> SessionRow:
        return await asyncio.wrap_future(
            self.catalog.fork(
                row.id, new_session(), created_at=rfc3339(datetime.now(UTC)), up_to_seq=up_to_seq
            )
        )


def _check(spec: SessionSpec, run_settings: RunSettings) -> None:
    """Checks values of callers without `launch_plan`: an unknown mode would restrict nothing."""
    check_required(
        approve=run_settings.approve, mode=spec.mode, supervision=run_settings.supervision
    )
