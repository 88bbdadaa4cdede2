"""A prompt attaches no file that a rule denies: some agents read what it mentions, unasked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import tillerman
from tillerman import agents
from tillerman.config.policy_rules import rule_of
from tillerman.core.agent import AgentInfo, DecodedLine, Prompt, SessionSpec
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Notice,
    PermissionRequested,
    TurnEnded,
    TurnStarted,
)
from tillerman.core.permission import Decision, DecisionContext, Policy
from tillerman.paths import find_paths
from tillerman.sessions.permissions.denied_mentions import without_denied_mentions

RULES = [rule_of({"deny": "no", "path": [".env", "secrets/**"]}, "rules:1")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in (".env", "secrets/a b.txt", "README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("KEY=1\n")
    (folder / "link").symlink_to(".env")
    return folder


def plain(text: str, project: Path) -> str:
    def decide(request: PermissionRequested) -> Decision:
        context = DecisionContext(project, home=project.parent, resolve=os.path.realpath)
        return Policy.preset("readonly", rules=RULES).decide(request, context)

    return without_denied_mentions(text, decide).text


@pytest.mark.parametrize(
    "mention",
    [
        "@.env", "@./.env", "@src/../.env", "@~/project/.env", '@".env"', "@'.env'", "@.env.",
        "@.env,", "(@.env)", "@.ENV", "@.env:3-9", "@.env#L3", "@link", "@secrets/x",
        '@"secrets/a b.txt"', "@file:///PROJECT/.env", "x@.env", "@@.env", "@.env,README.md",
        "@.env;", "@secrets", "**@.env**", "@.env?",
    ],
)  # fmt: skip
def test_a_mention_of_a_denied_file_is_taken_apart(mention: str, project: Path) -> None:
    mention = mention.replace("/PROJECT", str(project))
    text = f"Look at {mention} and @README.md, please.\n"
    sent = plain(text, project)
    assert sent != text
    assert sent.replace("@ ", "@") == text
    assert "@README.md, please" in sent
    assert f" {mention} " not in sent


@pytest.mark.parametrize(
    "text",
    [
        "", "no mention", "@README.md", "a@example.com", "@user, see @/etc/hosts", "@", "@ .env",
        "env @ home",
    ],
)  # fmt: skip
def test_all_other_text_is_sent_as_it_is(text: str, project: Path) -> None:
    assert plain(text, project) == text


def test_thousands_of_mentions_take_no_time(project: Path) -> None:
    text = " ".join(f"@name{n}" for n in range(20_000)) + " @.env"
    assert plain(text, project).endswith("@ .env")


class Listening:
    """An agent that keeps the prompts that it gets."""

    def __init__(self) -> None:
        asks = frozenset({"write", "shell"})
        self.info = AgentInfo("listening", "Listening", can=frozenset({"permissions"}), asks=asks)
        self.asks = asks
        self.prompts: list[str] = []
        self.waiting: asyncio.Queue[str] = asyncio.Queue()

    async def open(self, spec: SessionSpec, host: object) -> Listening:
        return self

    async def batches(self) -> AsyncIterator[list[DecodedLine]]:
        yield [DecodedLine(None, [AgentStarted(agent="listening"), AgentReady(native_id="1")])]
        while text := await self.waiting.get():
            self.prompts.append(text)
            yield [DecodedLine(None, [TurnEnded(reason="completed")])]
        yield [DecodedLine(None, [AgentExited(code=0)])]

    def prompt(self, prompt: Prompt) -> Any:
        async def sent() -> None:
            await self.waiting.put(prompt.text)

        return sent()

    async def close(self) -> None:
        await self.waiting.put("")


async def test_a_session_sends_it_so_and_says_why(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_registered", {})
    agent = Listening()
    tillerman.register_agent(agent)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('[[rules]]\ndeny = "no"\npath = ".env"\n')
    paths = find_paths({"TILLERMAN_HOME": str(home)})
    async with tillerman.open(cwd=project, paths=paths) as harness:
        session = await harness.start("listening", approve="auto")
        events = [entry.event async for entry in session.run("see @.env and @README.md")]

    assert agent.prompts == ["see @ .env and @README.md"]
    assert [one.prompt for one in events if isinstance(one, TurnStarted)] == [
        "see @.env and @README.md"
    ]
    assert "a rule does not allow to read what the prompt mentions: .env" in [
        one.text for one in events if isinstance(one, Notice)
    ]
