"""An agent that does not declare that it asks is advisory, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product
from pathlib import Path
from typing import get_args

import pytest

import tillerman
from tillerman.agents import available, load
from tillerman.agents.stdio.capability_check import refuse_open_gate
from tillerman.config import APPROVE, Config
from tillerman.core.agent import AgentInfo
from tillerman.core.errors import GateNotEnforced
from tillerman.core.events import Notice
from tillerman.core.tools import ToolClass
from tillerman.harness.launch_plan import launch_plan
from tillerman.paths import find_paths
from tillerman.testing import check_agent
from tillerman.testing.conformance import AdvisoryAgent

CLASSES: tuple[ToolClass, ...] = get_args(ToolClass)

# An agent of somebody else's that needs no program: it acts in our own process, and asks nobody.
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
def test_the_check_of_an_agent_says_that_it_is_advisory() -> None:
    for name in ("plugin", "plugin-write", "plugin-installed"):
        with pytest.warns(AdvisoryAgent, match=rf"^{name} is advisory: .* --accept-advisory$"):
            check_agent(_RefusesAll(load(name).info))


class _RefusesAll:
    def __init__(self, info: AgentInfo) -> None:
        self.info = info

    async def open(self, spec: object, host: object) -> object:
        from tillerman.core.errors import Unsupported

        raise Unsupported(self.info.name, "anything")


def test_every_built_in_agent_is_classified_by_what_it_declares(tmp_path: Path) -> None:
    """Those that pass by declaring that they run no tools, or ask: each is named here."""
    agents = {name: load(name).info for name in available()}

    assert {name for name, info in agents.items() if not info.runs_tools} == {"replay"}
    assert agents["mock"].asks == {"write", "shell", "mcp"}
    assert {name for name, info in agents.items() if starts(name, "ask", False, tmp_path)} == {
        name
        for name, info in agents.items()
        if not info.runs_tools or {"write", "shell"} <= info.asks
    }
