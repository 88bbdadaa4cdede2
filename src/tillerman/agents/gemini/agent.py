"""Agent class for Gemini CLI: two transports, account, models, stored sessions, MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tillerman.agents.acp.two_transports import TwoTransportAgent
from tillerman.agents.commands.locate import binary, plain
from tillerman.agents.gemini.dialect import GeminiDialect
from tillerman.agents.gemini.launch import BASE_URL, KEY, POLICY, ROW, home
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Conversation, Host, SessionSpec
from tillerman.core.agent_admin import Account, McpServer, Model, NativeSession, RunCommand
from tillerman.core.errors import Unsupported
from tillerman.core.events import Event
from tillerman.core.session_options import with_options
from tillerman.core.wire import Wire

# The one-way stream cannot ask, and does not report thoughts and retries.
_LACKS = frozenset({"thinking", "permissions", "images", "mcp", "retries"})


def _stream(spec: SessionSpec) -> Wire:
    from tillerman.agents.gemini.json_wire import GeminiStreamWire

    return GeminiStreamWire(spec)


class GeminiCli(TwoTransportAgent):
    def __init__(self) -> None:
        info = replace(ROW.info, can=ROW.info.can - _LACKS, asks=frozenset())
        stream = StdioAgent(info, _stream)
        super().__init__(ROW, GeminiDialect, stream, surface="stream-json", since="0.33.0")

    def _wire(self, spec: SessionSpec) -> Wire:
        from tillerman.agents.gemini.wire import (
            GeminiWire,  # not before the program starts
        )

        return GeminiWire(self.dialect, spec)

    async def open_acp(self, spec: SessionSpec, host: Host) -> Conversation:
        from tillerman.agents.gemini.ask_policy import policy, refuse_administrators
        from tillerman.agents.gemini.folder_trust import trusted

        refuse_administrators(host.variable)
        trusts = spec.native.options.get("trust") is True
        trusts = trusts or trusted(home(host.variable), spec.cwd, host.variable)
        if not trusts and spec.tools.servers:
            raise _untrusted(spec)
        if trusts:
            _refuse_trusted_servers(spec, host)
        options = {**spec.native.options, POLICY: policy(host.variable, spec.cwd)}
        if spec.resume:
            from tillerman.agents.gemini import stored_sessions
            from tillerman.agents.gemini.account import chosen

            # Otherwise it accepts the key only for a new session: a resumed one needs a selected
            # method.
            options[BASE_URL] = bool(host.variable(KEY)) and not (
                chosen(home(host.variable)) or host.variable(BASE_URL)
            )
            stored_sessions.drop_empty_files(home(host.variable), spec.resume)
            await stored_sessions.out_of_its_minute(home(host.variable), spec.resume, host.report)
        return await self._open(with_options(spec, options=options), host)

    async def _open(self, spec: SessionSpec, host: Host) -> Conversation:
        from tillerman.agents.gemini.conversation import GeminiConversation

        wire = self.wire(spec)
        talk = GeminiConversation(self.info, wire, spec, host, self._grace, home(host.variable))
        await talk.start()
        return talk

    async def account(self, run: RunCommand) -> Account:
        from tillerman.agents.gemini.account import account

        return account(home(run.variable), run.variable)

    async def models(self, run: RunCommand) -> Sequence[Model]:
        from tillerman.agents.gemini.models import models

        return await models(self, run)

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        from tillerman.agents.gemini import stored_sessions

        return stored_sessions.sessions(home(run.variable), cwd)

    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        from tillerman.agents.gemini import stored_sessions

        return stored_sessions.history(home(run.variable), session)

    async def mcp_servers(self, run: RunCommand) -> Sequence[McpServer]:
        from tillerman.agents.commands.mcp_settings_file import listed

        # It prints them on stderr, connects to each, and its exit code means nothing.
        ran = await run([binary(run, self.info), "mcp", "list"], env=_TRUSTED, limit=60)
        return listed(plain(ran.stderr))

    async def mcp_add(self, run: RunCommand, name: str, config: Mapping[str, Any]) -> None:
        from tillerman.agents.commands.mcp_settings_file import added, edit

        path = _settings(run)
        edit(self.info.name, path, lambda settings: added(settings, name, config))

    async def mcp_remove(self, run: RunCommand, name: str) -> None:
        from tillerman.agents.commands.mcp_settings_file import edit, removed

        path = _settings(run)
        edit(self.info.name, path, lambda settings: removed(self.info.name, settings, name))

    async def mcp_switch(self, run: RunCommand, name: str, on: bool) -> None:
        """Edits the file, since the native command finds no server at all in 0.61.0."""
        from tillerman.agents.commands.mcp_settings_file import edit
        from tillerman.agents.gemini.stored_sessions import switched

        path = _settings(run).with_name("mcp-server-enablement.json")
        edit(self.info.name, path, lambda settings: switched(settings, name, on))


# To list the user's own servers, with the home as working directory.
_TRUSTED = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"}


def _untrusted(spec: SessionSpec) -> Unsupported:
    return Unsupported(
        "gemini",
        f"MCP servers in an untrusted folder: {spec.cwd}",
        hint="trust it in Gemini CLI, or set `agents.gemini.trust = true` to trust its "
        "projects, whose settings may start programs",
    )


def _refuse_trusted_servers(spec: SessionSpec, host: Host) -> None:
    from tillerman.agents.gemini.ask_policy import trusted_servers

    if names := sorted(trusted_servers(host.variable, spec.cwd) - spec.tools.servers.keys()):
        raise Unsupported(
            "gemini",
            f"MCP servers that its settings trust, as it never asks about them: {', '.join(names)}",
            hint="remove `trust` in Gemini CLI's settings: tillerman's policy checks them",
        )


def _settings(run: RunCommand) -> Path:
    return home(run.variable) / "settings.json"


agent = GeminiCli()
