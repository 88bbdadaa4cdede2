"""Routes of the page: documents, streams, and the forms that they send."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import BaseRoute, Route

from tillerman._version import __version__
from tillerman.core.agent import File
from tillerman.core.errors import TillermanError, UsageError
from tillerman.core.events import Answer, QuestionAsked
from tillerman.store.session_row import SessionRow
from tillerman.surfaces.page import document, page_stream, views
from tillerman.surfaces.page.agent_tile import agent_name, tile
from tillerman.surfaces.page.document import CONTENT_SECURITY_POLICY, static_file
from tillerman.surfaces.page.html_text import escaped
from tillerman.surfaces.page.request_html import OWN_ANSWER, digest
from tillerman.surfaces.page.session_pages import SessionPages
from tillerman.surfaces.prompt_files import mime_of
from tillerman.surfaces.server.dispatch import decoded_query
from tillerman.surfaces.server.error_responses import HttpError, error_response
from tillerman.surfaces.server.guard import CLIENT, Receive, Send
from tillerman.surfaces.server.guard import Scope as AsgiScope
from tillerman.surfaces.server.service import Service
from tillerman.surfaces.server.streams import EVENT_STREAM, counted, until_the_end, while_allowed
from tillerman.surfaces.server.tokens import Client, Scope

MOST_BYTES = 32 * 1024 * 1024  # of a form with files
MOST_FILES = 20
LINGER = 300.0  # seconds that an agent is kept for the next prompt of a page
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_STATIC = frozenset(
    {"style.css", "icon.svg", "page.js", "patches.js", "scroll.js", "stream.js", "dock.js",
     "forms.js", "composer.js", "keys.js", "view.js"}
)  # fmt: skip
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": f"{CONTENT_SECURITY_POLICY}; require-trusted-types-for 'script'; "
    "trusted-types tillerman",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def page_routes(service: Service) -> Sequence[BaseRoute]:
    page = _Page(service)
    routes = [
        ("GET", "/", "read", page.home),
        ("GET", "/new", "read", page.new),
        ("POST", "/new", "drive", page.start),
        ("GET", "/search", "read", page.search),
        ("GET", "/s/{session}", "read", page.session),
        ("GET", "/s/{session}/earlier", "read", page.earlier),
        ("GET", "/s/{session}/stream", "read", page.stream),
        ("POST", "/s/{session}/prompt", "drive", page.prompt),
        ("POST", "/s/{session}/configure", "drive", page.configure),
        ("POST", "/s/{session}/cancel", "drive", page.cancel),
        ("POST", "/s/{session}/r/{request:path}", "answer", page.answer),
    ]
    return [
        *(
            Route(path, _guarded(handler, scope), methods=[method])  # type: ignore[arg-type]
            for method, path, scope, handler in routes
        ),
        Route("/static/{version}/{name}", _static, methods=["GET"]),
    ]


def _guarded(handler: Handler, scope: Scope) -> Handler:
    async def guarded(request: Request) -> Response:
        try:
            client: Client = request.scope[CLIENT]
            if not client.may(scope):
                message = f"this browser may only {client.scope}"
                raise HttpError(403, "scope", message, hint="`tillerman serve link --scope drive`")
            response = await handler(request)
        except HTTPException:
            raise
        except (TillermanError, msgspec.MsgspecError, OSError) as error:
            response = _problem(request, error)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return guarded


def _problem(request: Request, error: Exception) -> Response:
    """An error as JSON for scripts, and as a page for people without them."""
    told = error_response(error)
    detail = json.loads(bytes(told.body))["error"]
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(detail, told.status_code)
    text = f"<p>{escaped(detail['message'])}</p><p>{escaped(detail['hint'])}</p>"
    return HTMLResponse(
        f'<!doctype html><html lang="en"><title>tillerman</title>{text}<p><a href="/">Back</a></p>',
        told.status_code,
    )


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        raise HTTPException(404)
    headers = {"cache-control": "public, max-age=31536000, immutable", **_STATIC_HEADERS}
    if request.path_params["version"] != __version__:
        headers["cache-control"] = "no-store"
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(static_file(name), media_type=kind, headers=headers)


_STATIC_HEADERS = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}


class _EventStream(Response):
    """Server-sent events, until the client leaves or the service stops."""

    def __init__(self, service: Service, stream: Callable[[Send], Awaitable[None]]) -> None:
        super().__init__()
        self._service = service
        self._stream = stream

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        with counted(self._service):
            receive = while_allowed(self._service, scope[CLIENT], receive, "http.disconnect")
            await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
            stream = self._stream
            await until_the_end(self._service, lambda: stream(send), receive, "http.disconnect")
            with suppress(RuntimeError, OSError):
                await send({"type": "http.response.body", "body": b""})


class _Page:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._pages = SessionPages(service.harness.sessions.log)

    # -- documents ---------------------------------------------------------------------------------

    async def home(self, request: Request) -> Response:
        """The session that needs somebody, else the newest one."""
        entries = views.rail(self._service.harness)
        chosen = next((one for one in entries if one.group == "need"), None) or next(
            iter(entries), None
        )
        return RedirectResponse(f"/s/{chosen.id}?screen=sessions" if chosen else "/new", 303)

    async def new(self, request: Request) -> Response:
        harness = self._service.harness
        last = next(iter(harness.sessions.catalog.list(limit=1)), None)
        composer = views.new_composer(harness, last)
        agents = [
            f"<li>{tile(one.value)}<b>{escaped(agent_name(one.value))}</b>"
            f'<span class="dim" data-agent="{escaped(one.value)}"></span></li>'
            for one in composer.agents
        ]
        frame = views.frame(self._service, _csrf(request))
        return HTMLResponse(document.new_session_page(frame, composer, agents))

    async def search(self, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()
        harness = self._service.harness
        hits = (
            await asyncio.to_thread(harness.sessions.search.search, words, limit=50)
            if words
            else ()
        )
        found = [(harness.sessions.catalog.get(hit.session), hit.snippet) for hit in hits]
        rows = [(row.id, views.title_of(row), row.agent, text) for row, text in found]
        frame = views.frame(self._service, _csrf(request))
        return HTMLResponse(document.search_page(frame, words, rows))

    async def session(self, request: Request) -> Response:
        row = self._row(request)
        before = request.query_params.get("before", "")
        async with self._pages.viewed(row.id) as page:
            side = await views.side(self._service, row, page.transcript)
            number = _turn(before.removeprefix("t-")) or None
            first = document.first_turn(page.conversation, number)
            view = page_stream.session_view(self._service, row, page, first)
            frame = views.frame(self._service, _csrf(request))
            if "changes" in request.query_params:
                diffs = document.changes_html(page.transcript)
                return HTMLResponse(document.changes_page(frame, view, side, diffs))
            return HTMLResponse(document.session_page(frame, view, side))

    async def earlier(self, request: Request) -> Response:
        row = self._row(request)
        before = _turn(request.query_params.get("before", ""))
        async with self._pages.viewed(row.id) as page:
            conversation = page.conversation
            first = document.first_turn(conversation, before)
            left = sum(number < first for number in conversation.turn_numbers())
            return JSONResponse(
                {
                    "first": first,
                    "left": document.earlier_html(first, left) if left else "",
                    "html": document.turns_html(conversation, first, before),
                }
            )

    async def stream(self, request: Request) -> Response:
        row = self._row(request)
        follow = decoded_query(request, page_stream.StreamPosition)
        csrf = _csrf(request)

        async def stream(send: Send) -> None:
            async with self._pages.viewed(row.id) as page:
                async for data in page_stream.frames(self._service, row, page, follow, csrf):
                    await send({"type": "http.response.body", "body": data, "more_body": True})

        return _EventStream(self._service, stream)

    # -- forms -------------------------------------------------------------------------------------

    async def start(self, request: Request) -> Response:
        form = await _form(request)
        folder = Path(_text(form, "folder"))
        if not folder.is_absolute() or not folder.is_dir():
            raise UsageError(f"there is no folder {str(folder)!r}", hint="choose another one")
        options = {
            name: value for name in ("model", "mode", "approve") if (value := _text(form, name))
        }
        text, files = _text(form, "text"), await _files(form)
        _need_text(text)
        session = await self._service.owned.start(
            _text(form, "agent") or None, folder, options, title=None, linger=LINGER
        )
        await self._service.owned.first_prompt(session, text, files)
        return _done(request, f"/s/{session.id}")

    async def prompt(self, request: Request) -> Response:
        row, form = self._row(request), await _form(request)
        text, files = _text(form, "text"), await _files(form)
        _need_text(text)
        busy = "steer" if _text(form, "if_busy") == "steer" else "queue"
        await self._service.owned.prompt(row, text, files, busy, {}, LINGER)  # type: ignore[arg-type]
        return _done(request, f"/s/{row.id}", stay=True)

    async def configure(self, request: Request) -> Response:
        row, form = self._row(request), await _form(request)
        values = {name: _text(form, name) or None for name in ("model", "mode", "approve")}
        await self._service.harness.attach(row.id).configure(**values)  # type: ignore[arg-type]
        return _done(request, f"/s/{row.id}", stay=True)

    async def cancel(self, request: Request) -> Response:
        row = self._row(request)
        await _form(request)
        await self._service.harness.attach(row.id).cancel()
        return _done(request, f"/s/{row.id}", stay=True)

    async def answer(self, request: Request) -> Response:
        row, form = self._row(request), await _form(request)
        request_id = request.path_params["request"]
        catalog = self._service.harness.sessions.catalog
        waiting = next(
            (one for one in catalog.open_requests(row.id) if one.request_id == request_id), None
        )
        asked = views.request_of(self._service.harness, waiting) if waiting else None
        if asked is None:
            raise HttpError(
                409,
                "answered",
                "this request is answered already, or was withdrawn",
                hint="the conversation shows how",
            )
        if not _same(_text(form, "shown"), digest(asked)):
            raise HttpError(
                409,
                "request_changed",
                "this request is not the one that you saw",
                hint="read it again before you answer",
            )
        attached = self._service.harness.attach(row.id)
        await attached.answer(request_id, _answer(form, asked), surface="page")
        return _done(request, f"/s/{row.id}", stay=True)

    def _row(self, request: Request) -> SessionRow:
        return self._service.harness.find(request.path_params["session"])


def _answer(form: FormData, asked: Any) -> Answer:
    option, remember = _text(form, "option"), None
    if option == "always":
        option = "allow"
        remember = _text(form, "remember") or "session"
        if remember not in ("session", "project"):
            raise UsageError(f"a rule cannot be stored in {remember!r}", hint="session or project")
    if option not in ("allow", "deny"):
        raise UsageError(f"unknown answer {option!r}", hint="allow, deny or always")
    answers: dict[str, str] | None = None
    if isinstance(asked, QuestionAsked) and option == "allow":
        answers = {}
        for at, question in enumerate(asked.questions):
            given = [str(one) for one in form.getlist(f"answer-{at}")]
            own = _text(form, f"own-{at}").strip()
            chosen = [
                own if one == OWN_ANSWER else one for one in given if one != OWN_ANSWER or own
            ]
            if not chosen:
                raise UsageError(
                    f"a question has no answer: {question.text}", hint="answer each, or skip all"
                )
            answers[question.text] = ", ".join(chosen)
    changed = _text(form, "input").strip()
    try:
        given_input = msgspec.json.decode(changed, type=dict) if changed else None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(
            f"the changed input is not a JSON object: {error}",
            hint="correct it, or reload the page",
        ) from None
    return Answer(
        _option_id(asked, option),
        note=_text(form, "note").strip() or None,
        input=given_input if option == "allow" else None,
        answers=answers,
        remember=remember,  # type: ignore[arg-type]
    )


def _option_id(asked: Any, kind: str) -> str:
    """The agent's own option of this kind."""
    options = getattr(asked, "options", ())
    return next((one.id for one in options if one.kind == kind), kind)


async def _form(request: Request) -> FormData:
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        most = f"{MOST_BYTES >> 20} MB"
        raise HttpError(413, "too_large", f"a form may have {most}", hint="attach smaller files")
    form = await request.form(max_files=MOST_FILES, max_fields=100, max_part_size=MOST_BYTES)
    client: Client = request.scope[CLIENT]
    if client.csrf is not None and not _same(_text(form, "csrf"), client.csrf):
        raise HttpError(403, "csrf", "this form is too old", hint="reload the page")
    return form


async def _files(form: FormData) -> list[File]:
    return [
        File(one.filename, mime_of(one.filename, data := await one.read()), data)
        for one in form.getlist("files")
        if isinstance(one, UploadFile) and one.filename
    ]


def _text(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _same(given: str, right: str) -> bool:
    """Compares in constant time; text that is not ASCII can only be compared as bytes."""
    return hmac.compare_digest(given.encode(errors="replace"), right.encode())


def _turn(given: str) -> int:
    """The number of a turn that a page names; 0 if it names none."""
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else 0


def _need_text(text: str) -> None:
    if not text.strip():
        raise UsageError("the prompt is empty", hint="write what the agent should do")


def _csrf(request: Request) -> str:
    client: Client = request.scope[CLIENT]
    return client.csrf or ""


def _done(request: Request, place: str, *, stay: bool = False) -> Response:
    """Scripts get JSON; a plain form is sent back to the page."""
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse({"ok": True} if stay else {"ok": True, "location": place})
    return RedirectResponse(place, 303)
