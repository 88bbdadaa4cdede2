"""Several agents for one session: selection, fallback, and approvals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tillerman
from tests import CHECKOUT
from tillerman.core.errors import TillermanError, UsageError
from tillerman.core.events import MessageChunk, Notice, TurnStarted, UserMessage
from tillerman.harness.harness import Harness
from tillerman.paths import Paths, find_paths
from tillerman.sessions.session import Session, read_all

CONFIG = """\
[agents.mock]
script = "{first}"
pace = 0

[agents.other]
acp = "no-such-program-anywhere --acp"
"""
ACME = CHECKOUT / "tests" / "third_party"
QUOTA = {"fail": "billing", "message": "the quota is used up"}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third-party agent, installed: it requests approval to write acme.txt, and exits."""
    info = tmp_path / "site" / "tillerman_acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[tillerman.agents]\nacme = tillerman_acme:agent\n")
    monkeypatch.syspath_prepend(ACME)
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".git").write_text("gitdir: elsewhere")
    return folder


def configure(paths: Paths, text: str) -> None:
    paths.config.mkdir(parents=True, exist_ok=True)
    paths.config_file.write_text(text)


def mock_plays(paths: Paths, *turns: list[dict[str, Any]], more: str = "") -> None:
    script = paths.config.parent / "script.json"
    script.write_text(json.dumps(turns))
    configure(paths, more + CONFIG.format(first=script))


def open_harness(paths: Paths, project: Path) -> Any:
    return tillerman.open(paths=paths, cwd=project)


def of(harness: Harness, session: Session, kind: type) -> list[Any]:
    return [
        e.event for e in read_all(harness.sessions.log, session.id) if isinstance(e.event, kind)
    ]


def answer_text(harness: Harness, session: Session) -> str:
    return "".join(event.text for event in of(harness, session, MessageChunk))


@pytest.mark.usefixtures("acme")
async def test_another_vendors_agent_finishes_the_task_of_the_first(
    paths: Paths, project: Path
) -> None:
    mock_plays(paths, [{"write": "mock.txt", "text": "1\n"}, {"say": "Half."}, QUOTA])
    async with open_harness(paths, project) as harness:
        session = await harness.start("mock,acme", approve="auto")
        result = await session.ask("write two files")
        assert (result.status, result.agent, result.fallback) == ("completed", "acme", True)
        assert [file.path for file in result.files] == ["acme.txt", "mock.txt"]
        assert [n.kind for n in of(harness, session, Notice)] == ["fallback"]
        row = harness.find(session.id)
        assert (row.agent, row.native_id, row.turns) == ("acme", "acme-session", 1)
        assert row.settings["agents"] == ["mock", "acme"]


@pytest.mark.usefixtures("acme")
async def test_an_agent_that_is_not_installed_is_skipped_before_anything_starts(
    paths: Paths, project: Path
) -> None:
    configure(paths, CONFIG.format(first="hello"))
    async with open_harness(paths, project) as harness:
        session = await harness.start("other,mock")
        result = await session.ask("hello")
        assert (result.agent, result.fallback) == ("mock", True)
        assert of(harness, session, Notice) == [
            Notice(
                level="warning",
                kind="fallback",
                text="other is not installed: mock is used instead",
            )
        ]


async def test_no_usable_agent_is_reported_with_every_reason(paths: Paths, project: Path) -> None:
    more = '[agents.third]\nacp = "no-such-program-either"\n'
    configure(paths, CONFIG.format(first="hello") + more)
    async with open_harness(paths, project) as harness:
        with pytest.raises(TillermanError) as error:
            await harness.start("other,third")
        assert error.value.message == "other is not installed; third is not installed"
        assert error.value.exit_code == 3
        assert harness.sessions.catalog.list() == []


async def test_a_recent_availability_check_is_reused(paths: Paths, project: Path) -> None:
    configure(paths, CONFIG.format(first="hello"))
    async with open_harness(paths, project) as harness:
        await harness.start("mock,other")
    assert list(json.loads((paths.cache / "usable.json").read_text())) == ["mock"]


async def test_the_order_can_come_from_the_config(paths: Paths, project: Path) -> None:
    mock_plays(paths, [{"say": "Hello."}], more='agent = ["other", "mock"]\n')
    async with open_harness(paths, project) as harness:
        session = await harness.start()
        assert (await session.ask("hello")).agent == "mock"


async def test_an_agent_without_a_needed_capability_is_skipped(paths: Paths, project: Path) -> None:
    mock_plays(paths, [QUOTA])
    async with open_harness(paths, project) as harness:
        session = await harness.start("mock,claude", effort="high", system="Be brief.")
        result = await session.ask("hello")
        assert result.failure
        assert result.failure.kind == "billing"


async def test_a_profile_is_an_agent_with_a_model_a_mode_and_a_system_prompt(
    paths: Paths, project: Path
) -> None:
    configure(paths, "")
    (paths.config / "agents").mkdir()
    (paths.config / "agents" / "reviewer.md").write_text(
        "---\nagent: mock\nmodel: mock-deep\nmode: plan\ntools: Read\n---\nBe brief.\n"
    )
    steps = [
        {"say": "{model} {mode} {system}"},
        {"run": "touch ran"},
        {"write": "w.txt", "text": ""},
    ]
    async with open_harness(paths, project) as harness:
        session = await harness.start("reviewer", mode="agent", approve="auto", system="And kind.")
        result = await session.ask(json.dumps(steps))
        assert answer_text(harness, session) == "mock-deep agent Be brief.\n\nAnd kind."
        assert [call.outcome for call in result.calls] == ["denied", "denied"]
        assert [path.name for path in project.iterdir()] == [".git"]
        row = harness.find(session.id)
        assert (row.agent, row.settings["profile"]) == ("mock", "reviewer")
        await session.close()
        again = await harness.resume(session.id)
        await again.ask('[{"say": "{system}"}]')
        assert answer_text(harness, again).endswith("Be brief.")
        await again.close()
        (paths.config / "agents" / "reviewer.md").unlink()
        last = await harness.resume(session.id)
        await last.ask('[{"say": "still here"}]')
        assert [n.text for n in of(harness, last, Notice)] == [
            "the session continues without profile reviewer: it no longer exists"
        ]


async def test_a_model_alone_names_its_agent(paths: Paths, project: Path) -> None:
    configure(paths, '[models."house-1"]\nmock = "mock-deep"\n')
    async with open_harness(paths, project) as harness:
        session = await harness.start(model="house-1")
        await session.ask('[{"say": "{model}"}]')
        assert answer_text(harness, session) == "mock-deep"
        with pytest.raises(UsageError, match="no agent is known"):
            await harness.start(model="llama-9")


async def test_a_name_that_the_table_does_not_have_is_passed_on_with_a_warning(
    paths: Paths, project: Path
) -> None:
    configure(paths, "")
    async with open_harness(paths, project) as harness:
        session = await harness.start("mock", model="sonnet-4.5")
        await session.ask('[{"say": "{model}"}]')
        assert answer_text(harness, session) == "sonnet-4.5"
        assert of(harness, session, Notice) == [
            Notice(
                level="warning",
                kind="settings",
                text="sonnet-4.5 is known as a model of claude, opencode, not of mock: "
                "the name is passed unchanged",
            )
        ]


async def test_of_several_agents_each_gets_the_model_only_if_it_is_its_own(
    paths: Paths, project: Path
) -> None:
    mock_plays(paths, [{"say": "{model}"}])
    async with open_harness(paths, project) as harness:
        session = await harness.start("other,mock", model="sonnet-4.5")
        await session.ask("hello")
        assert answer_text(harness, session) == "mock-quick"


@pytest.mark.usefixtures("acme")
async def test_a_session_is_handed_over_manually(paths: Paths, project: Path) -> None:
    mock_plays(paths, [{"write": "mock.txt", "text": "1\n"}, {"say": "Half."}])
    async with open_harness(paths, project) as harness:
        session = await harness.start("mock", approve="auto")
        await session.ask("write two files")
        await session.close()
        with pytest.raises(UsageError, match="already uses mock"):
            await harness.handoff(session.id, "mock")
        other = await harness.handoff(session.id, "acme")
        result = await other.ask("write the other")
        assert (other.id, result.agent, result.fallback) == (session.id, "acme", False)
        (reported,) = of(harness, other, UserMessage)
        assert reported.how == "handoff"
        assert "Write `mock.txt`: completed" in reported.text
        words = reported.text + "\nwrite the other"
        assert f"You said {words!r}. " in answer_text(harness, other)
        assert [t.prompt for t in of(harness, other, TurnStarted)] == [
            "write two files",
            "write the other",
        ]
        assert of(harness, other, Notice) == [
            Notice(level="info", kind="handoff", text="mock hands over to acme")
        ]
        await other.close()
        back = await harness.resume(session.id)
        assert back.agent == "acme"


async def test_a_resumed_session_keeps_its_model_without_being_given_it(
    paths: Paths, project: Path
) -> None:
    mock_plays(paths, [{"say": "{model}"}])
    async with open_harness(paths, project) as harness:
        session = await harness.start("mock,other", model="gpt-next")
        await session.ask("hello")
        await session.close()
        harness.sessions.catalog.update(session.id, model="gpt-next").result()
        again = await harness.resume(session.id)
        await again.ask("hello")
        assert answer_text(harness, again) == "mock-quickgpt-next"
        assert [n.text for n in of(harness, again, Notice)] == [
            "gpt-next is a model of codex: mock uses its default model"
        ]


async def test_the_agent_of_the_config_can_be_a_profile(paths: Paths, project: Path) -> None:
    configure(paths, 'agent = "brief"\n')
    (paths.config / "agents").mkdir()
    (paths.config / "agents" / "brief.md").write_text("---\nagent: mock\n---\nBe brief.")
    async with open_harness(paths, project) as harness:
        session = await harness.start()
        await session.ask('[{"say": "{system}"}]')
        assert answer_text(harness, session) == "Be brief."


async def test_two_profiles_at_once_are_refused(paths: Paths, project: Path) -> None:
    configure(paths, "")
    (paths.config / "agents").mkdir()
    for name in ("one", "two"):
        (paths.config / "agents" / f"{name}.md").write_text("Be brief.")
    async with open_harness(paths, project) as harness:
        with pytest.raises(UsageError, match="two profiles at once"):
            await harness.start("one,two")


# -- a model alone ---------------------------------------------------------------------------------


def model_of(paths: Paths, *agents: str, more: str = "") -> None:
    """A model of the first agent's vendor that the others offer too."""
    names = "\n".join(f'{agent} = "bird-1"' for agent in agents)
    configure(paths, f'{CONFIG.format(first="hello")}\n[models."bird-1"]\n{names}\n{more}')


@pytest.mark.usefixtures("acme")
async def test_another_agent_with_the_model_is_used_where_the_vendors_agent_is_not_installed(
    paths: Paths, project: Path
) -> None:
    model_of(paths, "other", "mock")
    async with open_harness(paths, project) as harness:
        session = await harness.start(model="bird-1")
        result = await session.ask("hello")
        assert (result.agent, result.fallback) == ("mock", True)
        assert of(harness, session, Notice)[0] == Notice(
            level="warning",
            kind="fallback",
            text="other is not installed: no `no-such-program-anywhere` on PATH: "
            "mock is used instead",
        )


@pytest.mark.parametrize(
    ("kind", "agent"),
    [("not_signed_in", "acme"), ("rate_limited", "mock"), ("model_not_found", "mock")],
)
@pytest.mark.usefixtures("acme")
async def test_another_agent_with_the_model_is_used_only_where_the_vendors_agent_is_signed_out(
    paths: Paths, project: Path, kind: str, agent: str
) -> None:
    mock_plays(paths, [{"fail": kind, "message": "not now"}])
    configure(paths, paths.config_file.read_text() + '[models."bird-1"]\nmock = "b"\nacme = "c"\n')
    async with open_harness(paths, project) as harness:
        session = await harness.start(model="bird-1", approve="auto")
        result = await session.ask("hello")
        assert (result.agent, result.fallback) == (agent, agent == "acme")


async def test_a_model_that_no_agent_has_ready_is_reported_with_every_reason(
    paths: Paths, project: Path
) -> None:
    model_of(paths, "other", "third", more='[agents.third]\nacp = "no-such-program-either"\n')
    async with open_harness(paths, project) as harness:
        with pytest.raises(TillermanError) as error:
            await harness.start(model="bird-1")
        assert error.value.message == (
            "other is not installed: no `no-such-program-anywhere` on PATH; third is not installed"
        )
        assert error.value.exit_code == 3


async def test_a_missing_agent_is_reported_before_its_gate(paths: Paths, project: Path) -> None:
    configure(paths, CONFIG.format(first="hello"))
    async with open_harness(paths, project) as harness:
        with pytest.raises(TillermanError, match=r"^other is not installed") as error:
            await harness.start("other")
        assert error.value.exit_code == 3
