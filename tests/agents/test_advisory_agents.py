"""An agent that does not declare that it requests approval is advisory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any, get_args

import pytest

import tillerman
from tillerman import agents
from tillerman.agents import available, load
from tillerman.agents.stdio.capability_check import refuse_open_gate
from tillerman.config import APPROVE, Config
from tillerman.core.agent import AgentInfo, DecodedLine, SessionSpec
from tillerman.core.errors import ConfigError, GateNotEnforced, UsageError
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Notice,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tillerman.core.tools import ToolClass
from tillerman.harness.launch_plan import launch_plan
from tillerman.paths import find_paths
from tillerman.testing import check_agent
from tillerman.testing.conformance import AdvisoryAgent

CLASSES: tuple[ToolClass, ...] = get_args(ToolClass)

# A third-party agent without a program: it acts in our own process, and requests nothing.
PLUGIN = """
from itertools import chain, combinations
from pathlib import Path

from tillerman.core.agent import AgentInfo, DecodedLine
from tillerman.core.events import AgentExited, AgentStarted, TurnEnded


class Acting:
    def __init__(self, info):
        self.info = info

    async def open(self, spec, host):
        (spec.cwd / "acted").touch()
        return Talking(self.info)


class Talking:
    def __init__(self, info):
        self.asks = info.asks

    async def batches(self):
        yield [DecodedLine(None, [AgentStarted(agent="plugin")])]
        yield [DecodedLine(None, [AgentExited(code=0)])]

    async def close(self):
        pass


CLASSES = ("read", "write", "shell", "network", "mcp")
subsets = chain.from_iterable(combinations(CLASSES, size) for size in range(6))
for asks in subsets:
    for binary in (None, "plugin"):
        name = "-".join(("plugin", *asks, *(["installed"] if binary else [])))
        info = AgentInfo(name, "Plugin", binary=binary, install="make it", asks=frozenset(asks))
        globals()[name.replace("-", "_")] = Acting(info)
"""


def names() -> Iterator[str]:
    for asks in chain.from_iterable(combinations(CLASSES, size) for size in range(6)):
        yield "-".join(("plugin", *asks))
        yield "-".join(("plugin", *asks, "installed"))


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    info = site / "plugins-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "tillerman_plugins.py").write_text(PLUGIN)
    points = [f"{name} = tillerman_plugins:{name.replace('-', '_')}" for name in names()]
    (info / "entry_points.txt").write_text("\n".join(["[tillerman.agents]", *points]))
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(__import__("sys").modules, "tillerman_plugins", raising=False)


def starts(agent: str, approve: str, accepted: bool, cwd: Path) -> bool:
    made = launch_plan(Config(), agent, cwd=cwd, approve=approve, accept_advisory=accepted)
    try:
        refuse_open_gate(made.agent.info, made.spec)
    except GateNotEnforced:
        return False
    return True


@pytest.mark.usefixtures("plugins")
def test_a_plug_in_starts_where_it_declares_to_ask_or_nothing_need_be_asked(tmp_path: Path) -> None:
    cases = list(product(names(), APPROVE, (False, True)))

    wrong = [
        case
        for case in cases
        if starts(*case, cwd=tmp_path)
        != ({"write", "shell"} <= set(case[0].split("-")) or case[1] == "auto" or case[2])
    ]

    assert (wrong, len(cases)) == ([], 640)


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("approve", [preset for preset in APPROVE if preset != "auto"])
async def test_a_plug_in_that_declares_nothing_never_acts(tmp_path: Path, approve: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    async with tillerman.open(cwd=project, paths=paths) as harness:
        with pytest.raises(GateNotEnforced):
            await harness.start("plugin", approve=approve)

    assert list(project.iterdir()) == []


@pytest.mark.usefixtures("plugins")
async def test_a_plug_in_that_declares_nothing_does_not_take_over_for_another(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    config = Config(agents={"mock": {"pace": "0"}}, paths=paths)
    async with tillerman.open(config=config, cwd=project, paths=paths) as harness:
        session = await harness.start("mock,plugin", approve="readonly")
        entries = [e.event async for e in session.run('[{"fail": "rate_limited"}]')]

    assert list(project.iterdir()) == []
    assert [e.text for e in entries if isinstance(e, Notice) and "plugin" in e.text] == [
        "no agent left to continue: plugin does not declare that it asks before every write "
        "and shell call: `readonly` would not be enforced"
    ]


@pytest.mark.usefixtures("plugins")
def test_the_check_of_an_agent_reports_that_it_is_advisory() -> None:
    for name in ("plugin", "plugin-write", "plugin-installed"):
        with pytest.warns(AdvisoryAgent, match=rf"^{name} is advisory: .* --accept-advisory$"):
            check_agent(_RefusesAll(load(name).info))


# -- declarations that are wrong, or not kept ------------------------------------------------------


class Told:
    """An agent that runs a command unasked, and reports it if `reports`."""

    def __init__(self, info: AgentInfo, asks: object, reports: bool = False) -> None:
        self.info, self.said, self.reports = info, asks, reports
        self.closed = False

    async def open(self, spec: SessionSpec, host: object) -> Told:
        self.cwd = spec.cwd
        return self

    @property
    def asks(self) -> Any:
        return self.said

    async def batches(self) -> AsyncIterator[list[DecodedLine]]:
        yield [DecodedLine(None, [AgentStarted(agent=self.info.name), AgentReady(native_id="1")])]
        while not self.closed:
            await asyncio.sleep(0.01)
            if self.reports and (self.cwd / "prompted").exists():
                started = ToolStarted(call_id="1", tool="Bash", name="sh", title="Bash `x`")
                done = ToolFinished(call_id="1", outcome="completed")
                yield [DecodedLine(None, [TurnStarted(origin="prompt"), started, done])]
                (self.cwd / "prompted").unlink()
        yield [DecodedLine(None, [AgentExited(code=0)])]

    def prompt(self, prompt: object) -> Any:
        async def sent() -> None:
            (self.cwd / "prompted").touch()

        return sent()

    async def cancel(self) -> None:
        pass

    async def close(self) -> None:
        self.closed = True


BOTH = frozenset({"write", "shell"})
WEIRD = (
    {"asks": "write shell"},
    {"asks": ("write", "shell", "everything")},
    {"asks": {"write": False, "shell": False}},
    {"asks": None},
    {"asks": True},
    {"asks": frozenset({"Write"})},
    {"asks": frozenset({"write "})},
    {"runs_tools": None},
    {"runs_tools": 0},
    {"runs_tools": "no"},
    {"runs_tools": []},
    {"name": 7},
    {"name": "a/../b"},
    {"name": "a\nb"},
    {"name": ""},
    {"title": None},
    {"can": "permissions"},
    {"can": None},
    {"prompted": "yes"},
    {"binary": 1},
)


@pytest.mark.parametrize("fields", WEIRD, ids=str)
def test_a_declaration_of_another_type_is_refused(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = AgentInfo(**{"name": "odd", "title": "Odd", **fields})
    with pytest.raises(UsageError):
        tillerman.register_agent(Told(info, BOTH))

    site = tmp_path / "site"
    (site / "odd-1.0.dist-info").mkdir(parents=True)
    (site / "odd_plugin.py").write_text(
        "from tillerman.core.agent import AgentInfo\nclass Odd: pass\nodd = Odd()\n"
        f"odd.info = AgentInfo(**{ ({'name': 'odd', 'title': 'Odd', **fields})!r})\n"
    )
    points = "[tillerman.agents]\nodd = odd_plugin:odd\n"
    (site / "odd-1.0.dist-info/entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "odd_plugin", raising=False)
    with pytest.raises(ConfigError):
        load("odd")


async def started(
    agent: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> list[Any]:
    monkeypatch.setattr(agents, "_registered", {})
    tillerman.register_agent(agent)
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})
    async with tillerman.open(cwd=project, paths=paths) as harness:
        session = await harness.start(agent.info.name, **options)
        return [entry.event async for entry in session.run("go")]


PRESETS = [preset for preset in APPROVE if preset != "auto"]


@pytest.mark.parametrize("approve", PRESETS)
@pytest.mark.parametrize("mode", ["agent", "plan", "ask"])
async def test_a_process_that_asks_about_less_than_declared_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approve: str, mode: str
) -> None:
    for asks in (frozenset(), frozenset({"write"}), frozenset({"shell", "read"})):
        info = AgentInfo("less", "Less", can=frozenset({"modes"}), asks=BOTH)
        agent = Told(info, asks)
        with pytest.raises(GateNotEnforced):
            await started(agent, tmp_path, monkeypatch, approve=approve, mode=mode)
        assert agent.closed


@pytest.mark.parametrize("approve", PRESETS)
async def test_an_agent_that_declares_no_tools_but_runs_one_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approve: str
) -> None:
    info = AgentInfo("toolless", "Toolless", runs_tools=False)
    events = await started(
        Told(info, frozenset(), reports=True), tmp_path, monkeypatch, approve=approve
    )
    ends = [event for event in events if isinstance(event, TurnEnded)]
    assert [end.failure and end.failure.kind for end in ends] == ["gate_bypassed"]


@pytest.mark.parametrize(
    "asks", ["", "write", "read,network,mcp", "write,shell", ["write", "shell"]]
)
@pytest.mark.parametrize("accepted", [False, True])
def test_an_agent_of_the_config_is_what_its_table_declares(
    tmp_path: Path, asks: Any, accepted: bool
) -> None:
    config = Config(agents={"foo": {"acp": "foo --acp", **({"asks": asks} if asks else {})}})
    declared = set(asks.split(",") if isinstance(asks, str) else asks) >= BOTH
    for approve in APPROVE:
        made = launch_plan(config, "foo", cwd=tmp_path, approve=approve, accept_advisory=accepted)
        if declared or accepted or approve == "auto":
            refuse_open_gate(made.agent.info, made.spec)
        else:
            with pytest.raises(GateNotEnforced):
                refuse_open_gate(made.agent.info, made.spec)


@pytest.mark.parametrize("asks", ["all", "Write,Shell", [["write"]], {"write": True}, True, 7])
def test_a_class_of_the_config_that_does_not_exist_is_an_error(tmp_path: Path, asks: Any) -> None:
    config = Config(agents={"foo": {"acp": "foo --acp", "asks": asks}})
    with pytest.raises(ConfigError):
        launch_plan(config, "foo", cwd=tmp_path, approve="readonly")


class _RefusesAll:
    def __init__(self, info: AgentInfo) -> None:
        self.info = info

    async def open(self, spec: object, host: object) -> object:
        from tillerman.core.errors import Unsupported

        raise Unsupported(self.info.name, "anything")


def test_every_built_in_agent_is_classified_by_what_it_declares(tmp_path: Path) -> None:
    """Names each agent that passes because it runs no tools or declares that it requests
    approval."""
    agents = {name: load(name).info for name in available()}

    assert {name for name, info in agents.items() if not info.runs_tools} == {"replay"}
    assert agents["mock"].asks == {"write", "shell", "mcp"}
    assert {name for name, info in agents.items() if starts(name, "ask", False, tmp_path)} == {
        name
        for name, info in agents.items()
        if not info.runs_tools or {"write", "shell"} <= info.asks
    }
