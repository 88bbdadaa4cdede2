"""Each program of `examples/` does what its docstring states, with the mock agent."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.examples.running import EXAMPLES, ExampleFolder, Ran

ECHO = Path(__file__).parents[1] / "agents/acp/acp_program.py"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture
def folder(tmp_path: Path) -> ExampleFolder:
    return ExampleFolder(tmp_path)


def script(*steps: dict[str, Any]) -> str:
    return json.dumps(steps)


def lines(ran: Ran) -> list[str]:
    assert (ran.code, ran.errors) == (0, "")
    return ran.output.splitlines()


def test_there_are_ten_examples_and_each_has_a_test() -> None:
    own = Path(__file__).read_text()
    assert len(PROGRAMS) == 10
    for program in PROGRAMS:
        assert f'"{program.stem}"' in own


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_is_short_and_describes_how_to_start_it(program: Path) -> None:
    text = program.read_text()
    assert text.count("\n") < 60
    assert f"python examples/{program.name}" in (ast.get_docstring(ast.parse(text)) or "")


def test_stream_prints_messages_and_calls_in_order(folder: ExampleFolder) -> None:
    prompt = script({"say": "First."}, {"run": "echo hi"}, {"say": "Last."})
    text = "\n".join(lines(folder.run("stream", "mock", prompt)))
    assert re.fullmatch(r"First\.\n\[Bash `echo hi`\] completed\nLast\.", text)


def test_answers_in_code_allow_edits_and_deny_commands(folder: ExampleFolder) -> None:
    question = {"text": "Which?", "header": "Q", "choices": [{"label": "red"}, {"label": "blue"}]}
    prompt = script(
        {"write": "a.txt", "text": "1\n"},
        {"run": "touch b.txt", "else": []},
        {"question": [question]},
        {"say": "You chose {answer}"},
    )
    reported = lines(folder.run("answer_in_code", "mock", prompt))
    assert [line.split()[:2] for line in reported[:2]] == [
        ["completed", "Write"],
        ["denied", "Bash"],
    ]
    assert "red" in reported[-1]
    assert [path.name for path in folder.project.iterdir()] == ["a.txt"]


def test_twenty_sessions_answer_in_order(folder: ExampleFolder) -> None:
    reported = lines(folder.run("twenty_sessions"))
    assert len(reported) == 21
    for n, line in enumerate(reported[:-1], 1):
        assert line.split(None, 2) == [str(n), "completed", f"This is number {n}."]
    assert reported[-1].startswith("20 sessions, ")


def test_a_resumed_session_is_followed_by_a_second_program(folder: ExampleFolder) -> None:
    reported = lines(folder.run("resume_and_follow"))
    assert reported[0] == "Hello. [turn 1 completed]"
    assert reported[1].startswith("Before, you said: [")
    assert reported[1].endswith("[turn 2 completed]")


def test_a_structured_answer_is_printed(folder: ExampleFolder) -> None:
    reported = lines(folder.run("structured_output"))
    assert reported == ["risk low: Parses dates.", "- no tests"]


@pytest.mark.parametrize(
    ("prompt", "budget", "reason"),
    [
        (script({"stop": {"summary": "s", "risk": "none", "problems": []}}), "1", "risk"),
        (script({"usage": {"cost_usd": 2.0}}, {"say": "x"}, {"hang": True}), "0.5", "cost"),
    ],
)
def test_a_wrong_answer_or_a_spent_budget_is_exit_1(
    folder: ExampleFolder, prompt: str, budget: str, reason: str
) -> None:
    ran = folder.run("structured_output", "mock", prompt, budget)
    assert (ran.code, ran.errors) == (1, "")
    assert reason in ran.output


def test_fallback_uses_the_next_agent_when_the_first_cannot_start(folder: ExampleFolder) -> None:
    folder.agent("absent", "no-such-program-anywhere")
    reported = lines(folder.run("fallback", "absent,mock", script({"say": "Here."})))
    assert reported[0] == "note: absent is not installed: mock is used instead"
    assert reported[1] == "mock (fallback): Here."


def test_handoff_continues_with_the_next_agent(folder: ExampleFolder) -> None:
    folder.agent("echo", f"{sys.executable} {ECHO} --acp")
    prompt = script({"write": "a.txt", "text": "1\n"}, {"say": "Half."})
    reported = lines(folder.run("handoff", "mock", "echo", prompt, "Now the rest."))
    assert reported[0] == "mock: Half."
    assert reported[1].startswith("echo: 0 before; you said ")
    assert "Half." in "\n".join(reported[1:])
    assert reported[-1] == "changed: a.txt"


def test_two_agents_are_compared_in_a_table(folder: ExampleFolder) -> None:
    passes = script({"write": "x", "text": "1"}) + " => test -f x"
    fails = script({"say": "no"}) + " => test -f x"
    head, *rows = lines(folder.run("compare_agents", "mock", "mock", passes, fails))
    assert head.split() == ["agent", "done", "status", "seconds", "US$", "task"]
    assert [row.split()[:3] for row in rows] == [
        ["mock", "yes", "completed"],
        ["mock", "yes", "completed"],
        ["mock", "no", "completed"],
        ["mock", "no", "completed"],
    ]


def test_a_custom_agent_answers(folder: ExampleFolder) -> None:
    assert lines(folder.run("custom_agent")) == ["olleH"]


def test_a_chat_back_end_resumes_each_users_session(folder: ExampleFolder) -> None:
    messages = [("ann", "Hi."), ("bob", "Yo."), ("ann", "Before: {before}")]
    input = "".join(f"{user}: {script({'say': text})}\n" for user, text in messages)
    reported = lines(folder.run("chat_backend", "mock", input=input))
    assert reported[:2] == ["to ann: Hi.", "to bob: Yo."]
    assert reported[2] == f"to ann: Before: {script({'say': 'Hi.'})}"
