"""The command line and the user messages of Claude Code."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.agents.claude.claude_says import wire
from tillerman.core.agent import File, Prompt, SecretFile, Word
from tillerman.core.errors import Unsupported
from tillerman.core.session_options import session_spec

PLAIN = [
    "claude",
    "-p",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool=stdio",
    '--settings={"permissions":{"ask":["Bash","Glob","Grep","ListMcpResourcesTool","LSP","Read",'
    '"ReadMcpResourceTool"]}}',
]


def argv(**spec: Any) -> list[Word]:
    return list(wire().launch(session_spec(cwd=Path("/proj"), **spec), None).argv)


def test_a_plain_conversation_leaves_every_decision_to_the_host() -> None:
    assert argv() == [*PLAIN, "--permission-mode=default"]


def test_the_cli_is_configured_to_report_when_it_is_idle() -> None:
    launch = wire().launch(session_spec(cwd=Path("/proj")), None)
    assert launch.env == {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}


@pytest.mark.parametrize(
    ("mode", "word"), [("agent", "default"), ("plan", "plan"), ("ask", "default")]
)
def test_a_mode_has_a_flag_value(mode: str, word: str) -> None:
    assert argv(mode=mode)[-1] == f"--permission-mode={word}"


def test_every_option_is_on_the_command_line_in_arguments_that_swallow_no_other() -> None:
    assert argv(
        model="opus",
        effort="high",
        resume="s1",
        fork=True,
        system="-v: be brief",
        folders=(Path("/a"), Path("/b")),
        servers={"s": {"command": "x"}},
        allowed_tools=("Read", "Bash(git *)"),
        denied_tools=("WebFetch",),
        output_schema={"type": "object"},
        max_turns=3,
        max_cost=1.5,
    )[len(PLAIN) + 1 :] == [
        "--model=opus",
        "--effort=high",
        "--resume=s1",
        "--fork-session",
        "--append-system-prompt=-v: be brief",
        SecretFile("--mcp-config=", b'{"mcpServers": {"s": {"command": "x"}}}'),
        '--json-schema={"type": "object"}',
        "--max-turns=3",
        "--max-budget-usd=1.5",
        "--add-dir=/a",
        "--add-dir=/b",
        "--allowedTools=Read",
        "--allowedTools=Bash(git *)",
        "--disallowedTools=WebFetch",
    ]


def content(prompt: Prompt) -> Any:
    (message,) = wire().prompt(prompt)
    assert message["type"] == "user"
    return message["message"]["content"]


def test_a_text_prompt_is_a_string() -> None:
    assert content(Prompt("hello")) == "hello"


def test_files_precede_the_text_that_refers_to_them() -> None:
    files = (
        File("a.png", "image/png", b"png"),
        File("a.pdf", "application/pdf", b"pdf"),
        File("a.py", "text/x-python", b"x = 1"),
    )
    png = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"png").decode()}
    pdf = {**png, "media_type": "application/pdf", "data": base64.b64encode(b"pdf").decode()}
    assert content(Prompt("see", files)) == [
        {"type": "image", "source": png},
        {"type": "document", "source": pdf, "title": "a.pdf"},
        {"type": "text", "text": '<file name="a.py">\nx = 1\n</file>'},
        {"type": "text", "text": "see"},
    ]


def test_a_file_it_cannot_take_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match=r"audio/wav \(a\.wav\)"):
        wire().prompt(Prompt("hear", (File("a.wav", "audio/wav", b"\xff\x00"),)))
