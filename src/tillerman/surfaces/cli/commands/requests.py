"""`tillerman requests`: lists and answers open requests of all sessions; remembered rules."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tillerman.core.errors import RequestNotOpen, SessionError, UsageError
from tillerman.core.events import Answer, PermissionRequested, QuestionAsked
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import (
    colored,
    confirmed,
    emit,
    emit_json,
    table,
    width,
    write,
)
from tillerman.surfaces.json_argument import json_object
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.ansi_style import Style
from tillerman.surfaces.request_list import OpenRequestRow, open_requests

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

ALWAYS = {"always": "session", "always-project": "project"}


def list_open(options: Namespace) -> int:
    return asyncio.run(_list(options))


def answer(options: Namespace) -> int:
    changed = json_object(options.input, "--input") if options.input is not None else None
    if changed is not None and options.option == "deny":
        raise UsageError(
            "--input is for allow; with deny, use --note",
            hint="tillerman requests answer ID deny --note WHY",
        )
    return asyncio.run(_answer(options, changed))


async def _list(options: Namespace) -> int:
    async with open_harness.harness(options) as harness:
        waiting = await open_requests(harness)
    if options.json:
        emit_json(waiting)
    elif not waiting:
        emit("no open requests")
    else:
        rows = [
            (
                one.name,
                formatting.ago(one.opened_at),
                _kind(one),
                formatting.unmarked(formatting.asked(one.request)),
            )
            for one in waiting
        ]
        style = Style(colored(options, sys.stdout))
        emit(table(rows, ("REQUEST", "SINCE", "KIND", "WHAT"), style, width()))
        for session in dict.fromkeys(one.session for one in waiting if one.idle):
            emit(style("yellow", formatting.left_open(session)))
        first = waiting[0]
        how = formatting.how_to_answer(first.session, first.request)
        more = " (or deny, always)" if isinstance(first.request, PermissionRequested) else ""
        emit(style("dim", f"to answer: {how}{more}"))
    return 0


async def _answer(options: Namespace, changed: dict[str, Any] | None) -> int:
    async with open_harness.harness(options) as harness:
        found = _find(await open_requests(harness), options.request)
        given = _composed(found.request, options, changed)
        if given.remember:
            _confirm(harness, found, given, options)
        session = harness.attach(found.session)
        await session.answer(found.request.request_id, given, surface="command line")
    if found.idle:
        emit(f"{formatting.left_open(found.session)}; the answer is applied then")
    return 0


def _confirm(harness: Harness, found: OpenRequestRow, given: Answer, options: Namespace) -> None:
    """Shows the rule to be remembered and asks for confirmation."""
    from tillerman.sessions.permissions.open_requests import checked
    from tillerman.sessions.permissions.project_rules import for_project, project_of
    from tillerman.sessions.permissions.session_rules import remembered_rule

    given = checked(found.request, given)
    assert isinstance(found.request, PermissionRequested)
    rule, where = remembered_rule(found.request, given), "in this session"
    assert rule is not None  # `checked` rejects requests without a rule
    if given.remember == "project":
        folder = harness.find(found.session).cwd
        rule, where = for_project(rule, folder), f"in this project ({project_of(folder)})"
    write(sys.stderr, f"{formatting.always(rule, where)}\n")
    if not options.yes and not confirmed("remember this?"):
        raise UsageError(
            "nothing was answered",
            hint="--yes remembers without confirmation; allow answers only once",
        )


def _composed(
    request: PermissionRequested | QuestionAsked, options: Namespace, changed: dict[str, Any] | None
) -> Answer:
    if isinstance(request, PermissionRequested):
        if options.choose:
            raise UsageError(
                "--choose is for questions; this is a permission request",
                hint="tillerman requests answer ID allow",
            )
        given = Answer(options.option, note=options.note, input=changed)
        if options.option in ALWAYS:
            given = replace(given, option="allow", remember=ALWAYS[options.option])
        return replace(given, remember=options.remember or given.remember)
    if options.option == "deny":
        return Answer("deny", note=options.note)
    words = list(options.choose)
    if options.option != "allow":  # the option is the answer text
        words.insert(0, options.option)
    if len(words) != len(request.questions):
        texts = "; ".join(formatting.one_line(question.text) for question in request.questions)
        raise UsageError(
            f"{len(words)} answers for {len(request.questions)} questions: {texts}",
            hint="give --choose TEXT for each question, in order",
        )
    parsed = {one.text: word for one, word in zip(request.questions, words, strict=True)}
    return Answer("allow", note=options.note, answers=parsed, remember=options.remember)


def _find(waiting: list[OpenRequestRow], name: str) -> OpenRequestRow:
    """Finds a request by `SESSION/ID`, with an abbreviated session, or by a unique id.

    An agent may put control characters into an id, so the sanitized id is accepted too.
    """
    found = [one for one in waiting if one.is_called(name, one.request.request_id)]
    found = found or [one for one in waiting if one.is_called(name, clean(one.request.request_id))]
    if not found:
        raise RequestNotOpen(name)
    if len(found) > 1:
        raise SessionError(
            f"{name!r} matches several requests",
            hint=f"use one of: {', '.join(one.name for one in found)}",
        )
    return found[0]


def _kind(one: OpenRequestRow) -> str:
    return one.request.tool if isinstance(one.request, PermissionRequested) else "Question"


# -- remembered rules ------------------------------------------------------------------------------


def remembered(options: Namespace) -> int:
    return asyncio.run(_remembered(options))


async def _remembered(options: Namespace) -> int:
    async with open_harness.harness(options) as harness:
        if options.session:
            row = open_harness.row(harness, options.session)
            stored = [(rule, "") for rule in harness.sessions.remembered_by(row)]
            where = f"session {row.id}"
        else:
            project = harness.sessions.remembered_in(Path.cwd())
            stored = [(one.rule, one.at) for one in project.kept()]
            where = str(project.project)
    if options.json:
        emit_json([{"rule": rule, "told": rule.told, "at": at or None} for rule, at in stored])
        return 0
    if not stored:
        emit(formatting.one_line(f"no remembered answers for {where}"))
        return 0
    style = Style(colored(options, sys.stdout))
    rows = [
        (str(number), formatting.ago(at) if at else "", formatting.unmarked(rule.told))
        for number, (rule, at) in enumerate(stored, 1)
    ]
    emit(style("dim", formatting.one_line(f"always, in {where}:")))
    emit(table(rows, ("N", "SINCE", "RULE"), style, width()))
    return 0


def forget(options: Namespace) -> int:
    return asyncio.run(_forget(options))


async def _forget(options: Namespace) -> int:
    async with open_harness.harness(options) as harness:
        if options.session:
            row = open_harness.row(harness, options.session)
            rules = harness.sessions.remembered_by(row)
            if options.number > len(rules):
                raise UsageError(
                    f"session {row.id} has no remembered rule {options.number}",
                    hint=f"`tillerman requests remembered --session {row.id}` lists them",
                )
            rule = rules[options.number - 1]
            await harness.attach(row.id).forget_rule(rule.told)
        else:
            rule = harness.sessions.remembered_in(Path.cwd()).forget(options.number).rule
    emit(f"forgotten: {formatting.unmarked(rule.told)}")
    return 0
