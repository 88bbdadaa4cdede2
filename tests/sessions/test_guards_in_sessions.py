"""The policy's guards in a whole session: reasons, denials, the temporary folder."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.session_desk import Desk
from tillerman.core.events import PermissionRequested, RequestAnswered, ToolFinished
from tillerman.core.permission import Rule
from tillerman.sessions.run_settings import TurnLimits

HIDDEN = "\u200b" * 24 + "#aaaaaaaaaa; touch mark\nnpm install"
CI = Rule("ci", "rewrite", commands=("npm install",), rewrite="npm ci")


async def play(desk: Desk, *steps: dict[str, Any], **run_settings: Any) -> list[Any]:
    session = await desk.start(limits=TurnLimits(request=0.3), **run_settings)
    async with asyncio.timeout(30):
        return [entry.event async for entry in session.run(json.dumps(list(steps)))]


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("approve", ["ask", "edits", "auto"])
async def test_hidden_characters_are_shown_and_requested_and_never_run_unanswered(
    desk: Desk, approve: str
) -> None:
    events = await play(desk, {"run": HIDDEN}, approve=approve, rules=(CI,))

    (asked,) = of(events, PermissionRequested)
    assert asked.input == {"command": HIDDEN}
    assert asked.title.startswith("Bash `⟨U+200B⟩⟨U+200B⟩")
    assert asked.reason.startswith(
        "invisible or look-alike characters: ⟨U+200B⟩ 24 times in `⟨U+200B⟩"
    )
    (answered,) = of(events, RequestAnswered)
    assert (answered.by, answered.answer.option) == ("timeout", "deny")
    assert not (desk.project / "mark").exists()


async def test_a_line_that_was_not_parsed_is_denied_without_a_user(desk: Desk) -> None:
    events = await play(desk, {"run": "touch made; echo 'x"}, approve="auto")

    (asked,) = of(events, PermissionRequested)
    assert asked.reason.startswith(
        "the command line could not be fully parsed: it may run and write"
    )
    assert [one.outcome for one in of(events, ToolFinished)] == ["denied"]
    assert not (desk.project / "made").exists()


async def test_a_folder_with_a_denied_file_is_requested_by_the_name_of_the_file(
    desk: Desk,
) -> None:
    (desk.project / ".env").write_text("KEY=1\n")
    rule = Rule("keys", "deny", "no keys", paths=(".env",), source="rules.toml:1")
    events = await play(desk, {"run": "tar cf t.tar ."}, approve="auto", rules=(rule,))

    (asked,) = of(events, PermissionRequested)
    assert asked.reason == ".env is in .: rule keys may apply"
    assert not (desk.project / "t.tar").exists()


async def test_the_message_of_a_rule_that_asks_is_the_reason(desk: Desk) -> None:
    rule = Rule("look", "ask", "somebody looks at this", commands=("make",), source="rules.toml:1")
    events = await play(desk, {"run": "make"}, approve="auto", rules=(rule,))

    assert [one.reason for one in of(events, PermissionRequested)] == ["somebody looks at this"]


async def test_a_session_writes_to_a_temporary_folder_that_is_removed_with_it(
    desk: Desk, tmp_path: Path
) -> None:
    environment = {**desk.run_settings().environment, "TMPDIR": str(tmp_path)}
    session = await desk.start(approve="edits", environment=environment)
    steps = [{"run": "pwd > found; printf %s $TMPDIR > where"}]
    async with asyncio.timeout(30):
        await session.ask(json.dumps(steps))
        own = Path((desk.project / "where").read_text())
        assert own.parent == tmp_path
        assert own.stat().st_mode & 0o777 == 0o700
        asked = [
            entry.event
            async for entry in session.run(json.dumps([{"run": f"echo x > {own}/made"}]))
            if isinstance(entry.event, RequestAnswered)
        ]
    assert [(one.by, one.surface) for one in asked] == [("policy", "reads.commands")]
    assert (own / "made").read_text() == "x\n"
    await session.close()
    assert not own.exists()


async def test_a_session_removes_the_folders_of_killed_ones(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tillerman.sessions.enforcement.temporary_folder._YOUNGEST", -1.0)
    left = tmp_path / "tillerman-0123456789-01234567"
    (left / "deep").mkdir(parents=True)
    left.chmod(0o700)
    environment = {**desk.run_settings().environment, "TMPDIR": str(tmp_path)}
    session = await desk.start(approve="edits", environment=environment)
    async with asyncio.timeout(30):
        await session.close()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tillerman-")] == []
