"""Sends a launch or follow-up exactly once: after a lost answer, it looks before sending again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from tillerman.agents.cursor_cloud.api_objects import agent_of, is_v0, run_of
from tillerman.agents.cursor_cloud.connection import AGENTS, PAGE, V0_AGENTS, agent_path
from tillerman.agents.cursor_cloud.failures import CloudRequestFailed, invalid
from tillerman.agents.cursor_cloud.request_bodies import (
    launch_body,
    needs_v0,
    prompt_body,
    v0_launch_body,
)
from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.core.agent import Prompt
from tillerman.core.cloud import CloudAgent, CloudLaunch
from tillerman.core.failure import Failure

if TYPE_CHECKING:
    from tillerman.agents.cursor_cloud.client import CursorCloudClient

T = TypeVar("T")

LOOKS = 3  # for a launch whose answer was lost


async def launch_once(client: CursorCloudClient, launch: CloudLaunch) -> CloudAgent:
    """Launches once. After a lost answer the launched agent is looked for."""
    if needs_v0(launch):
        return await _launch_v0(client, v0_launch_body(launch), launch.prompt.text)
    body = launch_body(launch)
    id = str(body["agentId"])
    backoff, attempt = client.connection.settings.backoff, 0
    while True:
        try:
            answer = await client.connection.send("POST", AGENTS, body=body, repeatable=False)
            return _launched(answer)
        except CloudRequestFailed as error:
            attempt += 1
            if error.code == "agent_id_conflict":  # nobody else has this id: it is ours
                return await client.agent(id)
            if not may_be_done(error):
                raise
            if found := await _look(client, partial(client.find, id)):
                return found
            if attempt >= backoff.tries:
                raise _lost(error, "launched") from None
            # It did not arrive; should it yet, the server refuses the second with this id.
            await asyncio.sleep(backoff.delay(attempt, error.failure.retry_after))


async def _launch_v0(client: CursorCloudClient, body: dict[str, Any], prompt: str) -> CloudAgent:
    """Version 0 has no id of ours, so a launch whose answer was lost is never sent again."""
    before = {one["id"] for one in await _first_page(client) if "id" in one}
    try:
        return agent_of(
            await client.connection.send("POST", V0_AGENTS, body=body, repeatable=False)
        )
    except CloudRequestFailed as error:
        if not may_be_done(error):
            raise
        if found := await _look(client, partial(_found_v0, client, before, prompt)):
            return found
        raise _lost(error, "launched") from None


async def _first_page(client: CursorCloudClient) -> list[Table]:
    return tables(await client.connection.get(V0_AGENTS, {"limit": str(PAGE)}), "agents")


async def _found_v0(client: CursorCloudClient, before: set[str], prompt: str) -> CloudAgent | None:
    for one in await _first_page(client):
        if (id := text(one, "id")) and id not in before:
            messages = await client.messages(id)
            if messages and text(messages[0], "text") == prompt:
                return agent_of(one)
    return None


async def start_run_once(
    client: CursorCloudClient, id: str, prompt: Prompt, mode: str
) -> str | None:
    """Sends a follow-up once; returns the id of its run, which version 0 does not have."""
    if is_v0(id):
        await _follow_up_v0(client, id, prompt)
        return None
    before = text(await client.connection.get(agent_path(id)), "latestRunId")
    body = {"prompt": prompt_body(prompt), "mode": mode}
    path = f"{agent_path(id)}/runs"
    try:
        answer = await client.connection.send("POST", path, body=body, repeatable=False)
        return run_of(table(answer, "run")).id or before
    except CloudRequestFailed as error:
        if not may_be_done(error):
            raise

        async def newer() -> str | None:
            latest = text(await client.connection.get(agent_path(id)), "latestRunId")
            return latest if latest != before else None

        if found := await _look(client, newer):
            return found
        raise _lost(error, "sent") from None


async def _follow_up_v0(client: CursorCloudClient, id: str, prompt: Prompt) -> None:
    before = len(await client.messages(id))
    try:
        body = {"prompt": prompt_body(prompt, v0=True)}
        await client.connection.send(
            "POST", f"{agent_path(id)}/followup", body=body, repeatable=False
        )
    except CloudRequestFailed as error:
        if not may_be_done(error):
            raise

        async def arrived() -> bool:
            new = (await client.messages(id))[before:]
            return any(text(one, "text") == prompt.text for one in new)

        if not await _look(client, arrived):
            raise _lost(error, "sent") from None


async def _look(client: CursorCloudClient, look: Callable[[], Awaitable[T]]) -> T:
    """Looks a few times: what was sent may still be on its way."""
    for attempt in range(1, LOOKS + 1):
        if found := await look():
            return found
        await asyncio.sleep(client.connection.settings.backoff.delay(attempt) / 2)
    return await look()


def _launched(answer: Table) -> CloudAgent:
    agent, run = agent_of(table(answer, "agent")), run_of(table(answer, "run"))
    if not agent.id:
        raise invalid("no agent in the answer to a launch")
    return replace(agent, run=agent.run or run.id or None, state=run.state, status=run.status)


def may_be_done(error: CloudRequestFailed) -> bool:
    """Whether the request may have been carried out although it failed."""
    return error.sent and (error.status is None or error.status >= 500)


def _lost(error: CloudRequestFailed, what: str) -> CloudRequestFailed:
    message = f"it is not known whether it was {what}: {error.message}"
    hint = "`tillerman cloud list` shows whether it was"
    failure = Failure(kind="api_error", message=message, hint=hint)
    return CloudRequestFailed(message, hint=hint, failure=failure)
