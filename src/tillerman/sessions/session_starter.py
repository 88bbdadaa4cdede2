"""Starts a live session: warden, enforcement, runner, tools and socket; closes them in order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tillerman.core.events import Notice
from tillerman.core.permission import WORKSPACE, DecisionContext, Policy
from tillerman.sessions.agent.agent_row import AgentRow
from tillerman.sessions.agent.host import SessionHost
from tillerman.sessions.enforcement.exec_rules import ExecRules
from tillerman.sessions.enforcement.protection import Protection
from tillerman.sessions.enforcement.settings import SessionEnforcement
from tillerman.sessions.enforcement.temporary_folder import (
    open_scratch,
    remove_scratch,
    sweep_scratches,
    with_scratch,
)
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.lease import SessionLease
from tillerman.sessions.log.appender import LogAppender
from tillerman.sessions.log.attachment_indexer import AttachmentIndexer
from tillerman.sessions.log.broadcast import Broadcast
from tillerman.sessions.log.sanitizer import EventSanitizer
from tillerman.sessions.log.size_limits import DiskBudget
from tillerman.sessions.permissions.project_rules import ProjectRules
from tillerman.sessions.permissions.session_rules import TOLD_BY, SessionRules
from tillerman.sessions.remote.owner_socket import OwnerServer
from tillerman.sessions.remote.session_notifications import notify
from tillerman.sessions.run_settings import (
    LaunchPlan,
    RunSettings,
    known_secrets,
    register_secrets,
)
from tillerman.sessions.runner.collaborators import LogParts, PermissionParts
from tillerman.sessions.runner.runner import Runner
from tillerman.sessions.session import Session, read_all
from tillerman.store.session_row import SessionRow
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.workspace.files.policy_lookup import DiskFiles, resolved

if TYPE_CHECKING:
    from tillerman.paths import Paths
    from tillerman.sessions.python_tool_servers import PythonToolServers
    from tillerman.sessions.workspace_tools.tool_offer import ToolOffer
    from tillerman.sessions.workspace_tools.tool_runner import ToolRunner
    from tillerman.store.attachments import AttachmentStore
    from tillerman.store.catalog import Catalog
    from tillerman.store.database import Database
    from tillerman.store.event_log import EventLog
    from tillerman.store.group_commit import Storage
    from tillerman.store.search import Search
    from tillerman.supervision.protocol.launch_warden import Launched
    from tillerman.workspace.protection.protected_state import State


class SessionStores(NamedTuple):
    """Where the data of sessions is stored."""

    paths: Paths
    database: Database
    catalog: Catalog
    log: EventLog
    search: Search
    attachments: AttachmentStore


class SessionStarter:
    """The parts of one session. `run` starts them and returns the session.

    `settings` are stored for a resume; `early`: scans of protected files before the start.
    """

    def __init__(
        self,
        stores: SessionStores,
        row: SessionRow,
        plan: LaunchPlan,
        *,
        tools: ToolOffer | None,
        functions: PythonToolServers | None,
        fallback: FallbackPolicy | None,
        settings: Mapping[str, Any] | None,
        early: Mapping[str, State],
    ) -> None:
        self._stores = stores
        self._row = row
        self._plan = plan
        self._tools = tools
        self._functions = functions
        self._fallback = fallback or FallbackPolicy()
        spec, run_settings = plan.spec, plan.run_settings
        self._known = known_secrets(run_settings)
        self._budget = DiskBudget(run_settings.turn_cap)
        self._policy = partial(
            Policy.preset,
            only=run_settings.tools,
            rules=(*run_settings.rules, *((WORKSPACE,) if run_settings.bench else ())),
            tightening=run_settings.tightening,
        )
        self._scratch = open_scratch(run_settings.environment, row.id)
        self._context = DecisionContext(
            cwd=spec.cwd,
            folders=(*spec.folders, self._scratch) if self._scratch else spec.folders,
            mode=spec.mode,
            home=Path.home(),
            resolve=resolved,
            files=DiskFiles(),
        )
        self._remembered = ProjectRules.of(stores.paths, spec.cwd)
        survives = run_settings.bench is not None and run_settings.bench.survives
        self._protection = Protection(
            row.id,
            spec.cwd,
            run_settings,
            stores.paths,
            self._policy(run_settings.approve),
            self._context,
            remembered=self._remembered.rules,
            saved=stores.paths.processes / row.id / "protected" if survives else None,
            early=early,
        )
        self._exec_rules = ExecRules(
            run_settings,
            spec.cwd,
            lambda: self._runner,  # which needs a host that needs these
        )
        self._enforcement = SessionEnforcement(self._exec_rules, self._protection)
        self._agent_row = AgentRow(stores.catalog, row, settings)
        self._broadcast = Broadcast(row.id, stores.log, row.entries)

    async def run(
        self, launched: Launched, lease: SessionLease, on_close: Callable[[Session], None]
    ) -> Session:
        row, paths = self._row, self._stores.paths
        self._warden = warden = await self._attach_warden(launched)
        sweep = asyncio.get_running_loop().run_in_executor(
            None, sweep_scratches, self._plan.run_settings.environment
        )
        self._runner = runner = self._make_runner()
        self._exec_rules.attach(warden)
        self._protection.listen(runner.broker.record)
        bench = await self._open_tools()
        if self._functions:
            await self._functions.open()
        runner.warm()
        unwatch = self._watch_storage()
        server = OwnerServer(runner, self._broadcast)
        socket = paths.socket(row.id)
        await server.open(socket)
        await asyncio.wrap_future(
            self._stores.catalog.update(row.id, owner_socket=str(socket), owner_pid=os.getpid())
        )
        notify(paths.watchers, row.id)

        async def close() -> None:
            try:
                await runner.close()
            finally:
                unwatch()
                await server.close()
                await self._close(sweep)
                lease.release()
                on_close(session)  # until here the store must stay open

        session = Session(
            row.id,
            runner,
            self._broadcast,
            self._stores.log,
            close,
            since=row.entries,
            bench=bench,
        )
        return session

    async def _attach_warden(self, launched: Launched) -> WardenClient:
        """Waits for the warden, while the protected files are scanned."""
        scan: asyncio.Task[None] | None = None
        if self._plan.agent.info.prompted:  # an external client only runs tillerman's commands
            scan = asyncio.create_task(self._protection.begin())
        try:
            warden = await WardenClient.attach(launched)
        except BaseException:
            if scan:
                await scan
            await self._protection.close()
            raise
        try:
            if scan:
                await scan
            self._protection.attach(warden)
        except BaseException:
            await asyncio.gather(warden.close(), self._protection.close())
            raise
        return warden

    def _host(self, run_settings: RunSettings) -> SessionHost:
        register_secrets(self._known, run_settings)
        self._exec_rules.run_settings = run_settings
        return SessionHost(
            self._warden,
            with_scratch(run_settings.environment, self._scratch),
            self._known,
            spill_folder=self._stores.paths.spill / self._row.id,
            spill_cap=run_settings.spill_cap,
            line_cap=run_settings.line_cap,
            budget=self._budget,
            request_timeout=run_settings.limits.request,
            enforcement=self._enforcement,
            report=self._report,
        )

    def _report(self, notice: Notice) -> None:
        self._runner.broker.record(notice)

    def _make_runner(self) -> Runner:
        row, plan, log, host = self._row, self._plan, self._stores.log, self._host
        run_settings, known = plan.run_settings, self._known
        return Runner(
            plan,
            host=host,
            native_id=row.native_id if plan.agent.info.name == row.agent else None,
            log=LogParts(
                appender=LogAppender(row.id, log, self._broadcast),
                sanitizer=EventSanitizer(
                    known,
                    output_cap=run_settings.output_cap,
                    budget=self._budget,
                    spill=host(run_settings).spill,
                    cwd=str(plan.spec.cwd),
                ),
                indexer=AttachmentIndexer(
                    row.id, self._stores.search, self._stores.attachments, known
                ),
                history=lambda: read_all(log, row.id),
                last_turn=row.turns,
            ),
            permissions=PermissionParts(
                policy=self._policy,
                context=self._context,
                recall=self._session_rules,
                remembered=self._remembered,
                rules_changed=self._exec_rules.update,
            ),
            fallback=self._fallback,
            opened=self._agent_row.begins,
            enforcement=self._enforcement,
        )

    def _session_rules(self) -> SessionRules:
        if not self._row.entries:
            return SessionRules()
        return SessionRules.of(self._stores.log.of_types(self._row.id, TOLD_BY))

    async def _open_tools(self) -> ToolRunner | None:
        if self._tools is None:
            return None
        spec, run_settings, broker = self._plan.spec, self._plan.run_settings, self._runner.broker
        return await self._tools.open(spec, run_settings, broker, self._known, self._enforcement)

    def _watch_storage(self) -> Callable[[], None]:
        loop, runner = asyncio.get_running_loop(), self._runner

        def changed(storage: Storage) -> None:  # in the store's thread
            loop.call_soon_threadsafe(runner.storage_changed, storage)

        return self._stores.database.watch(changed)

    async def _close(self, sweep: asyncio.Future[None]) -> None:
        """Closes what the runner used."""
        row, catalog = self._row, self._stores.catalog
        if self._tools:
            await self._tools.close()
        if self._functions:
            await self._functions.close()
        self._broadcast.close()
        disowned = catalog.update(row.id, owner_socket=None, owner_pid=None)
        await asyncio.gather(self._warden.close(), asyncio.wrap_future(disowned))
        await self._protection.close()
        await sweep
        if self._scratch:
            remove_scratch(self._scratch)
        if self._broadcast.last_seq == 0:  # its agent did not start
            await asyncio.wrap_future(catalog.delete(row.id))
