"""Agent admin: install state, account, models, native sessions and MCP servers of agents."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tillerman import agents
from tillerman.agents.commands.runner import CommandRunner
from tillerman.config import Config, Paths
from tillerman.core.agent import Agent
from tillerman.core.agent_admin import (
    Account,
    AccountInfo,
    AgentDetails,
    Installed,
    InstallInfo,
    McpServer,
    McpServerChanges,
    McpServerList,
    McpServerToggle,
    McpTool,
    McpToolList,
    Model,
    ModelList,
    NativeSession,
    NativeSessionCreation,
    NativeSessionHistory,
    NativeSessionList,
    SignInCommand,
    SignOutCommand,
)
from tillerman.core.capabilities import capabilities
from tillerman.core.errors import AgentNotInstalled, TillermanError, Unsupported
from tillerman.core.events import Event
from tillerman.core.version_check import warning
from tillerman.supervision.environment import child_environment
from tillerman.supervision.linux.which import find_program
from tillerman.supervision.secrets.mcp_server_secrets import secrets_of_servers

REPORT_TIMEOUT = 30.0  # seconds for the status report of one agent
DESKTOP = (  # variables that a sign-in needs to open a browser
    "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "BROWSER", "DBUS_SESSION_BUS_ADDRESS",
    "SSH_CONNECTION", "SSH_TTY", "WSL_DISTRO_NAME",
)  # fmt: skip


class AgentStatus(Struct, frozen=True):
    """Status of an agent: installation, account, version, problems."""

    name: str
    title: str
    can: tuple[str, ...] = ()
    install: str = ""  # the install command
    tested: tuple[str, str] | None = None  # oldest and newest tested version
    installed: Installed | None = None  # None: nothing to install, or unknown
    account: Account | None = None  # None: cannot be queried, or not installed
    problem: str = ""
    notice: str = ""  # warning about an untested version

    @property
    def present(self) -> bool:
        return self.installed is None or self.installed.path is not None

    @property
    def ready(self) -> bool:
        signed_in = self.account is None or self.account.signed_in
        return self.present and signed_in and not self.problem


class AgentAdmin:
    """Runs the agents' native commands in the user's home, supervised and with time limits."""

    def __init__(self, config: Config, paths: Paths) -> None:
        self._config = config
        self._paths = paths

    def names(self) -> list[str]:
        config = self._config
        return list(agents.available(config.agents, experimental=config.experimental_agents))

    def agent(self, name: str) -> Agent:
        config = self._config
        return agents.load(name, config.agents, experimental=config.experimental_agents)

    def able(self, part: type) -> list[str]:
        """Names of the agents that implement `part`, a protocol of `core.agent_admin`."""
        return [name for name in self.names() if isinstance(self._loaded(name), part)]

    def environment(self, agent: Agent, passed: Sequence[str] = ()) -> dict[str, str]:
        """The environment variables of the agent's programs."""
        more = [*self._config.env.passed, *passed]
        return child_environment(os.environ, agent.info.variables, more).variables

    @asynccontextmanager
    async def agent_commands(
        self, agent: Agent, private: Sequence[tuple[str, str]] = ()
    ) -> AsyncIterator[CommandRunner]:
        """Opens a command runner. `private`: names and values that no command line may show."""
        async with CommandRunner(
            self.environment(agent),
            agent=agent.info.name,
            binaries=self._binaries(agent),
            options=self._config.agents.get(agent.info.name, {}),
            cwd=Path.home(),
            records=self._paths.spawns,
            marker=f"commands-{secrets.token_hex(4)}",
            private=private,
        ) as agent_commands:
            yield agent_commands

    # -- agent -----------------------------------------------------------------------------------

    async def installed(self, name: str) -> Installed | None:
        """Returns None for an agent that needs no installation."""
        agent = self.agent(name)
        async with self.agent_commands(agent) as run:
            return await _installed(agent, run)

    async def account(self, name: str) -> Account | None:
        """Returns None for an agent that cannot report its account."""
        agent = self.agent(name)
        if not isinstance(agent, AccountInfo):
            return None
        async with self.agent_commands(agent) as run:
            return await agent.account(run)

    async def about(self, name: str) -> Mapping[str, str]:
        agent = self.agent(name)
        if not isinstance(agent, AgentDetails):
            raise _unable(agent, "account details")
        async with self.agent_commands(agent) as run:
            return await agent.about(run)

    async def models(self, name: str) -> Sequence[Model]:
        """Lists models; for an agent that cannot, those in the model table and the config."""
        agent = self.agent(name)
        if isinstance(agent, ModelList):
            async with self.agent_commands(agent) as run:
                return await agent.models(run)
        if known := self._known_models(name):
            return known
        raise _unable(agent, "listing models")

    def lists_models(self) -> list[str]:
        """Names of the agents whose models can be listed."""
        able = self.able(ModelList)
        return [name for name in self.names() if name in able or self._known_models(name)]

    def _known_models(self, name: str) -> list[Model]:
        from tillerman.config.model_table import load_models

        rows = load_models(self._config.models).rows
        return [
            Model(str(row[name]), title, shipped=True) for title, row in rows.items() if name in row
        ]

    def login(self, name: str) -> Sequence[str]:
        """Returns the sign-in command to run on the user's terminal."""
        agent = self.agent(name)
        if not isinstance(agent, SignInCommand):
            how = agent.info.sign_in and f"{agent.info.sign_in}; then: tillerman status {name}"
            raise _unable(agent, "signing in by command", how)
        return self._words(agent, agent.login())

    def logout(self, name: str) -> Sequence[str]:
        agent = self.agent(name)
        if not isinstance(agent, SignOutCommand):
            how = agent.info.sign_in and "unset the variable, or sign out in the program itself"
            raise _unable(agent, "signing out by command", how)
        return self._words(agent, agent.logout())

    async def report(self, name: str, *, max_wait: float = REPORT_TIMEOUT) -> AgentStatus:
        """Reports the agent's status; errors become its `problem`."""
        try:
            agent = self.agent(name)
        except Exception as error:  # a third-party module may raise anything
            return AgentStatus(
                name, name, problem=f"cannot be loaded: {type(error).__name__}: {error}"
            )
        info = agent.info
        can = tuple(sorted(capabilities(agent)))
        report = AgentStatus(name, info.title, can, info.install, info.tested)
        try:
            async with asyncio.timeout(max_wait), self.agent_commands(agent) as run:
                report = replace(report, installed=_found(agent, run))
                if installed := await _installed(agent, run):
                    notice = warning(info.title, info.tested, installed.version)
                    report = replace(report, installed=installed, notice=notice)
                if report.present and isinstance(agent, AccountInfo):
                    report = replace(report, account=await agent.account(run))
        except TimeoutError:
            report = replace(report, problem=f"it did not answer within {max_wait:g} s")
        except TillermanError as error:
            report = replace(report, problem=error.message)
        except Exception as error:
            report = replace(report, problem=f"{type(error).__name__}: {error}")
        return report

    async def full_report(self, name: str) -> tuple[AgentStatus, Mapping[str, str]]:
        """Reports the status with the agent's description of itself, if available."""
        report = await self.report(name)
        if not report.ready or not isinstance(self.agent(name), AgentDetails):
            return report, {}
        try:
            return report, await self.about(name)
        except TillermanError as error:
            return report, {"problem": error.message}

    # -- native sessions -------------------------------------------------------------------------

    async def native_sessions(self, name: str, cwd: Path) -> Sequence[NativeSession]:
        agent = self.agent(name)
        if not isinstance(agent, NativeSessionList):
            raise _unable(agent, "listing its stored sessions")
        async with self.agent_commands(agent) as run:
            return await agent.native_sessions(run, cwd)

    async def native_history(self, name: str, session: NativeSession) -> Sequence[Event]:
        """Returns the events of a native session; empty if the agent cannot list them."""
        agent = self.agent(name)
        if not isinstance(agent, NativeSessionHistory):
            return []
        async with self.agent_commands(agent) as run:
            return await agent.native_history(run, session)

    async def create_session(self, name: str, cwd: Path) -> str:
        agent = self.agent(name)
        if not isinstance(agent, NativeSessionCreation):
            raise _unable(agent, "creating a session without a prompt")
        async with self.agent_commands(agent) as run:
            return await agent.create_session(run, cwd)

    # -- MCP servers -----------------------------------------------------------------------------

    async def mcp_servers(self, name: str) -> Sequence[McpServer]:
        agent = self.agent(name)
        if not isinstance(agent, McpServerList):
            raise _unable(agent, "listing MCP servers")
        async with self.agent_commands(agent) as run:
            return await agent.mcp_servers(run)

    async def mcp_tools(self, name: str, server: str) -> Sequence[McpTool]:
        agent = self.agent(name)
        if not isinstance(agent, McpToolList):
            raise _unable(agent, "listing the tools of an MCP server")
        async with self.agent_commands(agent) as run:
            return await agent.mcp_tools(run, server)

    async def mcp_add(
        self, name: str, server: str, config: Mapping[str, Any], *, openly: bool = False
    ) -> None:
        """Adds an MCP server. A secret that a command line would show raises `AgentError`, unless
        `openly`.
        """
        agent = self.agent(name)
        if not isinstance(agent, McpServerChanges):
            raise _unable(agent, "adding MCP servers")
        private = [] if openly else secrets_of_servers({server: config})
        async with self.agent_commands(agent, private) as run:
            await agent.mcp_add(run, server, config)

    async def mcp_remove(self, name: str, server: str) -> None:
        agent = self.agent(name)
        if not isinstance(agent, McpServerChanges):
            raise _unable(agent, "removing MCP servers")
        async with self.agent_commands(agent) as run:
            await agent.mcp_remove(run, server)

    async def mcp_switch(self, name: str, server: str, on: bool) -> None:
        agent = self.agent(name)
        if not isinstance(agent, McpServerToggle):
            raise _unable(agent, f"{'enabling' if on else 'disabling'} MCP servers")
        async with self.agent_commands(agent) as run:
            await agent.mcp_switch(run, server, on)

    # -- parts -----------------------------------------------------------------------------------

    def _loaded(self, name: str) -> Agent | None:
        try:
            return self.agent(name)
        except Exception:  # `report` reports the error
            return None

    def _binaries(self, agent: Agent) -> dict[str, str]:
        binary = self._config.agents.get(agent.info.name, {}).get("binary")
        return {agent.info.binary: binary} if agent.info.binary and binary else {}

    def _words(self, agent: Agent, words: Sequence[str]) -> list[str]:
        """Replaces the program by its path; raises `AgentNotInstalled` if it is not found."""
        program, *rest = words
        path = self.environment(agent).get("PATH")
        found = find_program(self._binaries(agent).get(program, program), path)
        if found is None:
            raise AgentNotInstalled(agent.info.name, binary=program, hint=agent.info.install)
        return [found, *rest]


async def _installed(agent: Agent, run: CommandRunner) -> Installed | None:
    if isinstance(agent, InstallInfo):
        return await agent.installed(run)
    return _found(agent, run)


def _found(agent: Agent, run: CommandRunner) -> Installed | None:
    """Reports what is known without running the agent."""
    binary = agent.info.binary
    return Installed(binary, run.find(binary), None, agent.info.install) if binary else None


def _unable(agent: Agent, what: str, hint: str = "") -> Unsupported:
    name = agent.info.name
    return Unsupported(name, what, hint=hint or f"`tillerman agents {name}` lists what it supports")
