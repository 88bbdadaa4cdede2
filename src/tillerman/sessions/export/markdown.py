"""Exports a session as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tillerman.core.events import Content, Diff, Image, Notice, Text
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


def to_markdown(transcript: Transcript, name: str | None = None) -> str:
    """Renders the transcript. Messages stay Markdown; everything else is fenced or escaped."""
    parts = [f"# {_plain(title(transcript, name))}"]
    parts.append("\n".join(f"- {name}: {_plain(value)}" for name, value in facts(transcript)))
    parts += _blocks(transcript.opening, 0)
    for turn in transcript.turns:
        parts += _turn(turn)
    return "\n\n".join(part for part in parts if part) + "\n"


def _turn(turn: Turn) -> Iterator[str]:
    yield f"## Turn {turn.number}"
    if turn.prompt:
        yield _quote(turn.prompt)
    elif turn.origin == "agent":
        yield "_The agent started this turn itself._"
    if turn.attachments:
        names = ", ".join(_plain(f"{file.name} ({file.size} bytes)") for file in turn.attachments)
        yield f"Attached: {names}"
    yield from _blocks(turn.blocks, 0)
    changed = changes(turn)
    if changed:
        yield "Files changed:\n\n" + "\n".join(f"- {_plain(line)}" for line in changed)
    yield f"_{_plain(ending(turn))}_"


def _blocks(blocks: list[Block], depth: int) -> Iterator[str]:
    for block in blocks:
        match block:
            case Message():
                yield _contained(block.text)
            case Thought():
                yield f"<details><summary>Thinking</summary>\n\n{_fence(block.text)}\n\n</details>"
            case TextBlock():
                yield f"**You ({block.how}):**\n\n{_quote(block.text)}"
            case PlanBlock():
                steps = (f"- [{MARKS[step.status]}] {_plain(step.text)}" for step in block.steps)
                yield "**Plan**\n\n" + "\n".join(steps)
            case RequestBlock():
                yield f"**Asked:** {_plain(asked(block))} — {_plain(answered(block))}"
            case Notice():
                yield f"_{block.level}: {_plain(block.text)}_"
            case ToolCallBlock():
                yield from _call(block, depth)


def _call(call: ToolCallBlock, depth: int) -> Iterator[str]:
    yield f"**{_plain(call.title)}** — {call.state}"
    if call.input:
        yield _fence(input_of(call), "json")
    for content in call.content:
        yield from _content(content)
    if call.blocks and depth >= DEEPEST:
        yield f"_blocks inside, not shown: {len(call.blocks)}_"
    elif call.blocks:
        inside = "\n\n".join(_blocks(call.blocks, depth + 1))
        yield _quote(inside)


def _content(content: Content) -> Iterator[str]:
    match content:
        case Text():
            if content.text:
                yield _fence(content.text)
            if content.cut:
                yield f"_{_plain(cut(content))}_"
        case Diff():
            yield _fence("\n".join(patch(content)), "diff")
        case Image():
            yield f"_image {_plain(content.mime)}, sha256 {_plain(content.hash)}_"


def _fence(text: str, kind: str = "") -> str:
    """Fences text with more backticks than any run in it, so that nothing inside can close it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    bars = "`" * max(3, longest + 1)
    return f"{bars}{kind}\n{text.rstrip(chr(10))}\n{bars}"


def _contained(text: str) -> str:
    """Escapes HTML and closes open fences, so that a message cannot affect what follows it."""
    lines, fence = [], ""
    for line in text.splitlines():
        bars = re.match(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)", line)
        if not fence:
            fence = bars[1] if bars else ""
            lines.append(line if bars else _without_html(line))
        else:
            same = bars and bars[1][0] == fence[0] and len(bars[1]) >= len(fence)
            fence = "" if same and bars and not bars[2].strip() else fence
            lines.append(line)
    return "\n".join([*lines, fence] if fence else lines)


def _without_html(line: str) -> str:
    """Escapes tags and comments, except in code spans."""
    parts = re.split(r"((?<!`)(`+)(?!`).+?(?<!`)\2(?!`))", line)
    plain, code = parts[::3], parts[1::3]
    plain = [re.sub(r"(?<!\\)<(?=[A-Za-z/!?])", r"\\<", part) for part in plain]
    return "".join(part for pair in zip(plain, [*code, ""], strict=True) for part in pair)


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _plain(text: str) -> str:
    """Puts the text on one line and escapes its Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", " ".join(text.split()))
