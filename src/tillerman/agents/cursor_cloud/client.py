"""The client of the cloud API: version 1, and version 0 where version 1 lacks something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

from msgspec.structs import replace

from tillerman.agents.cursor_cloud import launch_retry
from tillerman.agents.cursor_cloud.api_objects import (
    CloudRun,
    agent_of,
    artifacts_of,
    identity_of,
    is_v0,
    models_of,
    repositories_of,
    run_of,
    usage_of,
)
from tillerman.agents.cursor_cloud.connection import (
    AGENTS,
    PAGE,
    V0_AGENTS,
    ApiConnection,
    ApiSettings,
    agent_path,
)
from tillerman.agents.cursor_cloud.failures import CloudRequestFailed, invalid
from tillerman.agents.cursor_cloud.launch_retry import may_be_done
from tillerman.agents.cursor_cloud.repository_cache import RepositoryCache
from tillerman.agents.cursor_cloud.run_events import RunEvents
from tillerman.agents.cursor_cloud.run_stream import RunStream
from tillerman.agents.cursor_cloud.v0_messages import ending_of, events_of
from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.core.agent import Prompt
from tillerman.core.agent_admin import Model
from tillerman.core.cloud import (
    RUNNING,
    CloudAgent,
    CloudArtifact,
    CloudIdentity,
    CloudLaunch,
    CloudNews,
    CloudRepositories,
    CloudUsage,
)
from tillerman.core.errors import UsageError
from tillerman.core.events import Event, TurnEnded

MOST_ARTIFACT = 4 << 30  # bytes
FIRST_POLL, LONGEST_POLL = 2.0, 60.0  # seconds between looks at an agent of version 0


class CursorCloudClient:
    def __init__(
        self, settings: ApiSettings, cache: Path, *, first_poll: float = FIRST_POLL
    ) -> None:
        self.connection = ApiConnection(settings)
        self._repositories = RepositoryCache(cache, settings)
        self._first_poll = first_poll
        self.wake = asyncio.Event()  # set by a webhook: look at once

    async def __aenter__(self) -> CursorCloudClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.connection.close()

    # -- agents ----------------------------------------------------------------------------------

    async def agents(
        self, *, archived: bool = False, pull_request: str | None = None
    ) -> AsyncIterator[CloudAgent]:
        """All pages; an agent that moves to a later page meanwhile comes once."""
        query = {"limit": str(PAGE), "includeArchived": "true" if archived else "false"}
        if pull_request:
            query["prUrl"] = pull_request
        seen: set[str] = set()
        async for one in self._pages(AGENTS, query):
            agent = agent_of(one)
            if agent.id and agent.id not in seen:
                seen.add(agent.id)
                yield agent

    async def v0_agents(self) -> AsyncIterator[CloudAgent]:
        """The agents of version 0, which version 1 may not list."""
        async for one in self._pages(V0_AGENTS, {"limit": str(PAGE)}, items="agents"):
            yield agent_of(one)

    async def find(self, id: str) -> CloudAgent | None:
        try:
            return await self.agent(id)
        except CloudRequestFailed as error:
            if error.status == 404:
                return None
            raise

    async def agent(self, id: str) -> CloudAgent:
        agent = agent_of(await self.connection.get(agent_path(id)))
        if agent.id != id:
            raise invalid(f"another agent than {id}")
        if not agent.run or is_v0(id):
            return agent
        run = await self.run(id, agent.run)
        status = agent.status if agent.state == "archived" else run.status
        state = agent.state if agent.state == "archived" else run.state
        return replace(agent, state=state, status=status, branches=run.branches, summary=run.text)

    async def run(self, id: str, run: str) -> CloudRun:
        return run_of(await self.connection.get(f"{agent_path(id)}/runs/{quote(run, safe='')}"))

    async def runs(self, id: str) -> AsyncIterator[CloudRun]:
        """Newest first."""
        seen: set[str] = set()
        async for one in self._pages(f"{agent_path(id)}/runs", {"limit": str(PAGE)}):
            run = run_of(one)
            if run.id and run.id not in seen:
                seen.add(run.id)
                yield run

    async def _pages(
        self, path: str, query: Mapping[str, str], *, items: str = "items"
    ) -> AsyncIterator[Table]:
        asked = dict(query)
        passed: set[str] = set()
        while True:
            page = await self.connection.get(path, asked)
            for one in tables(page, items):
                yield one
            following = text(page, "nextCursor")
            if not following or following in passed:  # a cursor that repeats would never end
                return
            passed.add(following)
            asked["cursor"] = following

    # -- launch and follow-up --------------------------------------------------------------------

    async def launch(self, launch: CloudLaunch) -> CloudAgent:
        return await launch_retry.launch_once(self, launch)

    async def follow_up(self, id: str, prompt: Prompt) -> None:
        await self.start_run(id, prompt)

    async def start_run(self, id: str, prompt: Prompt, mode: str = "agent") -> str | None:
        """Sends a follow-up once; returns the id of its run, which version 0 does not have."""
        return await launch_retry.start_run_once(self, id, prompt, mode)

    # -- control ---------------------------------------------------------------------------------

    async def stop(self, id: str) -> bool:
        if is_v0(id):
            await self.connection.send("POST", f"{agent_path(id)}/stop")
            return True
        agent = agent_of(await self.connection.get(agent_path(id)))
        if not agent.run or (await self.run(id, agent.run)).ended:
            return False
        return await self.cancel_run(id, agent.run)

    async def cancel_run(self, id: str, run: str) -> bool:
        try:
            path = f"{agent_path(id)}/runs/{quote(run, safe='')}/cancel"
            await self.connection.send("POST", path)
        except CloudRequestFailed as error:
            if error.code == "run_not_cancellable":  # perhaps by the first of two tries
                return False
            raise
        return True

    async def delete(self, id: str) -> None:
        try:
            await self.connection.send("DELETE", agent_path(id), repeatable=False)
        except CloudRequestFailed as error:
            if not may_be_done(error):
                raise
            with suppress(CloudRequestFailed):
                await self.connection.send("DELETE", agent_path(id))
            if await self.find(id):
                raise

    async def archive(self, id: str, archived: bool = True) -> None:
        self._need_v1(id, "archiving")
        word = "archive" if archived else "unarchive"
        await self.connection.send("POST", f"{agent_path(id)}/{word}")

    # -- results ---------------------------------------------------------------------------------

    async def artifacts(self, id: str) -> Sequence[CloudArtifact]:
        self._need_v1(id, "artifacts")
        return artifacts_of(await self.connection.get(f"{agent_path(id)}/artifacts"))

    async def download(self, id: str, path: str, to: Path) -> int:
        """Writes the artifact; the file appears whole or not at all."""
        self._need_v1(id, "artifacts")
        if to.exists():
            raise UsageError(f"{to} exists already", hint="give another file name")
        if not to.parent.is_dir():
            raise UsageError(f"there is no folder {to.parent}", hint="create it")
        answer = await self.connection.get(f"{agent_path(id)}/artifacts/download", {"path": path})
        draft = to.with_name(f".{to.name}.part")
        size = 0
        try:
            with draft.open("wb") as file:
                async with self.connection.foreign(text(answer, "url")) as response:
                    async for part in response.aiter_bytes():
                        size += len(part)
                        if size > MOST_ARTIFACT:
                            raise invalid("an artifact that is too large")
                        file.write(part)
            draft.replace(to)
        finally:
            draft.unlink(missing_ok=True)
        return size

    async def usage(self, id: str, run: str | None = None) -> CloudUsage:
        self._need_v1(id, "usage")
        query = {"runId": run} if run else {}
        answer = await self.connection.get(f"{agent_path(id)}/usage", query)
        for one in tables(answer, "runs"):
            if run and text(one, "id") == run:
                return usage_of(table(one, "usage"))
        return CloudUsage() if run else usage_of(table(answer, "totalUsage"))

    def _need_v1(self, id: str, what: str) -> None:
        if is_v0(id):
            raise UsageError(
                f"agent {id} belongs to version 0 of the API, which has no {what}",
                hint="launch it without a webhook and without a branch name",
            )

    # -- account ---------------------------------------------------------------------------------

    async def identity(self) -> CloudIdentity:
        return identity_of(await self.connection.get("/v1/me"))

    async def models(self) -> Sequence[Model]:
        return models_of(await self.connection.get("/v1/models"))

    async def repositories(self) -> CloudRepositories:
        async def fetch() -> tuple[str, ...]:
            return repositories_of(await self.connection.get("/v1/repositories"))

        return await self._repositories.read(fetch)

    # -- watch and history -----------------------------------------------------------------------

    def stream(self, id: str, run: str) -> RunStream:
        path = f"{agent_path(id)}/runs/{quote(run, safe='')}/stream"
        return RunStream(self.connection, path, partial(self.run, id, run))

    async def watch(self, id: str) -> AsyncIterator[CloudNews]:
        """Follows the agent's latest run until it ends."""
        agent = await self.agent(id)
        yield CloudNews(agent.state, agent.status)
        if is_v0(id):
            async for news in self.poll_v0(id):
                yield news
        elif agent.run:
            decoder = RunEvents(agent.run)
            async for event in self.stream(id, agent.run).events():
                events = decoder.decode(event)
                if event.kind == "result":
                    agent = await self.agent(id)
                if events or event.kind == "result":
                    yield CloudNews(agent.state, agent.status, tuple(events))

    async def poll_v0(self, id: str, known: int = 0) -> AsyncIterator[CloudNews]:
        """Looks at growing intervals, and at once after a webhook; `known` messages are skipped."""
        wait = self._first_poll
        while True:
            agent = await self.agent(id)
            messages = await self.messages(id)
            events = events_of(id, messages, known)
            if events:
                wait = self._first_poll
            known = max(known, len(messages))
            if agent.state not in RUNNING and agent.state != "unknown":
                yield CloudNews(agent.state, agent.status, (*events, ending_of(agent)))
                return
            yield CloudNews(agent.state, agent.status, tuple(events))
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.wake.wait()
            self.wake.clear()
            wait = min(wait * 1.5, LONGEST_POLL)

    async def message_count(self, id: str) -> int:
        return len(await self.messages(id))

    async def history(self, id: str) -> Sequence[Event]:
        if is_v0(id):
            return events_of(id, await self.messages(id), 0)
        runs = [run async for run in self.runs(id)]
        found: list[Event] = []
        for run in reversed(runs):
            decoder = RunEvents(run.id)
            stream = self.stream(id, run.id).events() if run.ended else None
            if stream:
                async for event in stream:
                    found += decoder.decode(event)
        return [event for event in found if not isinstance(event, TurnEnded)]

    async def messages(self, id: str) -> list[Table]:
        return tables(
            await self.connection.get(f"{V0_AGENTS}/{quote(id, safe='')}/conversation"), "messages"
        )
