"""One session of an editor: follows its log, sends prompts and settings, whoever runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from tillerman.core.errors import SessionBusy, SessionError, TillermanError, Unsupported
from tillerman.core.events import (
    AgentReady,
    AgentStarted,
    Entry,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from tillerman.core.json_fields import Table, at
from tillerman.sessions.session import Session, read_all, to_the_end
from tillerman.store.session_row import SessionRow
from tillerman.surfaces.acp import prompt_input, replay
from tillerman.surfaces.acp.connection import EditorRefused
from tillerman.surfaces.acp.context import EditorContext
from tillerman.surfaces.acp.errors import RpcFailure, failed_turn, stop_reason
from tillerman.surfaces.acp.requests import EditorRequests
from tillerman.surfaces.acp.sent_prompt import CANCELLED, SentPrompt
from tillerman.surfaces.acp.session_handle import SessionHandle
from tillerman.surfaces.acp.settings import DEFAULT, CurrentSettings
from tillerman.surfaces.acp.turn_usage import TurnUsage
from tillerman.surfaces.acp.updates import SessionUpdates, chunk

BUFFER_MAX_WAIT = 5.0  # seconds for the editor to send the text of a buffer
JOINED_FROM = 64  # messages at once: the editor is behind, and chunks are joined
BATCH = 200  # updates of a history that are written at once

_Asked = PermissionRequested | QuestionAsked


class EditorSession:
    """`options` apply whenever this process starts the session's agent."""

    def __init__(
        self,
        context: EditorContext,
        row: SessionRow,
        handle: SessionHandle,
        *,
        since: int = 0,
    ) -> None:
        self.id = row.id
        self.cwd = row.cwd
        self._context = context
        self._connection = context.connection
        self._harness = context.harness
        self._handle = handle
        self._given: dict[str, Any] = {}  # settings that the log does not have yet
        self._told_options: list[Table] = []
        self._since = since
        self._prompts: list[SentPrompt] = []
        self._following: asyncio.Task[None] | None = None
        self._usage = TurnUsage()
        self._updates = self._fresh_updates()
        self._requests = EditorRequests(
            row.id, Path(row.cwd), context.connection, context.client, handle.answer, self._tell
        )

    def successor(self, row: SessionRow, options: dict[str, Any]) -> EditorSession:
        """The same session for an editor that opens it again: told anew, prompts go on."""
        last = self._harness.sessions.log.last_seq(row.id)
        self._handle.options |= options
        reopened = EditorSession(self._context, row, self._handle, since=last)
        reopened._prompts = self._prompts
        return reopened

    @property
    def row(self) -> SessionRow:
        return self._harness.sessions.catalog.get(self.id)

    @property
    def is_followed(self) -> bool:
        """Whether the editor knows the session by now."""
        return self._following is not None

    # -- from the log to the editor --------------------------------------------------------------

    async def send_history(self) -> None:
        """Replays everything up to now; `follow` continues there."""
        log = self._harness.sessions.log
        last = log.last_seq(self.id)
        withdrawn = log.of_types(self.id, ("message_withdrawn",))
        void = frozenset(
            (entry.turn, entry.event.message_id)
            for entry in withdrawn
            if isinstance(entry.event, MessageWithdrawn)
        )
        past = takewhile(lambda entry: entry.seq <= last, read_all(log, self.id))
        batch: list[Table] = []
        for update in replay.history(past, self._updates, void):
            batch.append(update)
            if len(batch) == BATCH:
                await self._send(batch)
                batch = []
        await self._send(batch)
        self._since = last

    def follow(self) -> None:
        self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        try:
            await self._connection.send(self._open_requests())
            while True:
                session = await self._handle.running()
                async for page in session.pages(self._since):
                    await self._pass_on(page)
                await self._handle.left(session)
                for prompt in self._prompts:
                    if prompt.is_elsewhere:
                        prompt.fail(_owner_ended(self.id))
        except Exception as error:
            for prompt in self._prompts:
                prompt.fail(error)
            raise

    async def _pass_on(self, page: Sequence[Entry]) -> None:
        answered = {
            entry.event.request_id for entry in page if isinstance(entry.event, RequestAnswered)
        }
        messages: list[Table] = []
        settings = False
        for entry in page:
            event = entry.event
            own = isinstance(event, TurnStarted) and any(
                prompt.began(entry.turn, event) for prompt in self._prompts
            )
            self._usage.add(entry)
            messages += self._updates.encode(entry, own=own)
            match event:
                case PermissionRequested() | QuestionAsked():
                    if event.request_id not in answered and self._is_open(event.request_id):
                        messages += self._shown(entry.turn, event)
                case RequestAnswered(request_id=request_id):
                    messages += self._requests.resolved(request_id)
                case SettingsChanged() | AgentStarted() | AgentReady() | Notice(kind="settings"):
                    settings = True
                    self._log_has(event)
                case TurnEnded():
                    await self._send(messages)
                    messages = []
                    self._turn_ended(entry.turn, event)
            self._since = entry.seq
        if settings:
            messages += self._changed_options()
        await self._send(messages)

    async def _send(self, messages: Sequence[Table]) -> None:
        """Sends updates of this session and other messages, in this order."""
        behind = len(messages) > JOINED_FROM
        await self._connection.send(
            self._connection.update(self.id, one) if "sessionUpdate" in one else one
            for one in (replay.joined(messages) if behind else messages)
        )

    def _turn_ended(self, number: int, event: TurnEnded) -> None:
        for prompt in self._prompts:
            withdrawn = prompt.is_elsewhere and prompt.waits and event.reason == "cancelled"
            if prompt.turn == number or withdrawn:
                prompt.end(event)

    def _fresh_updates(self) -> SessionUpdates:
        images = self._harness.sessions.attachments.get
        return SessionUpdates(self.cwd, images, self._context.client)

    def _changed_options(self) -> list[Table]:
        """The update with all config options, if they are not as the editor knows them."""
        known, options = self._told_options, self.config_options()
        if options == known:
            return []
        return [{"sessionUpdate": "config_option_update", "configOptions": options}]

    async def tell_settings(self) -> None:
        await self._send(self._changed_options())

    async def _tell(self, text: str) -> None:
        await self._send(
            [chunk("agent_thought_chunk", f"editor.{self._since}", f"tillerman: {text}\n")]
        )

    def _log_has(self, event: SettingsChanged | AgentStarted | AgentReady | Notice) -> None:
        """What the log says of a setting counts from now on; a notice says that it was refused."""
        if isinstance(event, Notice):
            self._given.clear()
        self._given = {
            name: value for name, value in self._given.items() if not getattr(event, name, None)
        }

    # -- requests --------------------------------------------------------------------------------

    def _shown(self, turn: int, event: _Asked) -> list[Table]:
        return self._requests.open(event, self._updates.asked(turn, event))

    def _open_requests(self) -> list[Table]:
        """Requests from before this editor followed the session."""
        messages: list[Table] = []
        for request in self._harness.sessions.catalog.open_requests(self.id):
            for entry in self._harness.sessions.log.since(self.id, request.seq - 1, 1):
                if entry.seq <= self._since and isinstance(entry.event, _Asked):
                    messages += self._shown(entry.turn, entry.event)
        return messages

    def _is_open(self, request_id: str) -> bool:
        session = self._handle.session
        return session.waits_for(request_id) if isinstance(session, Session) else True

    # -- prompts ---------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Any]) -> Table:
        sent = SentPrompt()
        self._prompts.append(sent)
        try:
            given = await prompt_input.read(blocks, self._buffer)
            session = None if sent.cancelled else await self._handle.opened()
            ended = CANCELLED
            if session and not sent.cancelled:
                ended = await sent.send(session, given)
        except TillermanError:
            if not sent.cancelled:
                raise
            ended = CANCELLED
        except asyncio.CancelledError:  # the editor withdrew its request
            await to_the_end(self._withdraw(sent))
            raise
        finally:
            self._prompts.remove(sent)
            sent.release()
        return self._result(ended, cancelled=sent.cancelled)

    def _result(self, ended: TurnEnded, *, cancelled: bool) -> Table:
        usage = self._usage.told()
        if cancelled or ended.reason == "cancelled":
            return {"stopReason": "cancelled", **usage}
        if ended.reason == "completed":
            return {"stopReason": "end_turn", **usage}
        if stop := stop_reason(ended.failure):
            return {"stopReason": stop, **usage}
        raise RpcFailure(failed_turn(ended.failure))

    async def cancel(self) -> None:
        """Cancels the running turn and all prompts that wait."""
        await asyncio.gather(*(prompt.withdraw() for prompt in self._prompts))
        if session := self._handle.session:
            with suppress(SessionError):
                await session.cancel()
        for prompt in self._prompts:
            if prompt.cancelled and prompt.waits:
                prompt.end(CANCELLED)

    async def _withdraw(self, prompt: SentPrompt) -> None:
        if await prompt.withdraw() or prompt.turn is None:
            return
        if session := self._handle.session:
            with suppress(SessionError):
                await session.cancel()

    async def _buffer(self, path: str) -> str | None:
        """The editor's text of a file, which may not be saved; None if it cannot tell."""
        if not self._context.client.reads_files:
            return None
        params = {"sessionId": self.id, "path": path}
        with suppress(EditorRefused, TimeoutError):
            told = await self._connection.request(
                "fs/read_text_file", params, max_wait=BUFFER_MAX_WAIT
            )
            content = at(told, "content")
            return content if isinstance(content, str) else None
        return None

    # -- settings --------------------------------------------------------------------------------

    def current(self) -> CurrentSettings:
        row, given = self.row, {**self._handle.options, **self._given}
        session = self._handle.session
        approve = given.get("approve") or row.settings.get("approve")
        return CurrentSettings(
            agent=session.agent if isinstance(session, Session) else row.agent,
            model=given.get("model") or row.model,
            mode=given.get("mode") or row.mode,
            approve=str(approve or self._harness.config.approve),
            effort=given.get("effort"),
        )

    def config_options(self) -> list[Table]:
        """To be told to the editor."""
        self._told_options = self._context.offers.options(self.current())
        return self._told_options

    async def opening(self) -> Table:
        """The members that session/new, load, resume and fork return."""
        await self._context.offers.of(self.current().agent)
        modes = self._context.offers.modes(self.current())
        told: Table = {"configOptions": self.config_options()}
        return told | ({"modes": modes} if modes else {})

    async def configure(self, **given: Any) -> None:
        """Changes model, mode or approval. A session that nobody runs is opened: its log has it."""
        if given.get("model") == DEFAULT and self.current().model is None:
            return
        session = await self._handle.opened()
        try:
            await session.configure(**given)
            self._given |= given
            self._handle.forget(given)
        except Unsupported:
            if "approve" not in given or not isinstance(session, Session):
                raise
            await self._handle.restart_with(given)

    async def set_effort(self, effort: str) -> None:
        await self._handle.restart_with({"effort": None if effort == DEFAULT else effort})

    async def hand_over(self, agent: str) -> None:
        """Another agent continues, with a summary of the history."""
        if agent != self.current().agent:
            await self._handle.hand_over(agent)
            await self._context.offers.of(agent)

    # -- end -------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Waits until no turn runs here, and none is queued."""
        await self._handle.rest()

    async def stop_following(self) -> None:
        """The editor's dialogs and updates end; the session goes on."""
        self._requests.close()
        if self._following:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def close(self) -> None:
        """Ends the session's agent, if it runs here; a session without a prompt is deleted."""
        for prompt in self._prompts:
            prompt.cancelled = True
        ours = await self._handle.close()
        for prompt in self._prompts:
            prompt.end(CANCELLED)
        await self.stop_following()
        if ours and is_empty(self.row):
            with suppress(SessionBusy):
                await self._harness.sessions.delete(self.row)


def _owner_ended(session: str) -> SessionError:
    text = f"the process that ran session {session} ended"
    return SessionError(text, hint="prompt again: the session continues here")


def is_empty(row: SessionRow) -> bool:
    """Whether nobody has prompted the session or given it a name."""
    return row.turns == 0 and row.title is None and row.prompt is None
