"""The agent: Cursor's cloud agents as conversations, and their account, models and history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.agents.cursor_cloud.failures import NAME, NEED_KEY
from tillerman.agents.stdio.capability_check import refuse
from tillerman.core.agent import AgentInfo, Conversation, Host, Prompt, SessionSpec
from tillerman.core.agent_admin import Account, Model, NativeSession, RunCommand
from tillerman.core.cloud import CloudLaunch, CloudStatusChange, CloudWebhook
from tillerman.core.errors import NotSignedIn, Unsupported, UsageError
from tillerman.paths import find_paths

if TYPE_CHECKING:
    from tillerman.agents.cursor_cloud.client import CursorCloudClient
    from tillerman.core.events import Event

KEY = "CURSOR_API_KEY"
ACCOUNT_TRIES = 2  # without a network, a status is reported soon
MOST_LISTED = 100  # agents that are listed as sessions
INFO = AgentInfo(
    name=NAME,
    title="Cursor Cloud",
    can=frozenset({
        "streaming", "thinking", "resume", "cancel", "modes", "model", "images", "usage",
    }),
    variables=(KEY,),
    sign_in="set CURSOR_API_KEY",
)  # fmt: skip


class CursorCloudAgent:
    info = INFO

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        refuse(self.info, spec)
        if spec.mode == "ask":
            raise Unsupported(NAME, "ask mode", hint="use plan mode")
        options = spec.native.options
        launch = _launch(spec)
        known = launch.repository or launch.pull_request or options.get("no_repository") is True
        if not known and not spec.resume:
            raise UsageError(
                "a cloud agent needs a repository",
                hint=f"set agents.{NAME}.repository, or agents.{NAME}.no_repository = true",
            )
        from tillerman.agents.cursor_cloud.conversation import CloudConversation

        client = _client(host.variable(KEY), options)
        try:
            agent = await client.agent(spec.resume) if spec.resume else None
        except BaseException:
            await client.connection.close()
            raise
        return CloudConversation(client, launch, agent, wake_file=find_paths().cloud_wake)

    def cloud(self, run: RunCommand) -> CursorCloudClient:
        return _client(run.variable(KEY), {name: run.option(name) for name in _SETTINGS})

    async def account(self, run: RunCommand) -> Account:
        from tillerman.agents.cursor_cloud.failures import CloudRequestFailed

        options = {name: run.option(name) for name in _SETTINGS}
        try:
            async with _client(run.variable(KEY), options, tries=ACCOUNT_TRIES) as client:
                identity = await client.identity()
        except NotSignedIn:
            return Account(signed_in=False, hint=NEED_KEY)
        except CloudRequestFailed as error:
            if error.status != 401:
                raise
            return Account(signed_in=False, hint=error.hint)
        return Account(signed_in=True, method="api key", who=identity.user or identity.key_name)

    async def models(self, run: RunCommand) -> Sequence[Model]:
        async with self.cloud(run) as client:
            return await client.models()

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        found: list[NativeSession] = []
        async with self.cloud(run) as client:
            async for agent in client.agents():
                updated = agent.updated or agent.created
                found.append(NativeSession(agent.id, agent.name, updated))
                if len(found) == MOST_LISTED:
                    break
        return found

    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        async with self.cloud(run) as client:
            return await client.history(session.native_id)

    def status_change(
        self, secret: str, headers: Mapping[str, str], body: bytes
    ) -> CloudStatusChange | None:
        from tillerman.agents.cursor_cloud.webhook import status_change

        return status_change(secret, headers, body)


_SETTINGS = ("api_key", "base_url")


def _client(
    variable: str | None, options: Mapping[str, Any], *, tries: int | None = None
) -> CursorCloudClient:
    from tillerman.agents.cursor_cloud.client import CursorCloudClient
    from tillerman.agents.cursor_cloud.connection import check_settings

    settings = check_settings(variable or _text(options, "api_key"), _text(options, "base_url"))
    if tries:
        settings = settings._replace(backoff=settings.backoff._replace(tries=tries))
    return CursorCloudClient(settings, find_paths().cache / NAME)


def _launch(spec: SessionSpec) -> CloudLaunch:
    """What a first prompt launches; the prompt is filled in then."""
    options = spec.native.options
    url, secret = _text(options, "webhook_url"), _text(options, "webhook_secret")
    if bool(url) != bool(secret):
        raise UsageError(
            f"agents.{NAME} has only one of webhook_url and webhook_secret",
            hint="set both, or none",
        )
    return CloudLaunch(
        Prompt(""),
        model=spec.model,
        repository=_text(options, "repository"),
        ref=_text(options, "ref"),
        pull_request=_text(options, "pull_request"),
        branch=_text(options, "branch"),
        create_pull_request=options.get("create_pull_request") is True,
        mode="plan" if spec.mode == "plan" else "agent",
        webhook=CloudWebhook(url, secret) if url and secret else None,
    )


def _text(options: Mapping[str, Any], name: str) -> str | None:
    value = options.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"agents.{NAME}.{name} is not a text: {value!r}", hint="quote it")
    return value or None


agent = CursorCloudAgent()
