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


def run(options: Namespace) -> int:
    if options.fork and options.resume is None:
        raise UsageError("--fork requires --resume", hint="tillerman run --resume ID --fork")
    if options.worktree is not None and options.resume is not None:
        raise UsageError("--worktree is for new sessions", hint="omit it with --resume")
    folder = run_options.working_folder(options)
    wishes = run_options.wishes(options)
    files = run_options.attachments(options.attach)
    text = run_options.prompt_text(options)
    head = _head_start(options, folder, wishes)

    import asyncio

    return asyncio.run(_run(options, folder, text, files, wishes, head))


def _head_start(options: Namespace, folder: Path, wishes: dict[str, Any]) -> Prestart | None:
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

    who = select_agents(config, options.agent, wishes.get("model"), folder)
    if len(who.names) > 1 or ":" in who.names[0]:
        head.drop()
        return None
    from tillerman.harness.launch_plan import launch_plan

    made = launch_plan(config, who.names[0], cwd=folder, **who.launch_options(wishes))
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
    wishes: dict[str, Any],
    head: Prestart | None,
) -> int:
    from tillerman.core.agent import File
    from tillerman.surfaces.cli.views import follow
    from tillerman.surfaces.cli.views.view import ViewContext

    async with open_harness.harness(options, folder) as harness:
        notes: list[str] = []
        since = 0
        keyboard = follow.find_keyboard(options)
        wishes = {**wishes, "unattended": keyboard is None}
        if options.resume is None:
            if options.worktree is not None:
                folder, notes = await _worktree(harness, folder, options.worktree)
            session = await harness.start(
                options.agent, cwd=folder, title=options.title, head=head, **wishes
            )
        else:
            row = _row(harness, options, folder)
            session = await harness.resume(row.id, fork=options.fork, **wishes)
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
                await view.tell(note)
            waiting = (
                None if keyboard else follow.WaitNotice(view, session.id, session.request_limit)
            )
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
