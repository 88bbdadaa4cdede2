"""Common mistakes in a program: the error, the log or the traceback says what to write instead."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, get_args

import pytest

import tillerman
from tests.documents.pages import blocks
from tests.harness.api_desk import SAY, WRITE, harness_in, script
from tests.harness.test_public_types import mypy
from tillerman.config.model_table import load_models
from tillerman.core.failure import Failure, FailureKind
from tillerman.core.session_options import ResumeOptions, StartOptions
from tillerman.surfaces.exit_codes import exit_code

CODES = {  # of docs/cli.md
    "not_installed": 3,
    "not_signed_in": 3,
    "denied": 4,
    "gate_bypassed": 4,
    "turn_limit": 5,
    "cost_limit": 5,
    "token_limit": 5,
    "schema_mismatch": 6,
    "timed_out": 124,
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TILLERMAN_MOCK_STATE", str(tmp_path / "mock"))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


async def stored(project: Path) -> int:
    async with tillerman.open(cwd=project) as harness:
        return harness.sessions.catalog.count()


# -- errors ----------------------------------------------------------------------------------------


def test_a_traceback_shows_the_hint() -> None:
    error = tillerman.UsageError("wrong", hint="right")
    shown = "".join(traceback.format_exception(error))
    assert shown.endswith("UsageError: wrong\nhint: right\n")
    assert str(error) == "wrong"


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_a_failed_turn_raises_with_the_exit_code_of_the_command_line(kind: FailureKind) -> None:
    failure = Failure(kind=kind, message="no", hint="so")
    result = tillerman.Result(session="s", turn=1, status="failed", failure=failure)
    with pytest.raises(tillerman.TurnFailed) as raised:
        result.check()
    assert raised.value.exit_code == exit_code(failure) == CODES.get(kind, 1)
    assert (raised.value.kind, raised.value.hint) == (kind, "so")


@pytest.mark.parametrize(("status", "code"), [("cancelled", 130), ("running", 1)])
def test_an_unfinished_turn_raises_with_its_own_exit_code(status: Any, code: int) -> None:
    with pytest.raises(tillerman.TurnFailed, match=status) as raised:
        tillerman.Result(session="s", turn=1, status=status).check()
    assert (raised.value.kind, raised.value.exit_code) == (None, code)


async def test_a_result_before_the_first_turn_names_the_session(tmp_path: Path) -> None:
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock")
        with pytest.raises(tillerman.SessionError, match=f"session {session.id} has no turns yet"):
            session.result()


# -- calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
async def test_an_empty_prompt_is_refused_before_a_session_exists(project: Path, text: str) -> None:
    with pytest.raises(tillerman.UsageError, match="the prompt is empty"):
        await tillerman.ask(text, agent="mock", cwd=project)
    with pytest.raises(tillerman.UsageError, match="the prompt is empty"):
        await anext(tillerman.query(text, agent="mock", cwd=project))
    assert await stored(project) == 0


async def test_a_prompt_may_be_only_a_file(project: Path) -> None:
    file = tillerman.File("a.txt", "text/plain", b"hello")
    result = await tillerman.ask("", agent="mock", cwd=project, approve="auto", files=[file])
    assert result.check()


def test_opening_without_async_with_says_how() -> None:
    with pytest.raises(AttributeError, match=r"`async with tillerman\.open\(\) as harness`"):
        tillerman.open().start("mock")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"`async with tillerman\.connect\(URL\) as harness`"):
        tillerman.connect("http://127.0.0.1:1").agents()  # type: ignore[attr-defined]


async def test_a_config_that_is_no_config_is_refused(project: Path) -> None:
    with pytest.raises(tillerman.UsageError, match=r"expected a `tillerman\.config\.Config`"):
        async with tillerman.open(config={"agent": "mock"}, cwd=project):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ({"permission_mode": "plan"}, "`approve`, or `mode` for plan mode"),
        ({"system_prompt": "x"}, "`system`"),
        ({"can_use_tool": print}, "`on_permission`"),
        ({"max_budget_usd": 1}, "`max_cost`"),
        ({"mcp_servers": {}}, "`servers`"),
        ({"output": {"type": "object"}}, "`output_schema`"),
        ({"env": {"A": "b"}}, 'for example ["NAME", "OTHER=VALUE"]'),
        ({"servers": {"a": print}}, "tillerman.tool_server(function)"),
        ({"timeout": "5m"}, "for example 300"),
    ],
)
async def test_a_wrong_option_has_a_right_one_as_its_hint(
    project: Path, option: dict[str, Any], hint: str
) -> None:
    with pytest.raises(tillerman.UsageError) as raised:
        await tillerman.ask("x", agent="mock", cwd=project, **option)
    assert hint in raised.value.hint


async def test_several_agents_are_one_string(project: Path) -> None:
    with pytest.raises(tillerman.UsageError) as raised:
        await tillerman.ask("x", agent=["mock", "claude"], cwd=project)  # type: ignore[arg-type]
    assert '"claude,codex"' in raised.value.hint


def test_the_hints_for_users_of_claude_agent_sdk_name_options_that_exist() -> None:
    from tillerman.core.session_options import _SDK_NAMES

    known = {*StartOptions.__annotations__, *ResumeOptions.__annotations__}
    assert not known & set(_SDK_NAMES)
    for hint in _SDK_NAMES.values():
        for word in hint.split("`")[1::2]:
            assert word in known or word.startswith("harness.resume(")


# -- agents ----------------------------------------------------------------------------------------


async def test_only_a_default_agent_that_is_missing_makes_others_the_next_step(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tillerman.AgentNotInstalled) as by_default:
        await tillerman.ask("x", cwd=project)
    with pytest.raises(tillerman.AgentNotInstalled) as chosen:
        await tillerman.ask("x", agent="claude", cwd=project)
    assert "`tillerman agents`" in by_default.value.hint
    assert by_default.value.hint.endswith(chosen.value.hint)
    assert "`tillerman agents`" not in chosen.value.hint


def test_a_misspelled_model_has_a_similar_one_as_its_hint() -> None:
    with pytest.raises(tillerman.UsageError) as raised:
        load_models().agent_of("qen3-max")
    assert raised.value.hint.startswith("did you mean qwen3-max")
    assert len(raised.value.hint) < 150


# -- what waits, and what fails, in silence --------------------------------------------------------


async def test_ask_logs_a_request_that_nobody_answers(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompt = script(WRITE, SAY)
    result = await tillerman.ask(prompt, agent="mock", cwd=project, request_timeout=4)
    [told] = [one for one in caplog.records if one.name.startswith("tillerman")]
    assert told.levelno == logging.WARNING
    assert f"`tillerman requests answer {result.session}/" in told.getMessage()


async def test_ask_logs_no_request_that_is_answered(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await tillerman.ask(
        script(WRITE, {"sleep": 3}, SAY),
        agent="mock",
        cwd=project,
        on_permission=lambda request: tillerman.Answer("allow"),
    )
    await tillerman.ask(script(WRITE, {"sleep": 3}), agent="mock", cwd=project, approve="edits")
    assert [one for one in caplog.records if one.name.startswith("tillerman")] == []


@pytest.mark.parametrize("callback", ["before_call", "on_permission", "after_call"])
async def test_the_traceback_of_a_callback_is_logged(
    project: Path, caplog: pytest.LogCaptureFixture, callback: str
) -> None:
    def fails(given: object) -> None:
        raise ZeroDivisionError("in the callback")

    given: dict[str, Any] = {"approve": "edits" if callback == "after_call" else "ask"}
    given[callback] = fails
    await tillerman.ask(script(WRITE, SAY), agent="mock", cwd=project, **given)
    [told] = [one for one in caplog.records if one.name.startswith("tillerman")]
    assert told.getMessage() == f"{callback} failed"
    assert told.exc_info and isinstance(told.exc_info[1], ZeroDivisionError)


# -- the documents ---------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_the_agent_of_the_documents_is_typed(tmp_path: Path) -> None:
    [block] = [one for one in blocks("python") if "Wire:" in one.text]
    assert block.page == "docs/api.md"
    assert mypy(tmp_path, block.text) == []


def test_a_warning_of_ask_reaches_a_program_without_logging(project: Path) -> None:
    code = (
        "import tillerman.sync\n"
        f"tillerman.sync.ask({script(WRITE)!r}, agent='mock', request_timeout=4)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "the agent waits for an answer: `tillerman requests answer " in ran.stderr
