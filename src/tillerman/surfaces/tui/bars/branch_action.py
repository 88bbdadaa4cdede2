"""Runs the next action of the branch after confirmation: commands, or a prompt to the agent."""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from tillerman.core.errors import TillermanError
from tillerman.core.terminal_sanitizer import reveal
from tillerman.paths import find_paths
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.conversation.blocks import CommandBlock
from tillerman.surfaces.tui.dialogs.confirmation import Confirmation
from tillerman.surfaces.tui.terminal.ansi_colors import colored
from tillerman.workspace.branch.next_action import Action, prepare, run_command
from tillerman.workspace.branch.skill_file import FoundSkill, find_skill
from tillerman.workspace.branch.status import Breadcrumb
from tillerman.workspace.git.bounded_command import CommandOutput
from tillerman.workspace.git.repository_state import read_repository

if TYPE_CHECKING:
    from tillerman.surfaces.tui.bars.branch_bar import BreadcrumbBar
    from tillerman.surfaces.tui.session_pane import SessionPane

SHOWN_PROMPT = 500  # lines; the dialog scrolls
SHOWN_OUTPUT = 60  # lines of command output


class RepositoryAction:
    """Runs for one session and reports there, even if another tab is visible."""

    def __init__(self, bar: BreadcrumbBar, pane: SessionPane) -> None:
        self._bar = bar
        self._pane = pane

    async def run(self) -> None:
        assert self._bar.repository is not None
        try:
            await self._run()
        except TillermanError as error:
            self._pane.complain(error)
        finally:
            self._bar.show_progress("")
            self._bar.repository.refresh()

    async def _run(self) -> None:
        watch = self._bar.repository
        assert watch is not None
        self._bar.show_progress("looking…")
        crumb = await watch.now(self._pane.folder)
        self._bar.show_progress(f"{crumb.status.action}…")
        top, id = crumb.repository.top, crumb.status.skill
        found = await asyncio.to_thread(find_skill, find_paths(), top, id)
        ready = await prepare(crumb, found.skill, watch.github, os.environ)
        if not await self._confirmed(crumb, found, ready):
            return
        if ready.prompt:
            self._pane.prompt(ready.prompt)
            return
        await self._same(crumb)
        await self._commands(crumb, ready)

    async def _confirmed(self, crumb: Breadcrumb, found: FoundSkill, ready: Action) -> bool:
        title = f"{crumb.status.action} · {crumb.branch}"
        skill = found.skill
        source = f"skill {skill.id}: {skill.source}"
        notes = [*ready.notes, *found.notes]
        what: RenderableType = Group(*(_command(one) for one in ready.commands))
        yes = "run"
        if ready.prompt:
            first = Text(f"{formatting.one_line(source)}\n", style="dim")  # source of the prompt
            what, yes = Group(first, _shown_prompt(ready.prompt)), "send to the agent"
        else:
            notes.append(source)
        asked = Confirmation(title, what, notes=notes, yes=yes, no="cancel")
        confirmed: bool | None = await self._bar.app.push_screen_wait(asked)
        return bool(confirmed)

    async def _same(self, crumb: Breadcrumb) -> None:
        """Raises if the branch changed since the confirmation."""
        before, now = crumb.repository, await read_repository(crumb.repository.top)
        if (before.branch, before.state.commit) != (now.branch, now.state.commit):
            raise TillermanError(
                f"nothing was run: {formatting.one_line(crumb.branch)} has changed",
                hint="check the branch again",
            )

    async def _commands(self, crumb: Breadcrumb, ready: Action) -> None:
        for number, command in enumerate(ready.commands):
            self._bar.show_progress(f"{_shown(command)}…")
            reported = await run_command(crumb.repository, command, os.environ)
            body: list[RenderableType] = [_output(reported)]
            if reported.code:
                body.append(Text(f"Exited with {reported.code}.", style="red"))
                body += [Text(f"Not run: {_shown(one)}") for one in ready.commands[number + 1 :]]
            self._pane.report(
                CommandBlock(f"{'✗' if reported.code else '✓'} {_shown(command)}", Group(*body))
            )
            if reported.code:
                return


def _shown(command: tuple[str, ...]) -> str:
    return formatting.one_line(formatting.revealed(shlex.join(command)))


def _command(command: tuple[str, ...]) -> Text:
    return Text(f"$ {_shown(command)}", style="bold", overflow="fold")


def _shown_prompt(prompt: str) -> Text:
    lines = reveal(prompt).splitlines()
    text = Text("\n".join(lines[:SHOWN_PROMPT]))
    if len(lines) > SHOWN_PROMPT:
        text.append(f"\n… {len(lines) - SHOWN_PROMPT} more lines", style="dim")
    return text


def _output(reported: CommandOutput) -> Text:
    """Combines stdout and stderr, since git reports its progress on stderr."""
    text = b"\n".join(part.strip() for part in (reported.out, reported.err) if part.strip())
    lines = text.decode("utf-8", "replace").splitlines()
    shown = colored("\n".join(lines[-SHOWN_OUTPUT:])) if lines else Text("(no output)")
    if len(lines) > SHOWN_OUTPUT:
        left = Text(f"… {len(lines) - SHOWN_OUTPUT} earlier lines\n")
        shown = left.append_text(shown)
    shown.style = "dim"
    return shown
