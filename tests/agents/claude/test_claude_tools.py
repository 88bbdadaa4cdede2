"""Tool calls and their results in the common vocabulary."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from tests.agents.claude.claude_says import assistant, calls, prompted, receive, system, tool_result
from tillerman.core.events import (
    Content,
    Cut,
    Diff,
    Image,
    PlanChanged,
    PlanStep,
    Text,
    ToolFinished,
    ToolStarted,
)
from tillerman.core.wire import AttachmentBytes

PATCH = [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": ["-a", "+b", "+c"]}]
PNG = b"\x89PNG"
IMAGE = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}


@pytest.mark.parametrize(
    ("name", "input", "tool", "title"),
    [
        ("Bash", {"command": "ls"}, "Bash", "Bash `ls`"),
        ("Agent", {"description": "look"}, "Task", "Task `look`"),
        ("Task", {"description": "look"}, "Task", "Task `look`"),
        ("AskUserQuestion", {}, "Question", "Ask"),
        ("mcp__files__read_all", {}, "MCP", "MCP `files.read_all`"),
        ("TaskCreate", {}, "TodoWrite", "Update the plan"),
        ("Hologram", {}, "Hologram", "Hologram"),
        ("Edit", {"file_path": "/proj/src/a.py"}, "Edit", "Edit `src/a.py`"),
    ],
)
def test_a_call_is_reported_in_the_common_vocabulary(
    name: str, input: dict[str, Any], tool: str, title: str
) -> None:
    (started,) = receive(prompted(), assistant(calls("c1", name, **input)))
    assert isinstance(started, ToolStarted)
    assert (started.tool, started.name, started.title) == (tool, name, title)


@pytest.mark.parametrize(
    ("name", "input", "said", "details", "content"),
    [
        ("Bash", {}, "out", {"stdout": "out"}, (Text("out"),)),
        ("Bash", {}, "", None, ()),
        (
            "Bash",
            {},
            "<persisted-output>…",
            {"stdout": "begin", "persistedOutputPath": "/o.txt", "persistedOutputSize": 105},
            (Text("begin", Cut(100)), Text("The whole output is in /o.txt")),
        ),
        (
            "Edit",
            {"file_path": "/proj/a"},
            "updated",
            {"filePath": "/proj/a", "structuredPatch": PATCH},
            (Diff("/proj/a", patch="@@ -1,1 +1,2 @@\n-a\n+b\n+c\n"),),
        ),
        (
            "Write",
            {"file_path": "/proj/a", "content": "x"},
            "created",
            {"filePath": "/proj/a", "structuredPatch": []},
            (Diff("/proj/a", new="x"),),
        ),
        (
            "Edit",
            {"file_path": "/proj/a", "old_string": "a", "new_string": "b"},
            "updated",
            None,
            (Diff("/proj/a", old="a", new="b"),),
        ),
        (
            "Read",
            {},
            [{"type": "image", "source": IMAGE}],
            None,
            (Image("image/png", hashlib.sha256(PNG).hexdigest()),),
        ),
        (
            "Read",
            {},
            [{"type": "image", "source": {"data": "?"}}],
            None,
            (Text("(an image that cannot be decoded)"),),
        ),
        (
            "mcp__s__t",
            {},
            [{"type": "text", "text": "a"}, {"type": "resource", "uri": "x:y"}],
            None,
            (Text("a"), Text('{"type": "resource", "uri": "x:y"}')),
        ),
        (
            "Agent",
            {},
            "Async agent…",
            {"status": "async_launched"},
            (Text("Works in the background."),),
        ),
        (
            "Agent",
            {},
            "[Subagent hand-back]…",
            {
                "status": "completed",
                "harnessNoteCount": 1,
                "content": [{"type": "text", "text": "note"}, {"type": "text", "text": "report"}],
            },
            (Text("report"),),
        ),
    ],
)
def test_a_result_is_text_diff_or_image(
    name: str, input: dict[str, Any], said: Any, details: Any, content: tuple[Content, ...]
) -> None:
    claude = prompted()
    receive(claude, assistant(calls("c1", name, **input)))
    assert receive(claude, tool_result("c1", said, details=details)) == [
        *(AttachmentBytes(PNG) for part in content if isinstance(part, Image)),
        ToolFinished(call_id="c1", outcome="completed", content=content),
    ]


REJECTED = {"id": "c1", "permission_decision": {"decision": "reject", "source": "config"}}


@pytest.mark.parametrize(
    ("said", "more", "outcome"),
    [
        ("Exit code 3", {}, "failed"),
        ("no", {"meta": [REJECTED]}, "denied"),
        ("Permission to use Bash with command rm has been denied.", {}, "denied"),
        ("The user doesn't want to proceed with this tool use. STOP", {}, "cancelled"),
        ("stopped", {"details": "User rejected tool use"}, "cancelled"),
    ],
)
def test_an_error_is_a_failure_a_denial_or_a_cancellation(
    said: str, more: dict[str, Any], outcome: str
) -> None:
    claude = prompted()
    receive(claude, assistant(calls("c1", "Bash", command="rm")))
    (finished,) = receive(claude, tool_result("c1", said, is_error=True, **more))
    assert isinstance(finished, ToolFinished)
    assert (finished.outcome, finished.content) == (outcome, (Text(said),))


def test_a_denial_reported_before_the_result_makes_it_denied() -> None:
    claude = prompted()
    receive(claude, assistant(calls("c1", "Bash", command="rm")))
    receive(claude, system("permission_denied", tool_use_id="c1", message="asks"))
    (finished,) = receive(claude, tool_result("c1", "asks", is_error=True))
    assert isinstance(finished, ToolFinished)
    assert finished.outcome == "denied"


def test_a_todo_list_becomes_the_plan() -> None:
    claude = prompted()
    todos = [{"content": "First", "status": "in_progress"}, {"content": "Second"}]
    receive(claude, assistant(calls("c1", "TodoWrite", todos=todos)))
    steps = (PlanStep("First", "in_progress"), PlanStep("Second"))
    assert receive(claude, tool_result("c1", "ok"))[1:] == [PlanChanged(steps=steps)]


def test_a_refused_todo_list_changes_no_plan() -> None:
    claude = prompted()
    receive(claude, assistant(calls("c1", "TodoWrite", todos=[{"content": "First"}])))
    (finished,) = receive(claude, tool_result("c1", "No such tool", is_error=True))
    assert isinstance(finished, ToolFinished)


def test_steps_created_and_updated_one_by_one_are_reported_as_a_whole_plan() -> None:
    """As 2.1.197 writes them."""
    claude = prompted()
    changes: list[object] = []
    for name, input, details in [
        ("TaskCreate", {"subject": "First"}, {"task": {"id": "1", "subject": "First"}}),
        ("TaskCreate", {"subject": "Second"}, {"task": {"id": "2", "subject": "Second"}}),
        ("TaskUpdate", {"taskId": "1", "status": "in_progress"}, {"success": True}),
        ("TaskUpdate", {"taskId": "2", "status": "deleted"}, {"success": True}),
        ("TaskUpdate", {"taskId": "1", "status": "completed"}, {"success": True}),
    ]:
        receive(claude, assistant(calls("c1", name, **input)))
        changes += receive(claude, tool_result("c1", "ok", details=details))[1:]
    first, second = PlanStep("First"), PlanStep("Second")
    assert changes == [
        PlanChanged(steps=(first,)),
        PlanChanged(steps=(first, second)),
        PlanChanged(steps=(PlanStep("First", "in_progress"), second)),
        PlanChanged(steps=(PlanStep("First", "in_progress"),)),
        PlanChanged(steps=(PlanStep("First", "completed"),)),
    ]
