"""Requests of the agent in the editor's dialogs; the first answer of any surface counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tillerman.core.errors import RequestNotOpen, TillermanError, UsageError
from tillerman.core.events import Answer, PermissionRequested, Question, QuestionAsked
from tillerman.core.json_fields import Table
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.acp import permission_options, question_forms
from tillerman.surfaces.acp.client import ClientCapabilities
from tillerman.surfaces.acp.connection import EditorConnection, EditorRefused, EditorRequest

Give = Callable[[str, Answer], Awaitable[None]]
Tell = Callable[[str], Awaitable[None]]

_PERMISSION, _FORM = "session/request_permission", "elicitation/create"


class EditorRequests:
    """Open dialogs of one session. `give` passes an answer on, `tell` shows a text to the user."""

    def __init__(
        self,
        session: str,
        folder: Path,
        connection: EditorConnection,
        client: ClientCapabilities,
        give: Give,
        tell: Tell,
    ) -> None:
        self._session = session
        self._folder = folder
        self._connection = connection
        self._client = client
        self._give = give
        self._tell = tell
        self._shown: dict[str, EditorRequest] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def open(self, event: PermissionRequested | QuestionAsked, call: Table) -> list[Table]:
        """Returns the message that shows the request; its answer is passed on."""
        if event.request_id in self._tasks:
            return []
        if isinstance(event, PermissionRequested):
            choices = permission_options.choices(event, self._folder)
            offered = [option for option, _ in choices.values()]
            asked = self._request(event.request_id, _PERMISSION, toolCall=call, options=offered)
            work = self._permission(event, asked, choices)
        elif self._client.forms:
            of_call = {"toolCallId": call["toolCallId"]} if event.call_id else {}
            asked = self._request(event.request_id, _FORM, **of_call, **question_forms.form(event))
            work = self._form(event, asked, call)
        elif self._can_choose(event):
            asked = self._choice(event, event.questions[0], call)
            work = self._one_by_one(event, asked, call)
        else:
            self._start(event.request_id, self._elsewhere())
            return []
        self._start(event.request_id, work)
        return [asked.message]

    def resolved(self, request_id: str) -> list[Table]:
        """The request was answered: an open dialog is withdrawn."""
        shown = self._shown.pop(request_id, None)
        task = self._tasks.pop(request_id, None)
        if shown is None or shown.reply.done():
            return []
        if task:
            task.cancel()
        return [shown.withdraw()]

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        for shown in self._shown.values():
            self._connection.peer.forget(shown.message)

    def _request(self, request_id: str, method: str, **params: Any) -> EditorRequest:
        params = {"sessionId": self._session, **params}
        asked = EditorRequest(self._connection.peer, method, params)
        self._shown[request_id] = asked
        return asked

    def _start(self, request_id: str, work: Any) -> None:
        self._tasks[request_id] = asyncio.create_task(self._answer(request_id, work))

    async def _answer(self, request_id: str, work: Awaitable[Answer | None]) -> None:
        """Passes the editor's answer on. Without one the request stays open for other surfaces."""
        try:
            answer = await work
        except EditorRefused:
            answer = None
        if answer is None:
            await self._tell(
                f"the editor did not answer request {request_id}: "
                f"`tillerman requests answer {self._session}/{request_id} allow` or deny"
            )
            return
        try:
            await self._pass_on(request_id, answer)
        except RequestNotOpen:
            pass  # another surface was first
        except TillermanError as error:
            await self._tell(error.message)

    async def _pass_on(self, request_id: str, answer: Answer) -> None:
        try:
            await self._give(request_id, answer)
        except UsageError:  # it cannot be remembered
            if not answer.remember:
                raise
            await self._give(request_id, replace(answer, remember=None))

    async def _permission(
        self,
        event: PermissionRequested,
        asked: EditorRequest,
        choices: permission_options.Choices,
    ) -> Answer | None:
        return permission_options.chosen(await asked.reply, choices)

    async def _form(self, event: QuestionAsked, asked: EditorRequest, call: Table) -> Answer | None:
        try:
            return question_forms.filled_in(await asked.reply, event)
        except EditorRefused:
            if not self._can_choose(event):
                raise
        asked = self._choice(event, event.questions[0], call)
        await self._connection.send([asked.message])
        return await self._one_by_one(event, asked, call)

    async def _one_by_one(
        self, event: QuestionAsked, asked: EditorRequest, call: Table
    ) -> Answer | None:
        """For an editor without forms: one question after the other."""
        answers: dict[str, str] = {}
        for number, question in enumerate(event.questions):
            if number:
                asked = self._choice(event, question, call)
                await self._connection.send([asked.message])
            if picked := question_forms.picked(await asked.reply, question):
                answers[question.text] = picked
        return Answer("allow", answers=answers) if answers else question_forms.DECLINED

    def _choice(self, event: QuestionAsked, question: Question, call: Table) -> EditorRequest:
        """A question as a permission request, which every editor has."""
        named = {**call, "title": clean(question.text)}
        options = question_forms.options(question)
        return self._request(event.request_id, _PERMISSION, toolCall=named, options=options)

    def _can_choose(self, event: QuestionAsked) -> bool:
        return bool(event.questions) and all(one.choices for one in event.questions)

    async def _elsewhere(self) -> Answer | None:
        """This editor has no dialog for a question without choices."""
        return None
