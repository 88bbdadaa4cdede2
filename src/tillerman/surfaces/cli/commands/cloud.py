"""`tillerman cloud`: launches, follows and controls agents that work in a vendor's cloud."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tillerman.core.agent import File, Prompt
from tillerman.core.cloud import (
    CloudAgent,
    CloudClient,
    CloudLaunch,
    CloudNews,
    CloudWebhook,
)
from tillerman.core.errors import UsageError
from tillerman.core.events import Event, MessageChunk, Notice, ToolStarted, TurnEnded
from tillerman.core.terminal_sanitizer import clean, json_safe
from tillerman.harness.cloud import cloud_client, place_of
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.parsing.run_options import attachments
from tillerman.surfaces.cli.views.output import (
    colored,
    confirmed,
    emit,
    emit_json,
    table,
    warn,
    width,
    write,
)
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.ansi_style import Style

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

HEAD = ("ID", "STATE", "WHEN", "WHAT")
SECRET = "TILLERMAN_CLOUD_WEBHOOK_SECRET"
MARKS = {"working": "●", "starting": "○", "finished": "✓", "failed": "✗"}
Work = Callable[[CloudClient, Namespace], Awaitable[int]]


def _command(work: Work) -> Callable[[Namespace], int]:
    async def run(options: Namespace) -> int:
        management, _ = open_harness.management(options)
        async with cloud_client(management, options.agent) as client:
            return await work(client, options)

    return lambda options: asyncio.run(run(options))


@_command
async def list_agents(client: CloudClient, options: Namespace) -> int:
    found: list[CloudAgent] = []
    async for agent in client.agents(archived=options.archived, pull_request=options.pr):
        found.append(agent)
        if len(found) == options.limit:
            break
    if options.json:
        emit_json(found)
    elif not found:
        emit("no cloud agents")
    else:
        rows = [
            (one.id, state_of(one), formatting.ago(one.updated or one.created), one.name)
            for one in found
        ]
        emit(table(rows, HEAD, Style(colored(options, sys.stdout)), width()))
    return 0


def state_of(agent: CloudAgent | CloudNews) -> str:
    """A word for people; a status that is not known is shown as it came."""
    return agent.status if agent.state == "unknown" else agent.state


@_command
async def launch(client: CloudClient, options: Namespace) -> int:
    wanted = CloudLaunch(
        _prompt(options),
        model=options.model,
        pull_request=options.pr,
        branch=options.branch,
        create_pull_request=options.create_pr,
        name=options.name,
        mode=options.mode,
        webhook=_webhook(options.webhook),
    )
    if sum(map(bool, (options.repo, options.pr, options.no_repo))) > 1:
        raise UsageError("give one of --repo, --pr and --no-repo", hint="the others follow from it")
    if options.repo:
        wanted = msgspec.structs.replace(wanted, repository=options.repo, ref=options.ref)
    elif not options.pr and not options.no_repo:
        place = await place_of(Path.cwd(), options.ref)
        for text in place.warnings:
            warn(text)
        wanted = msgspec.structs.replace(wanted, repository=place.repository, ref=place.ref)
    agent = await client.launch(wanted)
    if not options.watch:
        _print_agent(agent, options)
        return 0
    write(sys.stderr, f"{agent.id} {clean(agent.url)}\n")
    return await _follow(client, agent.id, options)


def _webhook(url: str | None) -> CloudWebhook | None:
    """The secret comes by the environment: every user can read command lines."""
    if url is None:
        return None
    if not (secret := os.environ.get(SECRET)):
        raise UsageError("the webhook has no secret", hint=f"set {SECRET}")
    return CloudWebhook(url, secret)


def _prompt(options: Namespace) -> Prompt:
    text = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not text.strip():
        raise UsageError("the prompt is empty", hint='tillerman cloud launch "what to do"')
    return Prompt(text, tuple(File(*one) for one in attachments(options.attach)))


@_command
async def show(client: CloudClient, options: Namespace) -> int:
    agent = await client.agent(options.id)
    if options.json:
        emit_json(agent)
        return 0
    rows = [
        ("id", agent.id),
        ("name", agent.name),
        ("state", state_of(agent)),
        ("page", agent.url),
        ("repository", " ".join(filter(None, (agent.repository, agent.ref)))),
        ("created", agent.created),
        *(("branch", f"{one.branch} of {one.repository}") for one in agent.branches),
        *(("pull request", one.pull_request or "") for one in agent.branches),
        ("result", agent.summary),
    ]
    emit(*(f"{name:<13} {_line(value)}" for name, value in rows if value))
    return 0


@_command
async def watch(client: CloudClient, options: Namespace) -> int:
    return await _follow(client, options.id, options)


async def _follow(client: CloudClient, id: str, options: Namespace) -> int:
    code, state = 0, ""
    async with aclosing(client.watch(id)) as changes:  # type: ignore[type-var]
        async for news in changes:
            if options.json:
                data = msgspec.json.encode({"id": id, **msgspec.to_builtins(news)})
                write(sys.stdout, json_safe(data).decode() + "\n")
            elif (now := state_of(news)) != state:
                state = now
                write(sys.stderr, f"{MARKS.get(state, '·')} {_line(state)}\n")
            for event in news.events:
                code = 1 if isinstance(event, TurnEnded) and event.reason == "failed" else code
                if not options.json:
                    _print_event(event)
    if not options.json:
        write(sys.stdout, "\n")
    return code


def _print_event(event: Event) -> None:
    match event:
        case MessageChunk(text=text):
            write(sys.stdout, clean(text))
        case ToolStarted(title=title) | Notice(text=title):
            write(sys.stderr, f"\n· {_line(title)}\n")
        case TurnEnded(failure=failure) if failure:
            write(sys.stderr, f"error: {_line(failure.message)}\n")


@_command
async def follow_up(client: CloudClient, options: Namespace) -> int:
    await client.follow_up(options.id, _prompt(options))
    _done(options, "sent")
    return 0


@_command
async def stop(client: CloudClient, options: Namespace) -> int:
    stopped = await client.stop(options.id)
    _done(options, "stopped" if stopped else "not running")
    return 0


@_command
async def delete(client: CloudClient, options: Namespace) -> int:
    if options.archive:
        await client.archive(options.id)
        _done(options, "archived")
        return 0
    if not options.yes and not confirmed(f"delete cloud agent {options.id} permanently?"):
        raise UsageError("nothing was deleted", hint="--yes deletes without confirmation")
    await client.delete(options.id)
    _done(options, "deleted")
    return 0


@_command
async def artifacts(client: CloudClient, options: Namespace) -> int:
    if options.download:
        to = options.output or Path(Path(options.download).name)
        size = await client.download(options.id, options.download, to)
        if options.json:
            emit_json({"file": str(to), "size": size})
        else:
            emit(f"{to}: {size} bytes")
        return 0
    if options.output:
        raise UsageError("-o is for --download", hint="give --download PATH too")
    found = await client.artifacts(options.id)
    if options.json:
        emit_json(found)
    elif not found:
        emit("no artifacts")
    else:
        rows = [(str(one.size), formatting.ago(one.updated), one.path) for one in found]
        _print_table(rows, ("BYTES", "WHEN", "PATH"), options)
    return 0


@_command
async def models(client: CloudClient, options: Namespace) -> int:
    found = await client.models()
    if options.json:
        emit_json(found)
    else:
        _print_table([(one.id, one.title) for one in found], ("MODEL", "TITLE"), options)
    return 0


@_command
async def repositories(client: CloudClient, options: Namespace) -> int:
    found = await client.repositories()
    if options.json:
        emit_json(found)
        return 0
    emit(*map(_line, found.urls))
    if found.age:
        warn(f"this list is {found.age:.0f} s old", "the vendor gives it once a minute")
    return 0


@_command
async def whoami(client: CloudClient, options: Namespace) -> int:
    identity = await client.identity()
    if options.json:
        emit_json(identity)
    else:
        emit(_line(f"{identity.user or 'a service account'}, key {identity.key_name}"))
    return 0


@open_harness.command
async def import_agent(harness: Harness, options: Namespace) -> int:
    from tillerman.harness.cloud_import import import_cloud_agent

    row = await import_cloud_agent(
        harness, options.id, name=options.agent, worktree=options.worktree
    )
    if options.worktree is not None:
        write(sys.stderr, f"worktree {row.cwd}\n")
    if options.json:
        emit_json({"session": row.id, "cloud_agent": options.id, "cwd": row.cwd})
    else:
        emit(row.id)
    return 0


def _print_agent(agent: CloudAgent, options: Namespace) -> None:
    if options.json:
        emit_json(agent)
    else:
        emit(_line(agent.id))
        write(sys.stderr, f"{_line(agent.url)}\n")


def _print_table(rows: Sequence[Sequence[str]], head: Sequence[str], options: Namespace) -> None:
    emit(table(rows, head, Style(colored(options, sys.stdout)), width()))


def _done(options: Namespace, what: str) -> None:
    if options.json:
        emit_json({"id": options.id, "done": what})
    else:
        emit(what)


def _line(text: Any) -> str:
    return " ".join(clean(str(text)).split())
