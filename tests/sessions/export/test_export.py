"""Exported sessions."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from tillerman.core.events import (
    AgentReady,
    AgentStarted,
    Answer,
    Attachment,
    Cut,
    Diff,
    Entry,
    Event,
    FileChange,
    FilesChanged,
    Image,
    MessageChunk,
    Notice,
    PermissionRequested,
    PlanChanged,
    PlanStep,
    Question,
    QuestionAsked,
    RequestAnswered,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
    decode_entry,
)
from tillerman.core.failure import Failure
from tillerman.core.transcript.transcript import fold
from tillerman.sessions.export import to_html, to_jsonl, to_markdown


def log(*events: Event) -> list[Entry]:
    entries, turn = [], 0
    for seq, event in enumerate(events, 1):
        turn += isinstance(event, TurnStarted)
        at = f"2026-03-01T10:00:{seq:02}Z"
        entries.append(Entry(session="s1", seq=seq, turn=turn, at=at, event=event))
    return entries


def tool(text: str) -> list[Event]:
    return [
        ToolStarted(call_id="c1", tool="Bash", name="Bash", title="Bash `x`"),
        ToolFinished(call_id="c1", outcome="completed", content=(Text(text),)),
    ]


SESSION = log(
    AgentStarted(agent="claude", version="2.1"),
    AgentReady(native_id="n1", model="opus"),
    TurnStarted(
        origin="prompt",
        prompt="Fix the *build*\nplease",
        attachments=(Attachment("shot.png", "image/png", "ab", 7),),
    ),
    ThoughtChunk(message_id="m1", text="Hm."),
    MessageChunk(message_id="m1", text="I **will**."),
    PlanChanged(steps=(PlanStep("look", "completed"), PlanStep("mend"))),
    PermissionRequested(request_id="r1", tool="Edit", title="Edit `a.py`"),
    RequestAnswered(request_id="r1", answer=Answer("allow"), by="person", surface="terminal"),
    ToolStarted(
        call_id="c1", tool="Edit", name="Edit", title="Edit `a.py`", input={"path": "a.py"}
    ),
    ToolFinished(
        call_id="c1",
        outcome="completed",
        content=(
            Diff("a.py", old="one\ntwo\n", new="one\n2\n"),
            Text("saved", Cut(9, "c1.txt")),
            Image("image/png", "cd"),
        ),
    ),
    UserMessage(text="faster", how="steer"),
    Notice(level="warning", kind="retry", text="again in 1 s"),
    MessageChunk(message_id="m2", text="Done."),
    UsageReported(input_tokens=10, output_tokens=5, cost_usd=0.25),
    FilesChanged(files=(FileChange("a.py", "modified", 1, 1),), left_out=2),
    TurnEnded(reason="completed"),
    TurnStarted(origin="agent"),
    QuestionAsked(request_id="r2", questions=(Question("Which?"),)),
    TurnEnded(reason="failed", failure=Failure(kind="api_error", message="overloaded")),
)

MARKDOWN = r"""# Fix the \*build\* please

- Session: s1
- Agent: claude 2.1
- Model: opus
- Tokens: 10 in, 5 out
- Cost: $0.2500

## Turn 1

> Fix the *build*
> please

Attached: shot.png (7 bytes)

<details><summary>Thinking</summary>

```
Hm.
```

</details>

I **will**.

**Plan**

- [x] look
- [ ] mend

**Asked:** Edit \`a.py\` — allow by person (terminal)

**Edit \`a.py\`** — completed

```json
{
  "path": "a.py"
}
```

```diff
--- a.py
+++ a.py
@@ -1,2 +1,2 @@
 one
-two
+2
```

```
saved
```

_… 9 bytes left out, stored in c1.txt_

_image image/png, sha256 cd_

**You (steer):**

> faster

_warning: again in 1 s_

Done.

Files changed:

- modified a.py +1 −1
- and 2 more

_completed after 13.0 s for $0.2500_

## Turn 2

_The agent started this turn itself._

**Asked:** Which? — open

_failed (api\_error): overloaded after 2.0 s_
"""


def test_a_session_reads_as_markdown() -> None:
    assert to_markdown(fold(SESSION)) == MARKDOWN


def test_json_lines_are_the_entries_themselves() -> None:
    lines = b"".join(to_jsonl(SESSION)).splitlines()
    assert [decode_entry(line) for line in lines] == SESSION


@pytest.mark.parametrize(
    "output",
    [
        "```\n# escaped\n```",
        "``````\n# escaped\n",
        "~~~\n# escaped",
        "\n\n# escaped",
        "````\r# escaped\r````",
        "</details>\n\n# escaped",
    ],
)
def test_tool_output_stays_in_its_fence(output: str) -> None:
    document = to_markdown(fold(log(TurnStarted(origin="prompt", prompt="go"), *tool(output))))
    tokens = MarkdownIt().parse(document)
    assert [token.content for token in tokens if token.type == "fence"] == [
        output.replace("\r", "\n").rstrip("\n") + "\n"
    ]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2"]


@pytest.mark.parametrize(
    "said",
    [
        "```python\nprint(1)",
        "~~~~\nx\n~~~",
        "see <!-- hidden",
        "<details><summary>x",
        "<script>alert(1)</script>",
        "`code` <b>x `` ` <i> `` <img src=x onerror=y>",
        "```\n<b>kept</b>\n```\n<b>tamed</b>",
    ],
)
def test_a_message_cannot_swallow_or_script_what_follows_it(said: str) -> None:
    document = to_markdown(
        fold(
            log(
                TurnStarted(origin="prompt", prompt="go"),
                MessageChunk(message_id="m1", text=said),
                TurnEnded(reason="completed"),
                TurnStarted(origin="prompt", prompt="again"),
            )
        )
    )
    tokens = MarkdownIt().parse(document)
    inline = [child.type for token in tokens for child in token.children or ()]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h2"]
    assert {"html_block", "html_inline"}.isdisjoint({*inline, *(token.type for token in tokens)})


def test_code_in_a_message_keeps_its_angle_brackets() -> None:
    message = "use `List<String>` in\n```java\nList<String> x;\n```"
    document = to_markdown(fold(log(MessageChunk(message_id="m1", text=message))))
    assert message in document


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)></pre></style><!--"


def test_no_text_of_a_session_becomes_markup_in_html() -> None:
    document = to_html(
        fold(
            log(
                AgentStarted(agent=EVIL, version=EVIL),
                AgentReady(native_id=EVIL, model=EVIL),
                TurnStarted(
                    origin="prompt",
                    prompt=EVIL,
                    attachments=(Attachment(EVIL, EVIL, EVIL, 1),),
                ),
                ThoughtChunk(message_id="m1", text=EVIL),
                MessageChunk(message_id="m1", text=EVIL),
                PlanChanged(steps=(PlanStep(EVIL),)),
                PermissionRequested(request_id="r1", tool=EVIL, title=EVIL),
                RequestAnswered(
                    request_id="r1",
                    answer=Answer(EVIL, note=EVIL, answers={EVIL: EVIL}),
                    by="person",
                    surface=EVIL,
                ),
                QuestionAsked(request_id="r2", questions=(Question(EVIL),)),
                ToolStarted(call_id="c1", tool=EVIL, name=EVIL, title=EVIL, input={EVIL: EVIL}),
                ToolFinished(
                    call_id="c1",
                    outcome="failed",
                    content=(
                        Text(EVIL, Cut(1, EVIL)),
                        Diff(EVIL, old="a", new=EVIL),
                        Diff(EVIL, patch=f"+{EVIL}"),
                        Image(EVIL, EVIL),
                    ),
                ),
                UserMessage(text=EVIL, how="steer"),
                Notice(level="error", kind="stray", text=EVIL),
                FilesChanged(files=(FileChange(EVIL, "renamed", 1, 1, EVIL),)),
                TurnEnded(reason="failed", failure=Failure(kind="refused", message=EVIL)),
            )
        )
    )
    page = _Tags()
    page.feed(document)
    assert page.tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th", "td",
        "div", "p", "details", "summary", "b", "i", "span", "pre", "ul", "li",
    }  # fmt: skip
    assert page.attributes == {"lang", "charset", "name", "content", "http-equiv", "class"}
    assert page.text.count(EVIL) >= 20


def test_the_html_page_shows_what_the_markdown_shows_and_needs_nothing_else() -> None:
    document = to_html(fold(SESSION))
    page = _Tags()
    page.feed(document)
    words = " ".join(page.text.split())
    for shown in (
        "Fix the *build* please",
        "I **will**.",
        "[x] look",
        "Edit `a.py` — allow by person (terminal)",
        "-two +2",
        "9 bytes left out, stored in c1.txt",
        "(steer)",
        "modified a.py +1 −1",
        "completed after 13.0 s for $0.2500",
        "Which? — open",
        "failed (api_error): overloaded",
    ):
        assert shown in words
    assert "http://" not in document
    assert "https://" not in document
    assert "color-scheme: light dark" in document


def test_calls_inside_calls_are_shown_to_a_depth_and_then_counted() -> None:
    nested = [
        ToolStarted(
            call_id=str(n),
            tool="Task",
            name="Task",
            title=f"level {n}",
            parent=str(n - 1) if n else None,
        )
        for n in range(2_000)
    ]
    transcript = fold(log(TurnStarted(origin="prompt", prompt="go"), *nested))
    for document in (to_markdown(transcript), to_html(transcript)):
        assert "level 20" in document
        assert "level 21" not in document
        assert "blocks inside, not shown: 1" in document


def test_an_empty_session_has_a_title() -> None:
    assert to_markdown(fold(log())) == "# Session\n"


def test_the_change_of_a_very_long_file_is_counted_not_worked_out() -> None:
    change = Diff("x", old="a\n" * 3_000, new="b\n" * 3_001)
    end = ToolFinished(call_id="c", outcome="completed", content=(change,))
    text = to_markdown(fold(log(*tool(""), end)))
    assert "3000 lines before, 3001 after" in text
