"""Generated logs: everything that an agent can do, in any order, with any text."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.surfaces.rendering.answers import answer
from tillerman.core.events import (
    AgentExited,
    AgentStarted,
    Answer,
    Attachment,
    BackgroundChanged,
    BackgroundTask,
    Choice,
    Diff,
    Entry,
    Event,
    FileChange,
    FilesChanged,
    Image,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    PlanChanged,
    PlanStep,
    Question,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
    UserMessage,
)
from tillerman.core.failure import Failure

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='x", "</details>",
    "[x](javascript:alert(1))", "[x](//evil.example)", "![x](http://evil.example/x.png)",
    "<style>*{display:none}</style>", "</pre></div>", "<a href=javascript:x>y</a>", "&lt;b&gt;",
    "\u202egnp.exe", "\x1b[31mred", "a\x00b", "<svg onload=x>", "`</code>`", "${x}", "{{x}}",
    '[x](http://a@b.example "<b>")', "[x](https://\u0435xample.org)", "<!--", "]]>", "\ud800",
    "data:text/html,<script>", "[x](data:text/html;base64,AAAA)", "[x](vbscript:x)", "<x-y>",
)  # fmt: skip
_IDS = ("a", "b", "c", "d")
_STATES = ("completed", "failed", "denied", "cancelled")


def hostile(chance: random.Random) -> str:
    parts = [chance.choice(HOSTILE) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.5:
        parts.append(answer(chance.randrange(100_000)))
    chance.shuffle(parts)
    return chance.choice((" ", "\n", "\n\n")).join(parts)


def generated_log(seed: int, length: int = 80) -> list[Entry]:
    chance = random.Random(seed)
    turn, entries = 0, list[Entry]()
    for seq in range(1, length + 1):
        event = _event(chance)
        if isinstance(event, TurnStarted):
            turn += 1
        at = f"2026-01-01T00:{seq // 60 % 60:02}:{seq % 60:02}.000Z"
        number = turn if chance.random() < 0.95 else chance.randint(0, turn)
        entries.append(Entry(session="s1", seq=seq, turn=number, at=at, event=event))
    return entries


def _event(chance: random.Random) -> Event:
    one, text = chance.choice(_IDS), hostile(chance)
    parent = chance.choice((None, None, None, *_IDS))
    kinds: Sequence[Event] = [
        MessageChunk(message_id=one, text=text, parent=parent),
        MessageChunk(message_id=one, text=text[: chance.randint(1, 30)]),
        MessageChunk(message_id="long", text="word " * chance.randint(1, 2_000)),
        ThoughtChunk(message_id=one, text=text, parent=parent),
        MessageWithdrawn(message_id=one, parent=parent),
        ToolStarted(call_id=one, tool="Task", name=text, title=text, parent=parent),
        ToolStarted(call_id=one, tool="Bash", name="Bash", title=f"Bash `{text}`", paths=(text,)),
        ToolUpdated(call_id=one, title=text, content=(Text(text),), parent=parent),
        ToolFinished(call_id=one, outcome=chance.choice(_STATES), content=(Text(text),)),  # type: ignore[arg-type]
        ToolFinished(
            call_id=one,
            outcome="completed",
            content=(
                Diff(text[:40], old=f"{text}\nx", new=f"{text}\ny"),
                Diff("new.py", old="", new=text),
                Diff("gone.py", old=text, new=None),
                Image("image/png", "0" * 64),
            ),
        ),
        PlanChanged(
            steps=(PlanStep(text, "completed"), PlanStep(text, "in_progress"), PlanStep(text))
        ),
        PermissionRequested(request_id=one, tool="Bash", title=text, input={"command": text}),
        QuestionAsked(request_id=one, questions=(Question(text, text, (Choice(text, text),)),)),
        RequestAnswered(request_id=one, answer=Answer("deny", note=text), by="timeout"),
        RequestAnswered(
            request_id=one, answer=Answer("allow"), by=chance.choice(("policy", "person"))
        ),
        TurnStarted(
            origin="prompt", prompt=text, attachments=(Attachment(text, "image/png", "0" * 64, 9),)
        ),
        TurnEnded(reason="completed"),
        TurnEnded(reason="failed", failure=Failure(kind="agent_crashed", message=text, hint=text)),
        BackgroundChanged(tasks=(BackgroundTask("t", call_id=one),)),
        UsageReported(input_tokens=1, output_tokens=2, cached_tokens=3, cost_usd=0.1),
        FilesChanged(files=(FileChange(text, "modified", 1, 2),)),
        Notice(level="warning", kind="retry", text=text),
        UserMessage(text=text, how="steer"),
        SettingsChanged(title=text, model=text),
        AgentStarted(agent="mock"),
        AgentExited(code=0),
        Unrecognized(raw=text),
    ]
    return chance.choice(kinds)


def long_session(count: int, session: str = "s") -> list[Entry]:
    events: list[Entry] = []
    turn = 0
    for seq in range(1, count + 1):
        kind = seq % 50
        if kind == 1:
            turn += 1
            event: object = TurnStarted(origin="prompt", prompt=f"prompt {turn}")
        elif kind == 0:
            event = TurnEnded(reason="completed")
        else:
            event = MessageChunk(message_id=f"m{seq // 10}", text=f"word {seq}\n\n")
        at = "2026-01-01T00:00:00Z"
        events.append(Entry(session=session, seq=seq, turn=turn, at=at, event=event))  # type: ignore[arg-type]
    return events
