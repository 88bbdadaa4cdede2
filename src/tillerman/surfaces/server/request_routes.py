"""Routes of requests: list those of all sessions, answer, remembered rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from tillerman.core.errors import UsageError
from tillerman.core.permission import Rule
from tillerman.surfaces.request_list import open_requests
from tillerman.surfaces.server import bodies
from tillerman.surfaces.server.error_responses import HttpError
from tillerman.surfaces.server.route import Call, Route
from tillerman.surfaces.server.session_routes import row_of


async def list_open(call: Call[None, None]) -> Sequence[bodies.OpenRequestDocument]:
    return [
        bodies.OpenRequestDocument(one.session, one.opened_at, one.request, one.idle)
        for one in await open_requests(call.service.harness)
    ]


async def answer(call: Call[None, bodies.AnswerRequest]) -> None:
    row, request_id = row_of(call.service, call.path["session"]), call.path["request_id"]
    if call.body.seq is not None:
        catalog = call.service.harness.sessions.catalog
        shown = {one.request_id: one.seq for one in catalog.open_requests(row.id)}
        if shown.get(request_id, call.body.seq) != call.body.seq:
            raise HttpError(
                409,
                "request_changed",
                f"request {request_id!r} is another one now: entry {shown[request_id]}",
                hint="read it again before answering",
            )
    surface = "page" if call.client.csrf else "http"
    attached = call.service.harness.attach(row.id)
    await attached.answer(request_id, call.body.answer(), surface=surface)


async def rules_of_session(call: Call[None, None]) -> Sequence[bodies.RememberedRule]:
    row = row_of(call.service, call.path["session"])
    return [_rule(rule) for rule in call.service.harness.sessions.remembered_by(row)]


async def forget_in_session(call: Call[bodies.RuleQuery, None]) -> None:
    row = row_of(call.service, call.path["session"])
    await call.service.harness.attach(row.id).forget_rule(call.query.told)


async def rules_of_project(
    call: Call[bodies.ProjectQuery, None],
) -> Sequence[bodies.RememberedRule]:
    kept = call.service.harness.sessions.remembered_in(_folder(call.query.cwd)).kept()
    return [_rule(one.rule, one.at) for one in kept]


async def forget_in_project(call: Call[None, bodies.ForgetProjectRule]) -> bodies.RememberedRule:
    project = call.service.harness.sessions.remembered_in(_folder(call.body.cwd))
    forgotten = project.forget(call.body.number)
    return _rule(forgotten.rule, forgotten.at)


def _folder(cwd: str) -> Path:
    folder = Path(cwd)
    if "\0" in cwd or not folder.is_absolute() or not folder.is_dir():
        raise UsageError(
            f"cwd is not an absolute path of a folder: {cwd!r}",
            hint="name a folder on the machine of the service",
        )
    return folder


def _rule(rule: Rule, at: str | None = None) -> bodies.RememberedRule:
    plain: dict[str, Any] = to_builtins(rule)
    return bodies.RememberedRule(rule.told, plain, at)


ROUTES = (
    Route(
        "GET",
        "/requests",
        "read",
        "List the open requests of all sessions",
        list_open,
        response=list[bodies.OpenRequestDocument],
    ),
    Route(
        "POST",
        "/sessions/{session}/requests/{request_id:path}",
        "answer",
        "Answer a request; the first answer wins",
        answer,
        body=bodies.AnswerRequest,
        status=204,
    ),
    Route(
        "GET",
        "/sessions/{session}/rules",
        "read",
        "List the remembered answers of a session",
        rules_of_session,
        response=list[bodies.RememberedRule],
    ),
    Route(
        "DELETE",
        "/sessions/{session}/rules",
        "answer",
        "Forget a remembered answer of a session",
        forget_in_session,
        query=bodies.RuleQuery,
        status=204,
    ),
    Route(
        "GET",
        "/rules",
        "read",
        "List the remembered answers of a project",
        rules_of_project,
        query=bodies.ProjectQuery,
        response=list[bodies.RememberedRule],
    ),
    Route(
        "POST",
        "/rules/forget",
        "answer",
        "Forget a remembered answer of a project",
        forget_in_project,
        body=bodies.ForgetProjectRule,
        response=bodies.RememberedRule,
    ),
)
