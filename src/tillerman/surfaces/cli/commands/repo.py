"""`tillerman repo`: shows the branch, pull request and merge status, and runs the next action."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import TillermanError, UsageError
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.cli.views.output import colored, confirmed, emit, emit_json, warn
from tillerman.surfaces.rendering.ansi_style import Style

if TYPE_CHECKING:
    from tillerman.workspace.branch.github import GitHub
    from tillerman.workspace.branch.next_action import Action
    from tillerman.workspace.branch.skill_file import FoundSkill
    from tillerman.workspace.branch.status import Breadcrumb

_COLORS = {
    "grey": "90", "amber": "33", "blue": "34", "red": "31", "bright red": "1;91", "green": "32",
    "purple": "35", "dark grey": "2;90",
}  # fmt: skip


def status(options: Namespace) -> int:
    return asyncio.run(_status(options))


def action(options: Namespace) -> int:
    return asyncio.run(_action(options))


# -- status ----------------------------------------------------------------------------------------


async def _status(options: Namespace) -> int:
    from tillerman.surfaces.rendering.branch_details import details
    from tillerman.workspace.branch.github import GitHub
    from tillerman.workspace.branch.status import as_data

    crumb = await _look(options, GitHub())
    if options.json:
        emit_json(as_data(crumb))
        return 0
    on = colored(options, sys.stdout)
    emit(_painted(crumb, on), *(Style(on)("dim", line) for line in details(crumb)))
    if problem := crumb.unavailable:
        emit(f"{_line(problem.text)}" + (f": {problem.hint}" if problem.hint else ""))
    return 0


async def _look(options: Namespace, github: GitHub) -> Breadcrumb:
    from tillerman.workspace.branch.status import crumb
    from tillerman.workspace.git.repository_state import read_repository

    folder = options.cwd.resolve()
    if not folder.is_dir():
        raise UsageError(f"{options.cwd}: no such folder", hint="create it, or give another folder")
    repository = await read_repository(folder)
    return crumb(repository, await github.pull_request(repository))


def _painted(crumb: Breadcrumb, on: bool) -> str:
    text = _line(crumb.text)
    if not on:
        return text
    label = crumb.status.label
    head, found, tail = text.rpartition(f" › {label}")
    code = _COLORS[crumb.status.color]
    return f"{head} › \x1b[{code}m{label}\x1b[0m{tail}" if found else text


# -- action ----------------------------------------------------------------------------------------


async def _action(options: Namespace) -> int:
    from tillerman.config import find_paths
    from tillerman.workspace.branch.github import GitHub
    from tillerman.workspace.branch.next_action import prepare
    from tillerman.workspace.branch.skill_file import find_skill

    github = GitHub()
    crumb = await _look(options, github)
    found = find_skill(find_paths(), crumb.repository.top, crumb.status.skill)
    for note in found.notes:
        warn(note)
    ready = await prepare(crumb, found.skill, github, os.environ)
    sys.stderr.write(f"{_line(crumb.text)}\n")
    if ready.prompt:
        return await _session(options, crumb, found, ready.prompt)
    return await _commands(options, crumb, ready)


async def _commands(options: Namespace, crumb: Breadcrumb, ready: Action) -> int:
    from tillerman.workspace.branch.next_action import run_command

    shown = [_line(shlex.join(command)) for command in ready.commands]
    for line in [f"{crumb.status.action} runs:", *(f"  {one}" for one in shown)]:
        sys.stderr.write(f"{line}\n")
    for note in ready.notes:
        sys.stderr.write(f"  ({_line(note)})\n")
    if not options.yes and not confirmed("run these commands?"):
        raise UsageError("nothing was run", hint="--yes runs without confirmation")
    for number, command in enumerate(ready.commands):
        reported = await run_command(crumb.repository, command, os.environ)
        _pass_on(reported.out, sys.stdout)
        _pass_on(reported.err, sys.stderr)
        if reported.code:
            left = shown[number + 1 :]
            more = f"; not run: {'; '.join(left)}" if left else ""
            raise TillermanError(
                f"`{shown[number]}` exited with {reported.code}{more}",
                hint="see its output above; `tillerman repo status` shows the current state",
            )
    return 0


async def _session(options: Namespace, crumb: Breadcrumb, found: FoundSkill, prompt: str) -> int:
    from tillerman.surfaces.cli import open_harness
    from tillerman.surfaces.cli.commands.run import watch_session
    from tillerman.surfaces.cli.parsing import run_options
    from tillerman.surfaces.cli.views import follow
    from tillerman.surfaces.cli.views.view import ViewContext

    folder = crumb.repository.top
    async with open_harness.harness(options, folder) as harness:
        keyboard = follow.find_keyboard(options)
        session = await harness.start(
            options.agent,
            cwd=folder,
            title=_line(f"{crumb.status.action}: {crumb.branch}"),
            unattended=keyboard is None,
            **run_options.limits(options),
        )
        await session.prompt(prompt)
        approve = open_harness.preset(harness, session.id)
        scene = ViewContext(folder, open_harness.resumable(harness, session.agent), approve=approve)
        notes = [f"skill {found.skill.id}: {_line(found.skill.source)}"]
        return await watch_session(options, session, scene, 0, notes, keyboard)


def _pass_on(output: bytes, stream: Any) -> None:
    """Prints command output sanitized, since it may contain comments of other users."""
    if text := clean(output.decode("utf-8", "replace")).rstrip():
        stream.write(f"{text}\n")
        stream.flush()


def _line(text: str) -> str:
    return " ".join(clean(text).split())
