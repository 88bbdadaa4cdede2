"""Each kind of block of a conversation as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from tillerman.core.events import Attachment, Content, Diff, Image, Notice, PermissionRequested
from tillerman.core.events import Text as ToolText
from tillerman.core.transcript.blocks import (
    Block,
    Message,
    PlanBlock,
    RequestBlock,
    TextBlock,
    Thought,
    ToolCallBlock,
    Turn,
    calls_of,
)
from tillerman.surfaces.page.diff_html import counts_html, diff_html, line_counts
from tillerman.surfaces.page.html_text import escaped, hidden, icon
from tillerman.surfaces.page.markdown_html import markdown_html
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.diff_lines import numbered_lines

OUTPUT_LINES = 400  # of a call's output; the rest is in the log
OUTPUT_LENGTH = 40_000  # characters
_DEEPEST = 3  # subagents inside subagents
_GIST = 160  # characters of a folded thought
_ICONS = {
    "completed": ("ok", "check", ""),
    "failed": ("bad", "x", ""),
    "denied": ("bad", "hand", "denied"),
    "cancelled": ("bad", "x", "cancelled"),
    "running": ("run", "ring", ""),
}


def block_html(id: str, block: Block) -> str:
    match block:
        case Message():
            return _block(id, "msg", markdown_html(block.text))
        case Thought():
            return _block(id, "thought", _thought(block))
        case TextBlock():
            return _given_text(id, block)
        case ToolCallBlock():
            return call_html(id, block)
        case PlanBlock():
            return _block(id, "plan", _plan(block))
        case RequestBlock():
            return _request(id, block)
        case Notice():
            return _notice(id, block)
        case _:
            assert_never(block)


def prompt_html(id: str, turn: Turn) -> str:
    chips = "".join(map(_chip, turn.attachments))
    chips = f'<ul class="chips" aria-label="Attached">{chips}</ul>' if chips else ""
    return f'<div class="prompt" id="{id}">{_paragraphs(turn.prompt or "")}{chips}</div>'


def message_part_html(id: str, text: str, *, verbatim: bool) -> str:
    """A finished Markdown block of a message."""
    body = f'<p class="source">{escaped(text)}</p>' if verbatim else markdown_html(text)
    return f'<div class="part" id="{id}">{body}</div>'


def turn_end_html(id: str, turn: Turn) -> str:
    """The outcome of a turn; while it runs, that it works."""
    failed = _failure(turn) if turn.failure else ""
    facts = "".join(f"<span>{fact}</span>" for fact in _facts(turn))
    return (
        f'<div class="turn-end" id="{id}">{failed}'
        f'<footer class="turn-foot">{_state(turn)}{facts}</footer></div>'
    )


def _block(id: str, kind: str, body: str) -> str:
    return f'<div class="blk {kind}" id="{id}">{body}</div>'


# -- text ------------------------------------------------------------------------------------------


def _given_text(id: str, block: TextBlock) -> str:
    if block.how == "handoff":
        lines = len(block.text.splitlines())
        text = f"The agent gets a summary of the session so far ({lines} lines)."
        return _block(id, "notice", f"{icon('out', 'g')}<p>{text}</p>")
    label = f'<p class="dim how">{escaped(block.how)}</p>'
    return f'<div class="prompt" id="{id}">{_paragraphs(block.text)}{label}</div>'


def _paragraphs(text: str) -> str:
    """Text of a user: shown as it was typed."""
    return f'<p class="typed">{escaped(text.strip())}</p>'


def _thought(block: Thought) -> str:
    text = block.text.strip()
    gist = escaped(formatting.one_line(text, _GIST))
    return (
        f"<details><summary>{icon('chev', 'g chev')}Thought"
        f'<span class="gist">{gist}</span></summary>'
        f'<div class="fold">{markdown_html(text)}</div></details>'
    )


def _chip(file: Attachment) -> str:
    kind = "image" if file.mime.startswith("image/") else "file"
    size = formatting.size(file.size)
    return f'<li class="chip">{icon(kind)}{escaped(file.name)}<span class="dim">{size}</span></li>'


# -- calls -----------------------------------------------------------------------------------------


def call_html(id: str, call: ToolCallBlock, depth: int = 0) -> str:
    diffs = [part for part in call.content if isinstance(part, Diff)]
    if diffs and call.state in ("completed", "running"):
        return _edits(id, call, diffs)
    state, sign, tag = _ICONS[call.state]
    kid = " kid" if call.blocks else ""
    is_open = " open" if call.state in ("failed", "running") and call.content else ""
    inside = "".join(_inside(id, call, depth))
    head = f"{_sign(sign)}{_title(call.title)}{_aside(call)}{_tag(tag)}{_duration(call)}"
    if not inside:
        return f'<div class="blk call {state}{kid}" id="{id}"><p class="line">{head}</p></div>'
    return (
        f'<div class="blk call {state}{kid}" id="{id}"><details{is_open}>'
        f"<summary>{head}</summary>{inside}</details></div>"
    )


def _edits(id: str, call: ToolCallBlock, diffs: Sequence[Diff]) -> str:
    cards = []
    for change in diffs:
        added, removed = line_counts(list(numbered_lines(change)))
        verb = "Delete" if change.new is None and change.patch is None else "Edit"
        sign = _sign("check" if call.state == "completed" else "ring", "ok")
        head = (
            f'{sign}<span class="verb">{verb}</span>'
            f'<code class="tgt">{escaped(change.path)}</code>'
            f'<span class="stat">{counts_html(added, removed)}</span>{icon("chev", "chev")}'
        )
        cards.append(
            f'<details open class="card"><summary>{head}</summary>{diff_html(change)}</details>'
        )
    return f'<div class="blk edit" id="{id}">{"".join(cards)}</div>'


def _sign(name: str, more: str = "") -> str:
    spin = " spin" if name == "ring" else ""
    return icon(name, f"g{spin}{more and ' '}{more}")


def _title(title: str) -> str:
    """A call's title; the code in it stands in backticks."""
    parts = formatting.spans(title)
    if len(parts) == 1:
        return f'<span class="tgt-t">{escaped(parts[0])}</span>'
    verb, *rest = parts
    shown = [
        f'<code class="tgt">{escaped(part)}</code>' if at % 2 == 0 else escaped(part)
        for at, part in enumerate(rest)
        if part
    ]
    return f'<span class="verb">{escaped(verb.strip())}</span>{" ".join(shown)}'


def _aside(call: ToolCallBlock) -> str:
    if not call.blocks:
        return ""
    count = sum(1 for _ in calls_of(call.blocks))
    return f'<span class="dim x">{count} call{"s" if count != 1 else ""}</span>'


def _tag(text: str) -> str:
    return f'<span class="tag bad">{text}</span>' if text else ""


def _duration(call: ToolCallBlock) -> str:
    if call.state == "running" and call.started:
        return f'<time class="dur" datetime="{escaped(call.started)}" data-since></time>'
    if call.duration is None:
        return ""
    return f'<span class="dur">{formatting.duration(call.duration)}</span>'


def _inside(id: str, call: ToolCallBlock, depth: int) -> Iterator[str]:
    for part in call.content:
        yield _content(part, live=call.state == "running")
    if depth >= _DEEPEST and call.blocks:
        yield f'<p class="dim">{len(call.blocks)} blocks of a subagent</p>'
        return
    for at, block in enumerate(call.blocks):
        inner = f"{id}.{at}"
        if isinstance(block, ToolCallBlock):
            yield call_html(inner, block, depth + 1)
        elif not is_silent(block):
            yield block_html(inner, block)


def _content(part: Content, *, live: bool) -> str:
    match part:
        case ToolText():
            return _output(part, live=live)
        case Diff():
            return diff_html(part)
        case Image():
            return f'<p class="dim">{icon("image")}{escaped(part.mime)} image</p>'
        case _:
            assert_never(part)


def _output(part: ToolText, *, live: bool) -> str:
    """The end of the output, where errors usually are."""
    text = part.text.rstrip()
    shown = text[-OUTPUT_LENGTH:].splitlines()[-OUTPUT_LINES:]
    hidden_lines = text.count("\n") + 1 - len(shown)
    cut = f'<span class="cut">… {hidden_lines} lines above</span>\n' if hidden_lines > 0 else ""
    if part.cut:
        cut = f'<span class="cut">… {formatting.size(part.cut.left_out)} left out</span>\n{cut}'
    if not shown and not cut:
        return ""
    name = "Output so far" if live else "Output"
    return (
        f'<pre class="out{" live" if live else ""}" tabindex="0" aria-label="{name}">'
        f"{cut}{escaped(chr(10).join(shown))}</pre>"
    )


# -- plans, requests, notices ----------------------------------------------------------------------


def _plan(block: PlanBlock) -> str:
    done = sum(step.status == "completed" for step in block.steps)
    total = len(block.steps)
    steps = []
    for step in block.steps:
        match step.status:
            case "completed":
                steps.append(f'<li class="done">{icon("check")}{hidden("Done: ")}')
            case "in_progress":
                steps.append(
                    f'<li class="now" aria-current="step">{icon("ring", "spin")}{hidden("Now: ")}'
                )
            case "pending":
                steps.append(f"<li>{icon('dot')}")
        steps.append(f"{escaped(step.text)}</li>")
    return (
        f'<h2><span>Plan</span><span class="dim">{done} of {total}</span>'
        f'<progress max="{max(1, total)}" value="{done}">{done} of {total} steps</progress></h2>'
        f"<ol>{''.join(steps)}</ol>"
    )


def is_silent(block: Block) -> bool:
    """True for requests that the policy allowed, which are not shown."""
    return (
        isinstance(block, RequestBlock)
        and isinstance(block.asked, PermissionRequested)
        and block.by == "policy"
        and block.answer is not None
        and block.answer.option == "allow"
    )


def _request(id: str, block: RequestBlock) -> str:
    title = _title(formatting.asked(block.asked))
    if block.open:
        return (
            f'<div class="blk call wait" id="{id}"><a class="line" href="#dock">'
            f"{icon('hand', 'g')}{title}"
            '<span class="tag need">needs your answer</span></a></div>'
        )
    words = {"allow": "allowed", "deny": "denied"}
    answer = block.answer
    outcome = words.get(answer.option, answer.option) if answer else "withdrawn"
    if answer and answer.answers:
        outcome = ", ".join(answer.answers.values())
    if answer and answer.remember:
        outcome += f", always in this {answer.remember}"
    by = {
        "policy": f"by policy ({block.surface})" if block.surface else "by policy",
        "person": f"via {block.surface}" if block.surface else "by you",
        "timeout": "no answer in time",
        "withdrawn": "",
        None: "",
    }[block.by]
    outcome = "withdrawn" if block.by == "withdrawn" else f"{outcome} {by}"
    note = f'<p class="dim">{escaped(answer.note)}</p>' if answer and answer.note else ""
    sign = "check" if answer and answer.option != "deny" and block.by != "withdrawn" else "x"
    state = "ok" if sign == "check" else "bad"
    return (
        f'<div class="blk call {state}" id="{id}"><p class="line">{icon(sign, "g")}'
        f'{title}<span class="dim x">{escaped(outcome.strip())}</span>'
        f"</p>{note}</div>"
    )


def _notice(id: str, block: Notice) -> str:
    sign = "dot" if block.level == "info" else "warn"
    return _block(id, f"notice {block.level}", f"{icon(sign, 'g')}<p>{escaped(block.text)}</p>")


# -- the end of a turn -----------------------------------------------------------------------------


def _state(turn: Turn) -> str:
    match turn.status:
        case "running":
            return f'<span class="run">{icon("ring", "spin")}Working</span>'
        case "completed":
            return f'<span class="ok">{icon("check")}Done</span>'
        case "failed":
            return f'<span class="cut-off">{icon("x")}Failed</span>'
        case "cancelled":
            return f'<span class="cut-off">{icon("x")}Cancelled</span>'


def _facts(turn: Turn) -> Iterator[str]:
    if turn.status == "running" and turn.started:
        yield f'<time datetime="{escaped(turn.started)}" data-since></time>'
    elif turn.duration is not None:
        yield formatting.duration(turn.duration)
    if usage := turn.usage:
        read = usage.input_tokens + usage.cached_tokens
        percent = usage.cached_tokens * 100 // read if read else 0
        cached = f' <span class="dim">· {percent}% cached</span>' if percent else ""
        yield f"{hidden('tokens ')}{formatting.count(read)} in{cached}"
        yield f"{formatting.count(usage.output_tokens)} out"
        if usage.cost_usd is not None:
            yield f"{'≈ ' if usage.priced else ''}{formatting.money(usage.cost_usd)}"
    if turn.files or turn.files_left_out:
        count = len(turn.files) + turn.files_left_out
        added = sum(change.added or 0 for change in turn.files)
        removed = sum(change.removed or 0 for change in turn.files)
        yield f"{count} file{'s' if count != 1 else ''} {counts_html(added, removed)}"


def _failure(turn: Turn) -> str:
    failure = turn.failure
    if failure is None:
        return ""
    hint = f"<p>{escaped(failure.hint)}</p>" if failure.hint else ""
    return (
        '<div class="blk failure" role="group" aria-label="The turn failed">'
        f"<h2>{icon('warn')}{escaped(failure.message)}</h2>{hint}</div>"
    )
