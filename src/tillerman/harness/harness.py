"""Composition root: builds a `Harness` from a `Config` and wires all components."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from copy import copy
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import convert, to_builtins
from msgspec.structs import replace

from tillerman import agents
from tillerman.agents.stdio.capability_check import refuse_open_gate
from tillerman.config import Config, Paths, check_config, find_paths, load
from tillerman.core.agent import Agent
from tillerman.core.agent_admin import AccountInfo
from tillerman.core.async_context import opened_with
from tillerman.core.errors import SessionBusy, StoreDamaged, StoreReadOnly, UsageError
from tillerman.core.events import Notice
from tillerman.core.session_options import (
    ResumeOptions,
    ServeOptions,
    StartOptions,
    check_options,
    check_required,
    given_options,
)
from tillerman.harness.agent_selection import AgentSelection, select_agents
from tillerman.harness.first_agent import AgentFallback, refuse_missing
from tillerman.harness.launch_plan import launch_plan
from tillerman.harness.program_options import plan_options
from tillerman.harness.stored_selection import settings_of, stored_options, stored_selection
from tillerman.sessions.prestart import Prestart
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import AttachedSession, Session, to_the_end
from tillerman.store.database import Database
from tillerman.store.session_row import SessionRow

if TYPE_CHECKING:
    import asyncio

    from tillerman.core.agent_admin import Account, Installed, Model
    from tillerman.core.program.python_tools import ToolServer
    from tillerman.harness.agent_admin import AgentAdmin
    from tillerman.harness.agent_availability import AgentAvailability
    from tillerman.sessions.workspace_tools.tool_runner import ToolRunner
    from tillerman.store.salvage import SalvageReport


AnySession = str | Session | AttachedSession  # by id, by prefix, `last`, or a handle of it


@opened_with("open()")
async def open_harness(
    *, config: Config | None = None, cwd: Path | str = ".", paths: Paths | None = None
) -> AsyncIterator[Harness]:
    """Opens the user's store with the config for `cwd`; closes everything it started."""
    check_required(cwd=cwd)
    folder = _folder(cwd)
    paths = paths or find_paths()
    if config:
        check_config(config)
    database, salvaged = _open_store(paths.store)
    harness = Harness(config or load(folder, paths=paths), paths, database, folder)
    harness.follows_folder = config is None
    harness.salvaged = salvaged
    if paths.hooks.is_dir() and not database.is_read_only:
        from tillerman.hooks.backup_journal import BackupJournal
        from tillerman.hooks.install import repair

        repair(BackupJournal(paths.hooks))
    try:
        if not database.is_read_only:
            await harness.sessions.recover()
            await harness.sessions.expire(harness.config.store.keep_days)
        yield harness
    finally:
        harness.closed = True
        try:
            await to_the_end(harness.sessions.close())
        finally:
            database.close()


def _folder(cwd: Path | str) -> Path:
    try:
        return Path(cwd).resolve()
    except FileNotFoundError:
        raise UsageError(
            "the current folder no longer exists", hint="`cd` to an existing folder"
        ) from None


def _open_store(path: Path) -> tuple[Database, SalvageReport | None]:
    try:
        return Database.open(path), None
    except StoreReadOnly:
        if not path.exists():
            raise
        return Database.open_current(path), None
    except StoreDamaged:
        from tillerman.store.salvage import open_or_salvage

        return open_or_salvage(path)


class Harness:
    """The API for surfaces: starts, resumes and finds sessions, and queries agents."""

    def __init__(self, config: Config, paths: Paths, database: Database, cwd: Path) -> None:
        self.config = config
        self.paths = paths
        self.cwd = cwd
        self.follows_folder = False  # whether a session uses the config of its folder
        self.salvaged: SalvageReport | None = None  # report about a damaged store
        self.closed = False
        self.sessions = Sessions(paths, database, serve_tools, serve_functions)  # the store

    # -- sessions --------------------------------------------------------------------------------

    async def start(
        self,
        agent: str | None = None,
        *,
        title: str | None = None,
        head: Prestart | None = None,
        check_account: bool = True,
        project: Path | None = None,
        **options: Unpack[StartOptions],
    ) -> Session:
        """Starts a session with an agent, a profile, or the first usable agent of `one,two`.

        `project`: the folder whose config and profiles are used, if it is not that of the session.

        `check_account`: an agent that is not signed in raises `NotSignedIn`; else the first turn
        fails. One that is warm, or was usable within the last minute, is not asked again.
        """
        self.need_open()
        check_options({"agent": agent, "title": title})
        requested = plan_options(given_options(StartOptions, options))
        flat = {"cwd": self.cwd, **requested}
        _need_folder(folder := Path(flat["cwd"]))
        config = self._config_in(project or folder)
        who = select_agents(config, agent, requested.get("model"), project or folder)
        made, fallback = await self._team(config, who, flat).first(_rules(config))
        refuse_open_gate(made.agent.info, made.spec)
        if made.run_settings.bench or made.run_settings.functions:
            _need_sdk()
        head = head or await self.sessions.warm_agent(made)  # no pause until it is passed on
        if check_account and head is None and isinstance(made.agent, AccountInfo):
            await self._availability.check_account(made.agent.info.name)
        return await self.sessions.start(
            *made, title=title, head=head, fallback=fallback, settings=settings_of(who)
        )

    async def serve(
        self,
        *,
        cwd: Path | str | None = None,
        resume: str | None = None,
        **options: Unpack[ServeOptions],
    ) -> Session:
        """Starts a session for MCP clients: it has no agent, and its `bench` runs their tool calls.

        Resumes a session of this folder that has running processes and is not served, if there is
        one.
        """
        self.need_open()
        check_options({"cwd": cwd, "resume": resume})
        given = given_options(ServeOptions, options)
        from tillerman.harness.launch_plan import external_client_plan
        from tillerman.mcp.external_client import INFO, ExternalClientAgent

        _need_sdk()
        folder = Path(cwd or self.cwd)
        made = external_client_plan(self.config, ExternalClientAgent(), cwd=folder, **given)
        row = self.find(resume) if resume else await self.sessions.left_running(INFO.name, folder)
        if row is None:
            title = f"MCP server of {folder.name}"
            return await self.sessions.start(*made, title=title, settings={"served": True})
        if row.agent != INFO.name or Path(row.cwd) != made.spec.cwd:
            raise UsageError(
                f"session {row.id} is not an MCP server session of {folder}",
                hint="omit --resume, or run it in the folder of that session",
            )
        return await self.sessions.resume(row, *made)

    async def resume(
        self,
        session: AnySession,
        *,
        fork: bool = False,
        project: Path | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Session:
        """Resumes a closed session, or one by id, prefix of an id, or `last`.

        `project`: the folder whose config and profiles are used, if it is not that of the session.
        """
        self.need_open()
        check_required(fork=fork)
        given = plan_options(given_options(ResumeOptions, options))
        row = self._at_home(session)
        if row.settings.get("served"):
            raise UsageError(
                f"session {row.id} belongs to an MCP client and has no agent to resume",
                hint=f"`tillerman mcp serve --resume {row.id}` serves it again",
            )
        if fork:
            row = await self.sessions.fork(row)
        config = self._config_in(project or Path(row.cwd))
        stored = stored_options(row)
        if "model" in self.agent(row.agent).info.can:
            stored["model"] = row.model
        who, notices = stored_selection(row, config, project or Path(row.cwd))
        flat = {**stored, **given, "cwd": row.cwd}
        if who.profile is None and (tools := row.settings.get("tools")):
            flat["tools"] = tuple(tools)  # the restriction holds even if the profile was removed
        others = who.names[who.names.index(row.agent) + 1 :]
        made = self._plan(config, row.agent, who, flat, alone=True)
        if not given.get("model"):  # the model was reported by the agent itself, so no warning
            made = made._replace(run_settings=replace(made.run_settings, notices=()))
        made = _with_notices(made, notices)
        fallback = self._team(config, who, flat).remaining(others, _rules(config))
        refuse_missing(made)
        refuse_open_gate(made.agent.info, made.spec)
        return await self.sessions.resume(row, *made, fallback=fallback)

    async def handoff(
        self, session: AnySession, agent: str, **options: Unpack[ResumeOptions]
    ) -> Session:
        """Hands the session over to another agent, with a summary of its history.

        `agent` is as in `start`. The next prompt says what the agent should do. An open session
        that is idle is closed first.
        """
        self.need_open()
        check_required(agent=agent)
        given = plan_options(given_options(ResumeOptions, options))
        row = self._at_home(session)
        config = self._config_in(Path(row.cwd))
        who = select_agents(config, agent, None, Path(row.cwd))
        if who.names[0] == row.agent:
            raise UsageError(
                f"session {row.id} already uses {row.agent}",
                hint=f"`tillerman run --resume {row.id}` resumes it",
            )
        stored = stored_options(row)
        del stored["accept_advisory"]  # accepted for the previous agent only
        flat = {**stored, **given, "cwd": row.cwd}
        made, fallback = await self._team(config, who, flat).first(_rules(config))
        text = f"{row.agent} hands over to {made.agent.info.name}"
        made = _with_notices(made, [Notice(level="info", kind="handoff", text=text)])
        settings = {"profile": None, "agents": [], "tools": [], **settings_of(who)}
        settings["accept_advisory"] = made.spec.approval.accept_advisory
        refuse_open_gate(made.agent.info, made.spec)
        if isinstance(session, Session) and not session.closed:
            if not session.is_idle:
                raise SessionBusy(
                    f"session {row.id} is working on a turn",
                    hint="wait for `session.idle()`, or cancel the turn",
                )
            await session.close()
            row = self.find(row.id)
        return await self.sessions.resume(row, *made, fallback=fallback, settings=settings)

    def in_folder(self, cwd: Path | str) -> Harness:
        """The same sessions, with the config for another folder."""
        folder = _folder(cwd)
        if not self.follows_folder or folder == self.cwd:
            return self
        other = copy(self)
        other.config, other.cwd = load(folder, paths=self.paths), folder
        for made_of_config in ("management", "_availability"):
            other.__dict__.pop(made_of_config, None)
        return other

    def need_open(self) -> None:
        """Raises `UsageError` if the harness is closed."""
        if self.closed:
            raise UsageError(
                "the harness is closed", hint="use it inside `async with tillerman.open()`"
            )

    def _at_home(self, session: AnySession) -> SessionRow:
        """Finds the session; refuses it if its working directory no longer exists."""
        row = self.find(session)
        if not Path(row.cwd).is_dir():
            raise UsageError(
                f"the folder of session {row.id} no longer exists: {row.cwd}",
                hint=f"`tillerman sessions show {row.id}` still shows its log",
            )
        return row

    def _config_in(self, folder: Path) -> Config:
        """As it is now: a policy may have changed, or trust, while this process runs."""
        return load(folder.resolve(), paths=self.paths) if self.follows_folder else self.config

    def _team(self, config: Config, who: AgentSelection, flat: dict[str, Any]) -> AgentFallback:
        def make(name: str) -> LaunchPlan:
            return self._plan(config, name, who, flat)

        return AgentFallback(who, make, lambda: self._availability)

    @cached_property
    def _availability(self) -> AgentAvailability:
        from tillerman.harness.agent_availability import (
            AgentAvailability,  # not needed for a single agent
        )

        return AgentAvailability(self.management, self.paths.cache)

    def attach(self, session: AnySession) -> AttachedSession:
        """Attaches to a session of another process, to follow, answer, prompt or cancel it."""
        return self.sessions.attach(self.find(session))

    def find(self, session: AnySession) -> SessionRow:
        """Finds a session by id, by prefix, or `last` for the newest one in this folder."""
        self.need_open()
        check_required(session=_id(session))
        return self.sessions.catalog.get(_id(session), cwd=str(self.cwd))

    # -- agents ----------------------------------------------------------------------------------

    def agents(self) -> list[str]:
        """The names of all known agents, installed or not."""
        config = self.config
        return list(agents.available(config.agents, experimental=config.experimental_agents))

    def agent(self, name: str) -> Agent:
        config = self.config
        return agents.load(name, config.agents, experimental=config.experimental_agents)

    @cached_property
    def management(self) -> AgentAdmin:
        """Agent admin: status, accounts, models and MCP servers."""
        from tillerman.harness.agent_admin import AgentAdmin  # not needed to start an agent

        return AgentAdmin(self.config, self.paths)

    async def installed(self, name: str) -> Installed | None:
        """Returns None for an agent that needs no installation."""
        return await self.management.installed(name)

    async def account(self, name: str) -> Account | None:
        """Returns None for an agent that cannot report its account."""
        return await self.management.account(name)

    async def models(self, name: str) -> Sequence[Model]:
        """The models that an agent lists, or those of tillerman's table."""
        return await self.management.models(name)

    def _plan(
        self,
        config: Config,
        agent: str,
        who: AgentSelection,
        flat: dict[str, Any],
        *,
        alone: bool = False,
    ) -> LaunchPlan:
        """Makes a launch plan. Resolves `replay:SESSION`, `replay:FILE` and `acp:COMMAND`."""
        requested = {**who.requested(flat), "alone": alone or len(who.names) == 1}
        if agent.startswith(agents.AD_HOC):
            return launch_plan(config, agent, **requested)
        name, _, argument = agent.partition(":")
        if argument and name != "replay":
            raise UsageError(
                f"agent {name!r} does not accept `:{argument}`",
                hint="only `replay:` and `acp:` are followed by something",
            )
        if argument:
            options = {**requested.get("options", {}), "file": str(self._recording(argument))}
            requested = {**requested, "options": options}
        return launch_plan(config, name, **requested)

    def _recording(self, argument: str) -> Path:
        if (file := Path(argument)).is_file():
            return file.resolve()
        return self.sessions.record(self.find(argument))


def _id(session: AnySession) -> str:
    return session.id if isinstance(session, Session | AttachedSession) else session


def _need_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", hint="create it, or give another `cwd`")


async def serve_functions(
    functions: ToolServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    from tillerman.mcp import python_functions  # lazy: takes a second to load

    await python_functions.serve_functions(functions, reader, writer)


async def serve_tools(
    bench: ToolRunner, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    from tillerman.mcp.direct_calls import DirectCalls  # lazy: takes a second to load
    from tillerman.mcp.line_transport import serve_lines
    from tillerman.mcp.server import workspace_server

    await serve_lines(workspace_server(bench), reader, writer, DirectCalls(bench))


def _need_sdk() -> None:
    if not find_spec("mcp"):
        from tillerman.harness.extras import install_command

        raise UsageError("the MCP SDK is not installed", hint=install_command("mcp"))


def _rules(config: Config) -> FallbackRules:
    return convert(to_builtins(config.team), FallbackRules)


def _with_notices(made: LaunchPlan, notices: Sequence[Notice]) -> LaunchPlan:
    run_settings = replace(made.run_settings, notices=(*notices, *made.run_settings.notices))
    return made._replace(run_settings=run_settings)
