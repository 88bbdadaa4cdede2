"""Exports a session as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterator

from tillerman.core.events import Content, Diff, Image, Notice, Text
from tillerman.core.terminal_sanitizer import reveal
from tillerman.core.transcript.blocks import (
    Block,
    Message,
    PlanBlock,
    RequestBlock,
    TextBlock,
    Thought,
    ToolCallBlock,
    Turn,
)
from tillerman.core.transcript.transcript import Transcript
from tillerman.sessions.export.document import (
    DEEPEST,
    MARKS,
    answered,
    asked,
    changes,
    cut,
    ending,
    facts,
    input_of,
    title,
)
from tillerman.sessions.export.patch import patch

_STYLE = """
:root { color-scheme: light dark;
  --line: #8884; --soft: #8881; --dim: #777; --add: #2a72; --del: #c332 }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; background: var(--soft); padding: .6rem .8rem; border-radius: 6px;
  font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }
.say { white-space: pre-wrap; overflow-wrap: anywhere }
.you { border-left: 3px solid #58f; padding-left: .8rem }
.call, .think { border: 1px solid var(--line); border-radius: 6px;
  padding: .4rem .8rem; margin: .6rem 0 }
.dim { color: var(--dim); font-size: .9em }
.failed, .denied, .error { color: #d33 }
.add { background: var(--add) } .del { background: var(--del) }
table { border-collapse: collapse } th { text-align: left; padding-right: 1rem; font-weight: 600 }
summary { cursor: pointer }
"""


def to_html(transcript: Transcript, name: str | None = None) -> str:
    """Renders a self-contained page without scripts."""
    rows = (
        f"<tr><th>{_e(name)}</th><td>{_e(value)}</td></tr>" for name, value in facts(transcript)
    )
    body = [
        f"<h1>{_e(title(transcript, name))}</h1>",
        f"<table>{''.join(rows)}</table>",
        *_blocks(transcript.opening, 0),
    ]
    for turn in transcript.turns:
        body += _turn(turn)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_e(title(transcript, name))}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _turn(turn: Turn) -> Iterator[str]:
    yield f"<h2>Turn {turn.number}</h2>"
    if turn.prompt:
        yield f'<div class="say you">{_e(turn.prompt)}</div>'
    elif turn.origin == "agent":
        yield '<p class="dim">The agent started this turn itself.</p>'
    for file in turn.attachments:
        yield f'<p class="dim">Attached: {_e(file.name)} ({file.size} bytes)</p>'
    yield from _blocks(turn.blocks, 0)
    changed = changes(turn)
    if changed:
        yield f"<p>Files changed:</p>{_list(changed)}"
    yield f'<p class="dim {turn.status}">{_e(ending(turn))}</p>'


def _blocks(blocks: list[Block], depth: int) -> Iterator[str]:
    for block in blocks:
        match block:
            case Message():
                yield f'<div class="say">{_e(block.text)}</div>'
            case Thought():
                yield (
                    '<details class="think"><summary class="dim">Thinking</summary>'
                    f'<div class="say dim">{_e(block.text)}</div></details>'
                )
            case TextBlock():
                how = f'<i class="dim">({block.how})</i>'
                yield f'<div class="say you">{_e(block.text)} {how}</div>'
            case PlanBlock():
                steps = (f"<li>[{MARKS[step.status]}] {_e(step.text)}</li>" for step in block.steps)
                yield f"<p>Plan</p><ul>{''.join(steps)}</ul>"
            case RequestBlock():
                yield f"<p><b>Asked:</b> {_e(asked(block))} — {_e(answered(block))}</p>"
            case Notice():
                yield f'<p class="dim {block.level}">{_e(block.text)}</p>'
            case ToolCallBlock():
                yield from _call(block, depth)


def _call(call: ToolCallBlock, depth: int) -> Iterator[str]:
    yield (
        f'<details class="call"><summary><b>{_e(call.title)}</b> '
        f'<span class="dim {call.state}">{call.state}</span></summary>'
    )
    if call.input:
        yield f"<pre>{_e(input_of(call))}</pre>"
    for content in call.content:
        yield from _content(content)
    if call.blocks and depth >= DEEPEST:
        yield f'<p class="dim">blocks inside, not shown: {len(call.blocks)}</p>'
    else:
        yield from _blocks(call.blocks, depth + 1)
    yield "</details>"


def _content(content: Content) -> Iterator[str]:
    match content:
        case Text():
            if content.text:
                yield f"<pre>{_e(content.text)}</pre>"
            if content.cut:
                yield f'<p class="dim">{_e(cut(content))}</p>'
        case Diff():
            yield f"<pre>{''.join(_diff(patch(content)))}</pre>"
        case Image():
            yield f'<p class="dim">image {_e(content.mime)}, sha256 {_e(content.hash)}</p>'


def _diff(lines: list[str]) -> Iterator[str]:
    for line in lines:
        kind = {"+": "add", "-": "del"}.get(line[:1])
        yield f'<span class="{kind}">{_e(line)}</span>\n' if kind else f"{_e(line)}\n"


def _list(lines: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{_e(line)}</li>' for line in lines)}</ul>"


def _e(text: str) -> str:
    """Escapes HTML; reveals control characters and those that change the text direction."""
    return html.escape(reveal(text), quote=True)
