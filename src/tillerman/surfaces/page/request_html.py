"""The open request of a session as a form: what is asked, why, and the answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec

from tillerman.core.events import Diff, PermissionRequested, Question, QuestionAsked
from tillerman.core.permission.remembered_rule import rule_for
from tillerman.surfaces.page.agent_tile import agent_name
from tillerman.surfaces.page.diff_html import diff_html
from tillerman.surfaces.page.html_text import escaped, hidden, icon
from tillerman.surfaces.page.markdown_html import markdown_html
from tillerman.surfaces.rendering.proposed_changes import ProposedChange, plan_of
from tillerman.surfaces.rendering.proposed_edits import edits_of

OWN_ANSWER = "own"  # the value of the choice for an answer in other words


@dataclass(frozen=True)
class PolicyReading:
    """What the policy read in a part of a command."""

    verdict: str
    part: str
    why: str


@dataclass(frozen=True)
class ShownRequest:
    """A request that needs an answer. `others` are further open ones of the same session."""

    session: str
    agent: str | None
    asked: PermissionRequested | QuestionAsked
    since: str
    folder: Path | None = None
    project: str | None = None  # where a rule can be stored, besides the session
    readings: tuple[PolicyReading, ...] = ()
    others: int = 0


def digest(asked: PermissionRequested | QuestionAsked) -> str:
    """Identifies what is shown: an answer to something else is refused."""
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()


def dock_html(request: ShownRequest | None, csrf: str) -> str:
    """The element that holds the request; empty if nothing needs an answer."""
    if request is None:
        return '<div id="dock" class="dock" hidden></div>'
    asked = request.asked
    question = isinstance(asked, QuestionAsked)
    body = (
        "".join(_questions(asked.questions))
        if isinstance(asked, QuestionAsked)
        else "".join(_permission(asked, request))
    )
    name = agent_name(request.agent)
    heading = f"{name} asks" if question else f"{name} {_wants(asked)}"
    others = f'<span class="next">1 of {request.others + 1}</span>' if request.others else ""
    kind = "question" if question else "permission"
    return (
        f'<form id="dock" class="dock {kind}" method="post" '
        f'action="/s/{request.session}/r/{quote(asked.request_id, safe="")}" '
        'aria-labelledby="dock-h" data-armed="true" data-step="ask" '
        f'data-request="{escaped(asked.request_id)}">'
        f'<input type="hidden" name="csrf" value="{escaped(csrf)}">'
        f'<input type="hidden" name="shown" value="{digest(asked)}">'
        f'<header>{icon("ask" if question else "hand")}<h2 id="dock-h">{escaped(heading)}</h2>'
        f'<span class="when">asked <time datetime="{escaped(request.since)}" data-since></time> ago'
        f"</span>{others}</header>"
        '<div class="dock-body" tabindex="0" role="group" aria-label="What is asked">'
        f"{body}</div>{_acts(asked)}</form>"
    )


def _wants(asked: PermissionRequested | QuestionAsked) -> str:
    if isinstance(asked, PermissionRequested):
        if plan_of(asked):
            return "presents a plan"
        if asked.tool == "Bash":
            return "wants to run a command"
        if edits_of(asked.tool, asked.input, asked.paths):
            return "wants to change files"
    return "needs your approval"


# -- permissions -----------------------------------------------------------------------------------


def _permission(asked: PermissionRequested, request: ShownRequest) -> Iterator[str]:
    command = asked.input.get("command")
    plan = plan_of(asked)
    changes = [
        ProposedChange.against_file(edit, request.folder)
        for edit in edits_of(asked.tool, asked.input, asked.paths)
    ]
    if plan:
        yield f'<div class="msg">{markdown_html(plan)}</div>'
    elif changes:
        yield from (_change(change) for change in changes)
    elif isinstance(command, str) and asked.tool == "Bash":
        yield f'<pre class="cmd"><code>{_marked(command, request.readings)}</code></pre>'
    else:
        yield f"<p>{escaped(asked.title)}</p>"
        yield f'<pre class="cmd"><code>{escaped(_json(asked))}</code></pre>'
    if asked.reason and asked.reason.strip() != plan:
        yield f'<p class="why"><span class="lab">Why</span><q>{escaped(asked.reason)}</q></p>'
    if request.readings:
        rows = "".join(map(_reading, request.readings))
        yield f'<div class="reads"><span class="lab">Policy reads</span><ul>{rows}</ul></div>'
    yield _always(asked, request)
    yield (
        f'<details class="whole"><summary class="lab">All of the request</summary>'
        f'<pre class="cmd"><code>{escaped(_json(asked))}</code></pre></details>'
    )


def _change(change: ProposedChange) -> str:
    moved = f" → {escaped(change.edit.moved)}" if change.edit.moved else ""
    note = f'<span class="dim x">{escaped(change.note)}</span>' if change.note else ""
    head = f'<p class="line"><code class="tgt">{escaped(change.edit.path)}{moved}</code>{note}</p>'
    if change.hunks is not None:
        diffs = diff_html(Diff(change.edit.path, "\n".join(change.hunks))) if change.hunks else ""
    else:
        diffs = "".join(
            diff_html(Diff(change.edit.path, old=old, new=new)) for old, new in change.texts()
        )
    return f'<div class="card">{head}{diffs}</div>'


def _marked(command: str, readings: Sequence[PolicyReading]) -> str:
    """The command as it is, with the parts marked that need approval."""
    asks = [one.part for one in readings if one.verdict != "allow" and one.part in command]
    if not asks or asks[0] == command.strip():
        return escaped(command)
    before, part, after = command.partition(asks[0])
    return f"{escaped(before)}<mark>{escaped(part)}</mark>{escaped(after)}"


def _reading(one: PolicyReading) -> str:
    kind = "allow" if one.verdict == "allow" else "ask"
    return (
        f'<li class="v-{kind}"><b>{escaped(one.verdict)}</b><code>{escaped(one.part)}</code>'
        f"<span>{escaped(one.why)}</span></li>"
    )


def _always(asked: PermissionRequested, request: ShownRequest) -> str:
    rule = rule_for(asked)
    if rule is None:
        return ""
    scopes = [("session", "this session")]
    if request.project:
        scopes.append(("project", f"project {request.project}"))
    choices = "".join(
        f'<label><input type="radio" name="remember" value="{value}"'
        f"{' checked' if value == 'session' else ''}><span>{escaped(text)}</span></label>"
        for value, text in scopes
    )
    return (
        '<fieldset class="always"><legend class="lab">Always adds</legend>'
        f'<code class="rule">{escaped(rule.told)}</code><span class="scope">{choices}</span>'
        "</fieldset>"
    )


def _json(asked: PermissionRequested) -> str:
    return msgspec.json.format(msgspec.json.encode(asked.input), indent=2).decode()


# -- questions -------------------------------------------------------------------------------------


def _questions(questions: Sequence[Question]) -> Iterator[str]:
    for at, question in enumerate(questions):
        kind = "checkbox" if question.many else "radio"
        name = f"answer-{at}"
        head = hidden(f"{question.header}: ") if question.header else ""
        rows = "".join(
            f'<label><input type="{kind}" name="{name}" value="{escaped(choice.label)}">'
            f"<span><b>{escaped(choice.label)}</b>"
            f"<span>{escaped(choice.description or '')}</span></span></label>"
            for choice in question.choices
        )
        own = (
            f'<label class="own"><input type="{kind}" name="{name}" value="{OWN_ANSWER}"'
            f"{'' if question.choices else ' checked'}>"
            f"<span><b>{'Something else' if question.choices else 'Your answer'}</b>"
            f'<input type="text" name="own-{at}" autocomplete="off" '
            'aria-label="Your answer"></span></label>'
        )
        yield (
            f'<fieldset class="choices"><legend>{head}{escaped(question.text)}</legend>'
            f"{rows}{own}</fieldset>"
        )


# -- answers ---------------------------------------------------------------------------------------


def _acts(asked: PermissionRequested | QuestionAsked) -> str:
    if isinstance(asked, QuestionAsked):
        return (
            '<div class="acts two"><button class="btn big" name="option" value="deny">Skip</button>'
            '<button class="btn big primary" name="option" value="allow">Answer</button></div>'
        )
    change = (
        '<button class="btn big more-2" type="button" data-change aria-keyshortcuts="e">Change'
        '<kbd aria-hidden="true">E</kbd></button>'
        if asked.changeable
        else ""
    )
    always = (
        '<button class="btn big always-b" name="option" value="always" aria-keyshortcuts="a">'
        'Always<span class="dots">…</span><kbd aria-hidden="true">A</kbd></button>'
        if rule_for(asked)
        else ""
    )
    return (
        '<div class="acts step-always">'
        '<button class="btn big" type="button" data-step-to="ask">Back</button>'
        '<button class="btn big primary" name="option" value="always">Add rule, allow</button>'
        "</div>"
        '<div class="acts step-ask">'
        '<button class="btn big deny" name="option" value="deny" aria-keyshortcuts="n">Deny'
        '<kbd aria-hidden="true">N</kbd></button>'
        '<button class="btn big more-1" type="button" data-reason aria-keyshortcuts="r">'
        'Deny, and why<kbd aria-hidden="true">R</kbd></button>'
        f"{change}{always}"
        '<button class="btn big primary" name="option" value="allow" aria-keyshortcuts="y">'
        'Allow once<kbd aria-hidden="true">Y</kbd></button></div>'
    )
