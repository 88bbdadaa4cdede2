"""`bridle run`: one prompt, and all that follows until the agent is idle."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle.core.errors import SessionNotFound, UsageError
from bridle.surfaces.cli import asked, opened

if TYPE_CHECKING:
    from bridle.app import Harness
    from bridle.sessions.session import Session

GOODBYE = 5.0  # seconds for a cancelled turn to end, when nobody reads any more


def run(options: Namespace) -> int:
    if options.fork and options.resume is None:
        raise UsageError("--fork copies a session: say which", hint="bridle run --resume ID --fork")
    if options.worktree is not None and options.resume is not None:
        raise UsageError("--worktree is for new sessions", hint="leave it out with --resume")
    folder = asked.working_folder(options)
    wishes = asked.wishes(options)
    files = asked.attachments(options.attach)
    text = asked.prompt_text(options)
    return asyncio.run(_run(options, folder, text, files, wishes))


async def _run(
    options: Namespace,
    folder: Path,
    text: str,
    files: list[tuple[str, str, bytes]],
    wishes: dict[str, Any],
) -> int:
    from bridle.core.agent import File

    async with opened.harness(options, folder) as harness:
        session, notes = await _session(harness, options, folder, wishes)
        since = session.last_seq
        await session.prompt(text, files=[File(*file) for file in files])
        limit = harness.config.limits.request
        return await _watch(options, session, since, notes, limit)


async def _watch(
    options: Namespace, session: Session, since: int, notes: list[str], limit: float | None
) -> int:
    from bridle.surfaces.cli import watch

    keyboard = watch.find_keyboard(options)
    view = await watch.open_view(options, session, keyboard, prompts=False)
    try:
        with watch.interruptible(session.cancel, view, keyboard):
            for note in notes:
                await view.tell(note)
            waiting = None if keyboard else watch.Waiting(view, session.id, limit)
            await watch.watch(session.pages_until_idle(since), view, waiting)
    except BrokenPipeError:
        async with asyncio.timeout(GOODBYE):
            await session.cancel()
            await session.idle()
        raise
    finally:
        await view.close()
    return view.outcomes.exit_code


async def _session(
    harness: Harness, options: Namespace, folder: Path, wishes: dict[str, Any]
) -> tuple[Session, list[str]]:
    if options.resume is not None:
        if options.agent:
            raise UsageError("a session keeps its agent", hint="leave out -a with --resume")
        try:
            return await harness.resume(options.resume, fork=options.fork, **wishes), []
        except SessionNotFound:
            if options.resume != "last":
                raise
            raise UsageError(
                "there is no earlier session in this folder", hint="`bridle sessions list`"
            ) from None
    notes: list[str] = []
    if options.worktree is not None:
        from bridle.workspace.worktree import create

        tree = await create(folder, harness.paths.state / "worktrees", options.worktree or None)
        folder, notes = tree.folder, [f"works in {tree.path} on branch {tree.branch}", *tree.notes]
        notes.append(f"to take it away: {tree.removal}")
    session = await harness.start(options.agent, cwd=folder, title=options.title, **wishes)
    return session, notes
