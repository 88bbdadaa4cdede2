"""Pane of one session: conversation, request prompt and prompt box."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.worker import Worker

from tillerman.core.errors import RequestNotOpen, TillermanError, UsageError
from tillerman.core.transcript.session_titles import displayed_title
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.bars.status_bar import SessionStatus, totals_of
from tillerman.surfaces.tui.conversation.view import ConversationView
from tillerman.surfaces.tui.dialogs.request_prompt import RequestPrompt
from tillerman.surfaces.tui.prompt.completions import Completion
from tillerman.surfaces.tui.prompt.history import prompts_of
from tillerman.surfaces.tui.prompt.prompt_box import PromptBox

if TYPE_CHECKING:
    from tillerman.core.agent import File
    from tillerman.core.events import Answer, Entry
    from tillerman.core.session_options import WhenBusy
    from tillerman.core.transcript.transcript import Transcript
    from tillerman.surfaces.rendering.dialogs import PermissionDialog
    from tillerman.surfaces.tui.conversation.blocks import (
        BlockList,
        CommandBlock,
        ConversationBlock,
    )
    from tillerman.surfaces.tui.dialogs.input_editor import InputEditor
    from tillerman.surfaces.tui.prompt.shell_command import ShellLine
    from tillerman.surfaces.tui.session_controller import SessionController

FRAME = 0.05  # minimum seconds between frames
SPIN = 0.125
PAGE = 500  # history entries read at once


class SessionPane(Vertical):
    DEFAULT_CSS = """
    SessionPane { height: 1fr; }
    """

    class Changed(Message):
        """The status shown in the status bar may have changed."""

        def __init__(self, pane: SessionPane) -> None:
            super().__init__()
            self.pane = pane

    class Waits(Message):
        """An agent waits for an answer."""

        def __init__(self, pane: SessionPane, title: str) -> None:
            super().__init__()
            self.pane = pane
            self.title = title

    def __init__(self, folder: Path, channel: SessionController | None = None, *, id: str) -> None:
        super().__init__(id=id)
        self.channel = channel  # None until the harness is open
        self._folder = folder
        self._conversation = ConversationView()
        self._request = RequestPrompt(folder)
        self.box = PromptBox(folder)
        self._first = 0  # sequence number before the oldest shown entry
        self._last = 0  # of the newest shown entry
        self._follower: Worker[None] | None = None
        self._reading = False  # reading more history
        self._editor: InputEditor | None = None  # while an input is edited
        self._last_paint = 0.0
        self._paint_due: asyncio.TimerHandle | None = None
        self._spinner: Timer | None = None
        self._starting = False  # a prompt waits for the agent to start
        self._shell: ShellLine | None = None  # the last shell command run here
        self.told: ConversationBlock | None = None  # the last command block
        self.choosing = asyncio.Lock()
        self.chosen = ("", 0.0)  # last approval preset, and when
        self.box.sources.commands = self._commands

    def compose(self) -> ComposeResult:
        yield self._conversation
        yield self._request
        yield from self.box.above
        yield self.box

    def on_mount(self) -> None:
        self._spinner = self.set_interval(SPIN, self._spin, pause=True)
        if self.channel:
            self.begin(self.channel)

    # -- session -----------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Working directory of the agent."""
        return self.channel.cwd if self.channel else self._folder

    @cached_property
    def outline(self) -> BlockList:
        """Imported lazily, since the first frame does not need it."""
        from tillerman.surfaces.tui.conversation.blocks import BlockList

        return BlockList()

    @property
    def transcript(self) -> Transcript:
        return self.outline.transcript

    @property
    def conversation(self) -> ConversationView:
        return self._conversation

    @property
    def blank(self) -> bool:
        """True if it has no session, no blocks and no typed text."""
        begun = self.channel is not None and self.channel.id is not None
        return not begun and not self.box.text and not self.outline.pieces

    @property
    def busy(self) -> bool:
        """True if there is something to cancel."""
        by_person = self._shell is not None and self._shell.running
        return by_person or self._starting or self.transcript.busy

    @property
    def titled(self) -> str:
        row = self.channel.row if self.channel else None
        first = next((turn.prompt for turn in self.transcript.turns[:1]), None)
        given, prompt = (row.title, row.prompt) if row else (None, None)
        title = displayed_title(given, self.transcript.title, prompt or first)
        return formatting.one_line(title, 60)

    def take_focus(self) -> None:
        """Focuses an open request if no text is typed, else the prompt box."""
        (self._request if self._request.request and not self.box.text else self.box).focus()

    def begin(self, channel: SessionController) -> None:
        """Shows the last entries and follows new ones."""
        self.channel = channel
        self.box.belong(channel.cwd, partial(prompts_of, channel.harness, channel.cwd))
        self._conversation.reopen(self.outline)
        self._first, self._last = channel.tail()
        if self._last:
            self.outline.add(channel.past(self._first, self._last))
        self._paint()
        if channel.id:
            self._follow(channel)

    def renew(self, channel: SessionController) -> None:
        """Replaces the session."""
        self.workers.cancel_group(self, "follow")
        del self.outline
        self.begin(channel)

    async def hand_over(self, agent: str) -> None:
        """Hands the session over to another agent."""
        assert self.channel is not None
        await self.channel.hand_over(agent)
        self._follow(self.channel)

    def _follow(self, channel: SessionController) -> None:
        self._follower = self.run_worker(self._live(channel), group="follow", exclusive=True)

    async def _live(self, channel: SessionController) -> None:
        try:
            async for page in channel.live(self._last):
                self._take(page)
        except Exception as error:
            self.complain(error)
        self._refresh_soon()

    def _take(self, page: Sequence[Entry]) -> None:
        self.outline.add(page)
        self._last = page[-1].seq
        self._refresh_soon()

    def on_conversation_view_reached_start(self, message: ConversationView.ReachedStart) -> None:
        if self.channel and self._first and not self._reading:
            self._reading = True
            self.run_worker(self._read_past(self.channel, message.whole), group="past")

    def on_conversation_view_left(self, message: ConversationView.Left) -> None:
        self.take_focus()

    async def _read_past(self, channel: SessionController, whole: bool) -> None:
        """Rebuilds all blocks, as later ones may depend on earlier ones; yields between pages."""
        from tillerman.surfaces.tui.conversation.blocks import BlockList

        first = 0 if whole else max(0, 2 * self._first - self._last)
        outline, read = BlockList(), first
        try:
            while read < self._last and channel is self.channel:
                upto = min(read + PAGE, self._last)
                outline.add(channel.past(read, upto))
                outline.refresh()
                read = upto
                await asyncio.sleep(0)
        finally:
            self._reading = False
        if channel is self.channel:
            outline.take_over(self.outline)
            self._first, self.outline = first, outline
            self._conversation.reopen(outline, to_start=whole)

    def prompt(self, text: str, files: Sequence[File] = (), when_busy: WhenBusy = "queue") -> None:
        self._attempt(self._prompt(text, files, when_busy))

    async def _prompt(self, text: str, files: Sequence[File], when_busy: WhenBusy) -> None:
        """Prompts the current session, since an earlier command may have replaced it."""
        channel = self.channel
        assert channel is not None
        self._starting = not channel.running
        self.post_message(self.Changed(self))
        try:
            await channel.prompt(text, files, when_busy)
        except TillermanError:
            self.box.give_back(text, files)
            raise
        finally:
            self._starting = False
            self.post_message(self.Changed(self))
            if channel.running and (self._follower is None or self._follower.is_finished):
                self._follow(channel)
        self._conversation.action_end()

    def cancel(self) -> None:
        """Cancels the user's shell command, else the agent's turn."""
        if self._shell and self._shell.running:
            self._shell.cancel()
        elif self.channel:
            if queued := self._queue:  # cancelled with the turn
                self.box.give_back("\n\n".join(queued))
            self._attempt(self.channel.cancel())

    def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        async def attempt() -> None:
            try:
                await work
            except RequestNotOpen:
                pass  # answered elsewhere; the log says by whom
            except Exception as error:
                self.complain(error)

        self.run_worker(attempt(), group="said")

    def on_request_prompt_answered(self, message: RequestPrompt.Answered) -> None:
        self._attempt(self._answer(message.request_id, message.answer))

    def on_request_prompt_edits_allowed(self, message: RequestPrompt.EditsAllowed) -> None:
        self._attempt(self._allow_edits(message.request_id, message.answer))

    async def _allow_edits(self, request_id: str, answer: Answer) -> None:
        from tillerman.surfaces.tui import approval_preset

        await self._answer(request_id, answer)
        await approval_preset.choose(self, "edits")

    async def _answer(self, request_id: str, answer: Answer) -> None:
        assert self.channel is not None
        try:
            await self.channel.answer(request_id, answer)
        except TillermanError:
            self._request.again()
            raise

    def on_request_prompt_typed_on(self, message: RequestPrompt.TypedOn) -> None:
        self.box.focus()
        self.box.post_message(message.typed)

    def on_request_prompt_edit_wanted(self, message: RequestPrompt.EditWanted) -> None:
        self.run_worker(self._edit(message.dialog), group="edit", exclusive=True)

    async def _edit(self, dialog: PermissionDialog) -> None:
        from tillerman.surfaces.tui.dialogs.input_editor import InputEditor

        self._editor = editor = InputEditor(dialog)
        answer = await self.app.push_screen_wait(editor)
        self._editor = None
        if answer:
            self._attempt(self._answer(dialog.request.request_id, answer))

    # -- prompt box --------------------------------------------------------------------------------

    def on_prompt_box_complaint(self, message: PromptBox.Complaint) -> None:
        self.complain(message.error)

    def _commands(self) -> Sequence[Completion]:
        from tillerman.surfaces.tui.commands import COMMANDS

        its_own = self.transcript.commands
        agent = formatting.one_line(self.transcript.agent or "the agent")
        return [
            *(Completion(one.name, one.help) for one in COMMANDS.values()),
            *(Completion(f"/{name.lstrip('/')}", f"command of {agent}") for name in its_own),
        ]

    def is_command(self, text: str) -> bool:
        from tillerman.surfaces.tui.commands import is_command

        return is_command(text, self.transcript.commands)

    def shell(self, line: str) -> None:
        """`!cmd` runs a command, `!!cmd` also sends its output, `!!` sends the last output."""
        assert self.channel is not None
        over = line.startswith("!!")
        command = line.lstrip("!").strip()
        if self._shell and self._shell.running:
            self.box.give_back(line)
            self.complain(
                UsageError("a shell command is already running", hint="press escape to stop it")
            )
        elif command:
            self._attempt(self._run_line(command, self.channel, over))
        elif over and self._shell:
            self.prompt(self._shell.handed_over())
        else:
            self.complain(
                UsageError(
                    "no shell command",
                    hint="!ls runs a command, !! sends the last output to the agent",
                )
            )

    async def _run_line(self, command: str, channel: SessionController, over: bool) -> None:
        from tillerman.surfaces.tui.prompt.shell_command import ShellLine

        def changed() -> None:
            piece.drawn = None
            self._refresh_soon()

        from tillerman.surfaces.tui.conversation.blocks import CommandBlock

        self._shell = shell = ShellLine(command, channel.cwd, changed)
        piece = self.report(CommandBlock(f"$ {formatting.one_line(command)}", shell, shell.whole))
        self._conversation.action_end()
        await shell.run(channel.harness.paths.spawns)
        if over and not shell.cancelled:
            self.prompt(shell.handed_over())

    # -- command output ----------------------------------------------------------------------------

    def report(
        self, command_block: CommandBlock, instead: ConversationBlock | None = None
    ) -> ConversationBlock:
        self.told = self.outline.report(command_block, instead)
        self._refresh_soon()
        return self.told

    def complain(self, error: Exception, instead: ConversationBlock | None = None) -> None:
        """Shows an error in this pane; other sessions are not affected."""
        from tillerman.surfaces.tui.conversation.command_output import error_block

        self.report(error_block(error), instead)

    # -- drawing -----------------------------------------------------------------------------------

    def _refresh_soon(self) -> None:
        """Schedules a redraw: at once if idle, else with the next frame."""
        if self._paint_due is None:
            wait = max(0.0, self._last_paint + FRAME - time.monotonic())
            self._paint_due = asyncio.get_running_loop().call_later(wait, self._paint)

    def _paint(self) -> None:
        self._paint_due = None
        if not self.is_attached:
            return
        try:
            with self.app._context():
                self._conversation.show()
                self._ask()
                self.box.report(self.transcript.busy, self._queue)
        except Exception as error:  # the event loop would only log it
            self.app._handle_exception(error)
            return
        self._last_paint = time.monotonic()
        if self._spinner:
            if self.transcript.busy and self.channel and self.channel.running:
                self._spinner.resume()
            else:
                self._spinner.pause()
        self.post_message(self.Changed(self))

    def _spin(self) -> None:
        self._conversation.tick += 1
        self._refresh_soon()

    def _ask(self) -> None:
        waiting = [request.asked for request in self.transcript.requests.values()]
        if self._editor and self._editor.is_mounted and self._editor.asked not in waiting:
            self._editor.outdated()
        had_focus = self._request.has_focus
        approve = self.channel.approve if waiting and self.channel else ""
        fresh = self._request.ask(waiting, approve)
        if fresh:
            if (self.box.has_focus and not self.box.text) or had_focus:
                self._request.take_keys()
            self.post_message(self.Waits(self, formatting.asked(waiting[0])))
        elif not waiting and had_focus:
            self.box.focus()

    @property
    def _queue(self) -> list[str]:
        from tillerman.surfaces.tui.prompt import queued_prompts

        return queued_prompts.waiting(self.transcript.turns) if self.transcript.busy else []

    def standing(self) -> SessionStatus:
        transcript, channel = self.transcript, self.channel
        row = channel.row if channel else None
        requested = channel.requested if channel else {}
        live_settings = {} if channel and channel.running else requested
        turn = transcript.turns[-1] if transcript.turns else None
        working = ""
        if turn and turn.status == "running" and channel and channel.running:
            working = "working" if not transcript.requests else "needs your approval"
        elif self._starting:
            working = "starting"
        elif transcript.background:
            working = "background work"
        begins = channel.agent if channel else None
        agent = row.agent if row else transcript.agent or begins or "no agent yet"
        reported = (
            transcript.model if agent == transcript.agent else None
        )  # else it is another agent's
        return SessionStatus(
            agent=agent,
            model=live_settings.get("model") or reported or (row.model if row else None),
            mode=live_settings.get("mode") or transcript.mode or (row.mode if row else None),
            approve=channel.approve if channel else "",
            session=channel.id if channel else None,
            totals=totals_of(transcript, row),
            queued=len(self._queue),
            waiting=len(transcript.requests),
            working=working,
            elsewhere=bool(channel and channel.running and not channel.ours),
        )
