"""Sessions with fixed entries, times and ids, so that their rendering is always the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tillerman.core.events import (
    AgentStarted,
    Choice,
    Diff,
    Entry,
    Event,
    FileChange,
    FilesChanged,
    MessageChunk,
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
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from tillerman.core.events import Answer as Given
from tillerman.core.failure import Failure
from tillerman.paths import find_paths
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.search import Role, Search
from tillerman.store.session_row import SessionRow

STEP = 0.8  # seconds between two entries


@dataclass(frozen=True)
class Story:
    id: str
    events: Sequence[Event]
    agent: str = "mock"
    age: timedelta = timedelta(hours=3, minutes=30)  # of its first entry
    row: dict[str, Any] = field(default_factory=dict)


async def store_all(home: Path, folder: Path, stories: Sequence[Story]) -> None:
    """Writes them into the store, as if they had been run."""
    paths = find_paths({"TILLERMAN_HOME": str(home / "tillerman"), "HOME": str(home)})
    paths.store.parent.mkdir(parents=True, exist_ok=True)
    database = Database.open(paths.store)
    log, catalog, search = EventLog(database), Catalog(database), Search(database)
    for story in sorted(stories, key=lambda story: -story.age):
        begin = datetime.now(UTC) - story.age
        row = SessionRow(
            id=story.id, agent=story.agent, cwd=str(folder), created_at=_at(begin, 0), **story.row
        )
        await asyncio.wrap_future(catalog.create(row))
        turn, entries = 0, []
        for seq, event in enumerate(story.events, 1):
            turn += isinstance(event, TurnStarted)
            entries.append(
                Entry(session=story.id, seq=seq, turn=turn, at=_at(begin, seq), event=event)
            )
        if entries:
            await asyncio.wrap_future(log.write(entries))
            await asyncio.wrap_future(search.index(story.id, 1, list(_search_rows(story))))
    database.close()


def _search_rows(story: Story) -> Iterator[tuple[Role, str]]:
    for event in story.events:
        if isinstance(event, TurnStarted):
            yield "user", event.prompt or ""
        elif isinstance(event, MessageChunk):
            yield "agent", event.text


def _at(begin: datetime, step: int) -> str:
    return (begin + timedelta(seconds=STEP * step)).isoformat(timespec="milliseconds")


# -- what entries are made of ----------------------------------------------------------------------

OLD = """\
import json


def read_lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def count(path):
    return len(read_lines(path))
"""
NEW = """\
import json
from collections.abc import Iterator


def read_lines(path: str) -> Iterator[dict]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def count(path: str) -> int:
    return sum(1 for _ in read_lines(path))
"""
ANSWER = """\
## What I found

The parser keeps **every line** in memory. Two ways out:

1. read *lazily*, one line at a time
2. cap the file's size
   - in `config.toml`
   - or by a flag

```python
def read_lines(path: str) -> Iterator[dict]:
    for line in open(path):
        yield json.loads(line)
```

| file | lines | memory |
| --- | ---: | ---: |
| `small.jsonl` | 1,000 | 4 MB |
| `large.jsonl` | 2,000,000 | 1.9 GB |

> The second hides the problem. See the [issue](https://example.org/issues/7).
"""
THOUGHT = """\
The user wants the parser not to read all of the file at once. A generator does that, but count()
relies on the length of a list, so it has to change as well. Nothing else calls it: I looked.
"""
LOG = "\n".join(f"tests/test_parser.py::test_case_{number} PASSED" for number in range(1, 31))
FAILED = """\
\x1b[1mtests/test_parser.py\x1b[0m:14: in test_count
    assert count(path) == 3
\x1b[31mE   AssertionError: assert 2 == 3\x1b[0m
\x1b[31mE    +  where 2 = count('lines.jsonl')\x1b[0m
1 failed, 29 passed in 0.41s
"""
COMMAND = "rm -rf build && python -m build --wheel --outdir dist . && twine check dist/*.whl"


def begun(prompt: str) -> Event:
    return TurnStarted(origin="prompt", prompt=prompt)


def done() -> Event:
    return TurnEnded(reason="completed")


def chunk(text: str, id: str = "m1") -> Event:
    return MessageChunk(message_id=id, text=text)


def call(id: str, tool: str, title: str, **input: str) -> Event:
    return ToolStarted(call_id=id, tool=tool, name=tool, title=title, input=input)


def ended(id: str, outcome: Any = "completed", *content: Text | Diff) -> Event:
    return ToolFinished(call_id=id, outcome=outcome, content=content)


USED = UsageReported(
    input_tokens=12_480, output_tokens=1_932, cached_tokens=9_000, cost_usd=0.0831,
    context_used=38_400, context_limit=200_000,
)  # fmt: skip
CHANGED = FilesChanged(
    files=(
        FileChange("src/parser.py", "modified", 7, 4),
        FileChange("tests/test_parser.py", "added", 22, 0),
    )
)
EDIT = Diff("src/parser.py", old=OLD, new=NEW)

# -- conversations ---------------------------------------------------------------------------------

MARKDOWN = Story("aa00000001", [begun("What is slow here?"), chunk(ANSWER), done()])
THINKING = Story(
    "aa00000002",
    [
        begun("Read the log lazily."),
        ThoughtChunk(message_id="t1", text=THOUGHT),
        chunk("I make `read_lines` a generator, and `count` count what it yields."),
        USED,
        done(),
    ],
)
CALLS = Story(
    "aa00000003",
    [
        begun("Run the tests, and mend what fails."),
        call("c1", "Read", "Read `src/parser.py`", file_path="src/parser.py"),
        ended("c1", "completed", Text(OLD)),
        call("c2", "Bash", "Bash `pytest -q`", command="pytest -q"),
        ended("c2", "failed", Text(FAILED)),
        call("c3", "Bash", "Bash `git push --force`", command="git push --force"),
        PermissionRequested(
            request_id="r1", tool="Bash", title="Bash `git push --force`", call_id="c3",
            input={"command": "git push --force"},
        ),
        RequestAnswered(
            request_id="r1", answer=Given("deny", note="not before the review"), by="person",
            surface="terminal",
        ),
        ended("c3", "denied", Text("not before the review")),
        call("c4", "Bash", "Bash `pytest -q --slow`", command="pytest -q --slow"),
        ended("c4", "cancelled"),
        call("c5", "Bash", "Bash `pytest -v`", command="pytest -v"),
        ended("c5", "completed", Text(LOG)),
        TurnEnded(reason="cancelled"),
    ],
)  # fmt: skip
DIFF = Story(
    "aa00000004",
    [
        AgentStarted(agent="mock"),
        begun("Read the log lazily."),
        call("c1", "Edit", "Edit `src/parser.py`", file_path="src/parser.py"),
        ended("c1", "completed", EDIT),
        USED,
        CHANGED,
        done(),
    ],
)
PLAN = Story(
    "aa00000005",
    [
        begun("Make it fast, in steps."),
        PlanChanged(
            steps=(
                PlanStep("Measure what it costs now", "completed"),
                PlanStep("Read the log lazily", "in_progress"),
                PlanStep("Write a test with two million lines"),
            )
        ),
        UserMessage(text="and keep the old name", how="steer"),
        Notice(level="info", kind="compaction", text="the conversation was made shorter"),
        Notice(level="warning", kind="retry", text="the model is busy: again in 4 s"),
        Notice(level="error", kind="storage", text="the disk is full: nothing is kept"),
        USED,
        TurnEnded(
            reason="failed",
            failure=Failure(
                kind="rate_limited", message="too many requests", hint="wait, or /agent codex"
            ),
        ),
    ],
)
RUNNING = Story(
    "aa00000006",
    [
        begun("Run the tests."),
        call("c1", "Read", "Read `src/parser.py`", file_path="src/parser.py"),
        ended("c1", "completed", Text(OLD)),
        call("c2", "Bash", "Bash `pytest -q`", command="pytest -q"),
    ],
    age=timedelta(hours=-1),  # so that it runs for no time yet, however long this takes
)
STORIES = [MARKDOWN, THINKING, CALLS, DIFF, PLAN]


# -- what is asked ---------------------------------------------------------------------------------


def _request_story(id: str, *requests: Event, said: str = "I would go on like this.") -> Story:
    return Story(id, [begun("Publish it."), chunk(said), *requests])


PERMISSION = _request_story(
    "bb00000001",
    PermissionRequested(
        request_id="r1", tool="Bash", title="Bash `git push origin main`", reason="to publish it",
        input={"command": "git push origin main", "description": "publish", "timeout": 60},
    ),
)  # fmt: skip
LONG_COMMAND = _request_story(
    "bb00000002",
    PermissionRequested(
        request_id="r1", tool="Bash", title=f"Bash `{COMMAND[:60]}…`", input={"command": COMMAND}
    ),
    PermissionRequested(request_id="r2", tool="Bash", title="Bash `ls`", input={"command": "ls"}),
)
WRITE = _request_story(
    "bb00000003",
    PermissionRequested(
        request_id="r1", tool="Edit", title="Edit `src/parser.py`", paths=("src/parser.py",),
        input={"file_path": "src/parser.py", "old_string": OLD, "new_string": NEW},
    ),
)  # fmt: skip
ONE_QUESTION = _request_story(
    "bb00000004",
    QuestionAsked(
        request_id="q1",
        questions=(
            Question(
                "Which store is to be used?",
                "Store",
                (
                    Choice("SQLite", "one file, nothing to set up"),
                    Choice("Postgres", "a server that several share"),
                    Choice("None"),
                ),
            ),
        ),
    ),
)
MANY = _request_story(
    "bb00000005",
    QuestionAsked(
        request_id="q1",
        questions=(
            Question(
                "Which of these are to be ported?",
                "Scope",
                (Choice("parser"), Choice("writer", "with its cache"), Choice("command line")),
                many=True,
            ),
        ),
    ),
)
REQUESTS = [PERMISSION, LONG_COMMAND, WRITE, ONE_QUESTION, MANY]


# -- a shelf of sessions ---------------------------------------------------------------------------


def _shelved(
    number: int, agent: str, age: timedelta, prompt: str, *rest: Event, **row: Any
) -> Story:
    return Story(f"cc{number:08d}", [begun(prompt), *rest], agent, age, row)


HALF = timedelta(minutes=30)
SHELF = [
    _shelved(1, "claude", timedelta(minutes=4, seconds=5), "Make the parser lazy", USED, done()),
    _shelved(
        2, "codex", timedelta(hours=1) + HALF, "Port the writer to Rust, keep its tests, and tell "
        "what is lost on the way", chunk("The race condition is in the cache."), USED,
        TurnEnded(reason="failed", failure=Failure(kind="api_error", message="no")),
    ),
    _shelved(3, "gemini", timedelta(hours=5) + HALF, "Review this", TurnEnded(reason="cancelled")),
    _shelved(
        4, "mock", timedelta(hours=20) + HALF, "Publish it",
        PermissionRequested(
            request_id="r1", tool="Bash", title="Bash `ls`", input={"command": "ls"}
        ),
    ),
    _shelved(
        5, "opencode", timedelta(days=2) + HALF, "日本語のドキュメントを書く",
        chunk("Done."), done(),
        title="Documents in Japanese: 日本語のドキュメント",
    ),
    _shelved(6, "cursor", timedelta(days=40) + HALF, "Why is there a race condition here?", done()),
]  # fmt: skip
SETTINGS = SettingsChanged(model="mock-deep", mode="plan", commands=("review", "compact"))
SETTLED = Story("dd00000001", [SETTINGS, begun("Hello"), chunk("Hello to you."), USED, done()])
