"""`tillerman run`: sends one prompt and follows the session until the agent is idle."""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import AgentNotInstalled, UsageError
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.parsing import run_options

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness
    from tillerman.sessions.prestart import Prestart
    from tillerman.sessions.session import Session
    from tillerman.store.session_row import SessionRow
    from tillerman.surfaces.cli.views.keyboard import Keyboard
    from tillerman.surfaces.cli.views.view import ViewContext

GOODBYE = 5.0  # seconds for a cancelled turn to end after the output pipe broke
ADVICE = (
    "a run without a terminal asks less with --approve edits or auto, never with readonly or none"
)


def run(options: Namespace) -> int:
    if options.fork and options.resume is None:
        raise UsageError("--fork requires --resume", hint="tillerman run --resume ID --fork")
    if options.worktree is not None and options.resume is not None:
        raise UsageError("--worktree is for new sessions", hint="omit it with --resume")
    folder = run_options.working_folder(options)
    requested = run_options.requested(options)
    files = run_options.attachments(options.attach)
    text = run_options.prompt_text(options)
    if options.detach:
        return _detached(options, folder, text, files, requested)
    head = _head_start(options, folder, requested)

    import asyncio

    return asyncio.run(_run(options, folder, text, files, requested, head))


def _detached(
    options: Namespace,
    folder: Path,
    text: str,
    files: list[tuple[str, str, bytes]],
    requested: dict[str, Any],
) -> int:
    """Starts the turn in the service, and prints the session's id."""
    from tillerman.surfaces.cli.detached_turn import start
    from tillerman.surfaces.cli.views.output import emit, emit_json

    if options.head is not None:
        options.head.drop()
    if options.worktree is not None or options.fork:
        raise UsageError(
            "--worktree and --fork cannot be given with --detach",
            hint="run it without --detach, or fork the session first: `tillerman sessions fork ID`",
        )
    row = start(options, folder, text, files, requested)
    if options.json:
        emit_json(row)
    else:
        emit(row["id"])
    return 0


def _head_start(options: Namespace, folder: Path, requested: dict[str, Any]) -> Prestart | None:
    """Starts the agent process early, while asyncio, the store and other modules are loading."""
    from tillerman.config import load

    config = load(folder)
    head: Prestart | None = options.head
    if head is None:
        return None
    if options.resume is not None or options.worktree is not None:
        head.drop()
        return None
    from tillerman.harness.agent_selection import select_agents

    who = select_agents(config, options.agent, requested.get("model"), folder)
    if len(who.names) > 1 or ":" in who.names[0]:
        head.drop()
        return None
    from tillerman.harness.launch_plan import launch_plan

    made = launch_plan(config, who.names[0], cwd=folder, **who.requested(requested))
    try:
        head.spawn(*made)
    except AgentNotInstalled:
        if not who.substitutes:
            raise
        head.drop()
        return None
    return head


async def _run(
    options: Namespace,
    folder: Path,
    text: str,
    files: list[tuple[str, str, bytes]],
    requested: dict[str, Any],
    head: Prestart | None,
) -> int:
    from tillerman.core.agent import File
    from tillerman.surfaces.cli.views import follow
    from tillerman.surfaces.cli.views.view import ViewContext

    async with open_harness.harness(options, folder) as harness:
        notes: list[str] = []
        since = 0
        keyboard = follow.find_keyboard(options)
        requested = {**requested, "unattended": keyboard is None}
        if options.resume is None:
            if options.worktree is not None:
                folder, notes = await _worktree(harness, folder, options.worktree)
            session = await harness.start(
                options.agent, cwd=folder, title=options.title, head=head, **requested
            )
        else:
            row = _row(harness, options, folder)
            session = await harness.resume(row.id, fork=options.fork, **requested)
            since, folder = session.since, Path(row.cwd)
        await session.prompt(text, files=[File(*file) for file in files])
        approve = open_harness.preset(harness, session.id)
        scene = ViewContext(folder, open_harness.resumable(harness, session.agent), approve=approve)
        return await watch_session(options, session, scene, since, notes, keyboard)


async def watch_session(
    options: Namespace,
    session: Session,
    scene: ViewContext,
    since: int,
    notes: list[str],
    keyboard: Keyboard | None,
) -> int:
    from tillerman.surfaces.cli.views import follow

    view = await follow.open_view(options, session, keyboard, scene)
    try:
        with follow.interruptible(session.cancel, view, keyboard):
            for note in notes:
                await view.report(note)
            limit = session.request_limit
            waiting = None if keyboard else follow.WaitNotice(view, session.id, limit, ADVICE)
            await follow.watch(session.pages_until_idle(since), view, waiting)
    except BrokenPipeError:
        import asyncio

        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE):
                await session.cancel()
                await session.idle()
        raise
    finally:
        await view.close()
    return view.outcomes.exit_code


def _row(harness: Harness, options: Namespace, folder: Path) -> SessionRow:
    row = open_harness.row(harness, options.resume, folder)
    if options.agent not in (None, row.agent):
        raise UsageError(
            f"session {row.id} uses {row.agent}",
            hint=f"omit -a, or switch the agent: tillerman handoff {row.id} -a {options.agent}",
        )
    return row


async def _worktree(harness: Harness, folder: Path, name: str) -> tuple[Path, list[str]]:
    """Creates a worktree; returns the folder to work in and notices about it."""
    from tillerman.workspace.git.worktree import create

    tree = await create(folder, harness.paths.state / "worktrees", name or None)
    where = f"works in {tree.path} on branch {tree.branch}"
    return tree.folder, [
        where,
        *tree.notes,
        f"to remove it with all its content: {tree.removal}",
    ]
