"""`bridle requests`: what agents wait for, in any session, and the answers to it."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridle.core.errors import RequestNotOpen, SessionError, UsageError
from bridle.core.events import Answer, PermissionRequested, QuestionAsked
from bridle.surfaces.cli import opened, phrases
from bridle.surfaces.cli.output import Style, colored, say, say_json, table, width
from bridle.surfaces.cli.words import json_object

if TYPE_CHECKING:
    from bridle.app import Harness


@dataclass(frozen=True)
class Open:
    session: str
    opened_at: str
    request: PermissionRequested | QuestionAsked

    @property
    def name(self) -> str:
        return f"{self.session}/{self.request.request_id}"


def list_open(options: Namespace) -> int:
    return asyncio.run(_list(options))


def answer(options: Namespace) -> int:
    changed = json_object(options.input, "--input") if options.input is not None else None
    if changed is not None and options.option == "deny":
        raise UsageError("--input changes what is allowed; deny takes --note")
    return asyncio.run(_answer(options, changed))


async def _list(options: Namespace) -> int:
    async with opened.harness(options) as harness:
        waiting = _waiting(harness)
    if options.json:
        say_json(waiting)
    elif not waiting:
        say("nothing waits for an answer")
    else:
        rows = [
            (
                one.name,
                phrases.ago(one.opened_at),
                _kind(one),
                phrases.unmarked(phrases.asked(one.request)),
            )
            for one in waiting
        ]
        style = Style(colored(options, sys.stdout))
        say(table(rows, ("REQUEST", "SINCE", "KIND", "WHAT"), style, width()))
        first = waiting[0]
        how = phrases.how_to_answer(first.session, first.request)
        more = " (or deny)" if isinstance(first.request, PermissionRequested) else ""
        say(style("dim", f"to answer: {how}{more}"))
    return 0


async def _answer(options: Namespace, changed: dict[str, Any] | None) -> int:
    async with opened.harness(options) as harness:
        found = _find(_waiting(harness), options.request)
        given = _composed(found.request, options, changed)
        session = harness.attach(found.session)
        await session.answer(found.request.request_id, given, surface="command line")
    return 0


def _composed(
    request: PermissionRequested | QuestionAsked, options: Namespace, changed: dict[str, Any] | None
) -> Answer:
    if isinstance(request, PermissionRequested):
        if options.choose:
            raise UsageError("--choose answers questions; this asks for permission")
        return Answer(options.option, note=options.note, input=changed)
    if options.option == "deny":
        return Answer("deny", note=options.note)
    words = list(options.choose)
    if options.option != "allow":  # the answer itself
        words.insert(0, options.option)
    if len(words) != len(request.questions):
        texts = "; ".join(phrases.one_line(question.text) for question in request.questions)
        raise UsageError(
            f"{len(words)} answers for {len(request.questions)} questions: {texts}",
            hint="--choose TEXT for each of them, in order",
        )
    said = {one.text: word for one, word in zip(request.questions, words, strict=True)}
    return Answer("allow", note=options.note, answers=said)


def _waiting(harness: Harness) -> list[Open]:
    return [
        Open(row.session, row.opened_at, entry.event)
        for row in harness.sessions.catalog.open_requests()
        for entry in harness.sessions.log.since(row.session, row.seq - 1, 1)
        if isinstance(entry.event, PermissionRequested | QuestionAsked)
    ]


def _find(waiting: list[Open], name: str) -> Open:
    """By `SESSION/ID`, where the session may be cut short, or by an id that only one has."""
    session, slash, id = name.rpartition("/")
    found = [
        one
        for one in waiting
        if one.request.request_id == (id if slash else name) and one.session.startswith(session)
    ]
    if not found:
        raise RequestNotOpen(name)
    if len(found) > 1:
        raise SessionError(
            f"several sessions have a request {name!r}",
            hint=f"say which: {', '.join(one.name for one in found)}",
        )
    return found[0]


def _kind(one: Open) -> str:
    return one.request.tool if isinstance(one.request, PermissionRequested) else "Question"
