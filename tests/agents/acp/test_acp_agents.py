"""ACP agents from the config, the command line or the built-in table are found and driven."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.listening import listening
from tests.stand_ins.warm_python import run_tillerman
from tillerman import agents
from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.acp.rows.agent_rows import driver, rows
from tillerman.agents.commands.runner import CommandRunner
from tillerman.config.settings import SETTINGS
from tillerman.core.agent import Prompt
from tillerman.core.agent_admin import InstallInfo, NativeSession, NativeSessionList
from tillerman.core.errors import AgentUnknown, ConfigError, Unsupported
from tillerman.core.events import AgentExited, Answer, TurnEnded
from tillerman.core.session_options import session_spec
from tillerman.testing import PlainHost

PROGRAM = Path(__file__).with_name("acp_program.py")
COMMAND = shlex.join([sys.executable, str(PROGRAM), "--acp"])


# -- found -----------------------------------------------------------------------------------------


def test_agents_come_from_entry_points_rows_and_the_config() -> None:
    found = agents.available({"foo": {"acp": "foo --acp"}, "claude": {"model": "opus"}})
    assert found["foo"] == "config"
    assert found["codex-acp"] == "ACP"
    assert found["claude"] == "tillerman.agents.claude.agent:agent"
    assert list(found) == sorted(found)


def test_experimental_agents_are_listed_only_when_enabled() -> None:
    some = [name for name, row in rows().items() if row.experimental]
    assert some
    assert not set(some) & set(agents.available())
    assert set(some) <= set(agents.available(experimental=True))
    with pytest.raises(ConfigError, match=f"agent '{some[0]}' is experimental") as caught:
        agents.load(some[0])
    assert caught.value.hint == (
        "`tillerman config set experimental_agents yes` enables such agents"
    )
    assert agents.load(some[0], experimental=True).info.name == some[0]


def test_a_line_of_config_is_an_agent() -> None:
    options = {"foo": {"acp": "foo --acp 'a b'", "variables": ("FOO_KEY",)}}
    agent = agents.load("foo", options)
    assert isinstance(agent, AcpAgent)
    assert agent.row.command == ("foo", "--acp", "a b")
    assert (agent.info.name, agent.info.variables) == ("foo", ("FOO_KEY",))


def test_a_command_is_an_agent() -> None:
    agent = agents.load("acp:foo --acp")
    assert isinstance(agent, AcpAgent)
    assert agent.row.command == ("foo", "--acp")
    assert agent.info.name == "acp:foo --acp"


@pytest.mark.parametrize("name", ["acp:", "acp: ", "acp:'"])
def test_no_command_is_none(name: str) -> None:
    with pytest.raises(ConfigError, match="command"):
        agents.load(name)


def test_an_unknown_agent_names_all_that_are_known() -> None:
    with pytest.raises(AgentUnknown) as caught:
        agents.load("nobody", {"foo": {"acp": "foo"}})
    assert "claude, " in caught.value.hint
    assert "foo" in caught.value.hint


def test_a_misspelled_agent_name_gets_a_suggestion() -> None:
    with pytest.raises(AgentUnknown) as caught:
        agents.load("cluade")
    assert caught.value.hint == "did you mean claude?"


def test_rows_are_not_read_for_an_agent_with_an_entry_point() -> None:
    code = "import sys; from tillerman import agents; agents.load('claude'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert not {b"tomllib", b"tillerman.agents.acp.rows.agent_rows"} & set(loaded.split())


def test_a_row_is_started_before_its_wire_is_loaded() -> None:
    code = (
        "import sys; from pathlib import Path; from tillerman import agents;"
        "from tillerman.core.agent import SessionSpec;"
        "agents.load('codex-acp').program(SessionSpec(cwd=Path('/'))); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    heavy = {
        b"asyncio",
        b"dataclasses",
        b"hashlib",
        b"tillerman.core.events",
        b"tillerman.agents.jsonrpc.peer",
    }
    assert not heavy & set(loaded.split())


@pytest.mark.parametrize(("word", "value"), [("yes", True), ("no", False), ("true", True)])
def test_whether_experimental_agents_are_used_is_a_setting(word: str, value: bool) -> None:
    assert SETTINGS["experimental_agents"].kind.read(word) is value


def test_a_custom_command_inherits_the_known_facts_of_an_agent() -> None:
    agent = agents.load("goose", {"goose": {"acp": "goose acp --fast", "variables": ("MY_KEY",)}})
    assert isinstance(agent, AcpAgent)
    assert agent.row.command == ("goose", "acp", "--fast")
    assert agent.info.title == "Goose"
    assert "GOOSE_*" in agent.info.variables
    assert "MY_KEY" in agent.info.variables


# -- other information -----------------------------------------------------------------------------


async def _errands(folder: Path) -> CommandRunner:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return CommandRunner(env, cwd=folder, records=folder / "records", marker=folder.name)


async def test_a_row_agent_reports_its_version_in_the_handshake(tmp_path: Path) -> None:
    agent = agents.load("foo", {"foo": {"acp": COMMAND}})
    assert isinstance(agent, InstallInfo)
    async with await _errands(tmp_path) as run:
        reported = await agent.installed(run)
    assert (reported.path, reported.version) == (sys.executable, "4.5.6")


@pytest.mark.parametrize("command", ["no-such-program", "false", "sh -c 'echo nonsense'"])
async def test_a_missing_or_failing_program_has_no_version(tmp_path: Path, command: str) -> None:
    agent = agents.load("foo", {"foo": {"acp": command}})
    assert isinstance(agent, InstallInfo)
    async with await _errands(tmp_path) as run:
        reported = await agent.installed(run)
    assert (reported.path is None, reported.version) == (command == "no-such-program", None)


async def test_an_agent_that_lists_its_sessions_reports_those_of_the_folder(tmp_path: Path) -> None:
    row = AcpAgentRow(name="foo", command=tuple(shlex.split(COMMAND)), lists=True)
    agent = driver(row)
    assert isinstance(agent, NativeSessionList)
    async with await _errands(tmp_path) as run:
        listed = await agent.native_sessions(run, tmp_path)
    assert listed == [NativeSession("s1", "One", "2026-01-02T03:04:05Z", str(tmp_path))]
    assert not isinstance(driver(replace(row, lists=False)), NativeSessionList)


async def test_an_agent_that_turns_out_not_to_list_sessions_reports_so(tmp_path: Path) -> None:
    row = AcpAgentRow(name="foo", command=(*shlex.split(COMMAND), "--no-list"), lists=True)
    agent = driver(row)
    assert isinstance(agent, NativeSessionList)
    async with await _errands(tmp_path) as run:
        with pytest.raises(Unsupported, match="foo does not support listing its sessions"):
            await agent.native_sessions(run, tmp_path)


# -- driven ----------------------------------------------------------------------------------------


async def test_a_real_program_is_prompted_cancelled_and_prompted_again(tmp_path: Path) -> None:
    agent = agents.load("foo", {"foo": {"acp": COMMAND}})
    spec = session_spec(cwd=tmp_path, accept_advisory=True)
    async with PlainHost.open(tmp_path) as host, listening(agent, spec, host) as listener:
        await listener.turn("hello there")
        assert listener.text == "0 before; you said hello there"
        await listener.conversation.prompt(Prompt("wait"))
        await listener.until(lambda: "waiting" in listener.text)
        await listener.conversation.cancel()
        await listener.until(lambda: TurnEnded(reason="cancelled") in listener.events)
        await listener.turn("again")
        assert listener.text.endswith("1 before; you said again")


async def test_a_program_that_exits_in_a_turn_fails_it(tmp_path: Path) -> None:
    agent = agents.load("foo", {"foo": {"acp": COMMAND}})
    spec = session_spec(cwd=tmp_path, accept_advisory=True)
    async with PlainHost.open(tmp_path) as host, listening(agent, spec, host) as listener:
        events = await listener.turn("die")
    [gone] = [event for event in events if isinstance(event, AgentExited)]
    assert (gone.code, gone.detail.strip()) == (3, "a sad end")
    end = events[-1]
    assert isinstance(end, TurnEnded)
    assert end.failure
    assert end.failure.kind == "agent_crashed"


async def test_a_conversation_is_loaded_in_a_new_process(tmp_path: Path) -> None:
    agent = agents.load("foo", {"foo": {"acp": COMMAND}})
    for resume, before in ((None, 0), ("s1", 1), ("s1", 2)):
        spec = session_spec(cwd=tmp_path, accept_advisory=True, resume=resume)
        async with PlainHost.open(tmp_path) as host, listening(agent, spec, host) as listener:
            await listener.turn("more")
            assert listener.text == f"{before} before; you said more"


@pytest.mark.parametrize(
    ("answer", "text", "written"),
    [("allow", "written", True), ("deny", "not written (o2)", False)],
)
async def test_an_answer_reaches_the_program(
    tmp_path: Path, answer: str, text: str, written: bool
) -> None:
    agent = agents.load("foo", {"foo": {"acp": COMMAND}})
    spec = session_spec(cwd=tmp_path, accept_advisory=True)
    async with (
        PlainHost.open(tmp_path) as host,
        listening(agent, spec, host, answer=Answer(answer)) as listener,
    ):
        await listener.turn("write a.txt")
    assert listener.text == text
    assert (tmp_path / "a.txt").exists() is written


async def test_what_no_acp_agent_has_is_refused_before_anything_starts(tmp_path: Path) -> None:
    agent = agents.load("acp:no-such-program")
    async with PlainHost.open(tmp_path) as host:
        with pytest.raises(Unsupported, match="does not support an output schema"):
            await agent.open(session_spec(cwd=tmp_path, output_schema={"type": "object"}), host)


# -- from the command line -------------------------------------------------------------------------


class Machine:
    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.tillerman = folder / "tillerman"
        (folder / "home").mkdir()
        self.project.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TILLERMAN_HOME": str(self.tillerman),
            "LANG": "C.UTF-8",
            "MY_KEY": "key-of-mine",
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_tillerman(words, cwd=self.project, env=self.env)

    def events(self, *words: str) -> list[Mapping[str, Any]]:
        done = self.run("run", "--json", *words)
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["event"] for line in done.stdout.splitlines()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for key, value in {"acp": COMMAND, "asks": "write,shell"}.items():
        done = machine.run("config", "set", f"agents.foo.{key}", value)
        assert done.returncode == 0, done.stderr
    return machine


def _text(events: list[Mapping[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "message_chunk")


def test_an_agent_not_declared_to_ask_is_refused(machine: Machine) -> None:
    for words in ((), ("--approve", "edits"), ("--approve", "none")):
        done = machine.run("run", "-a", f"acp:{COMMAND}", *words, "hello")
        assert done.returncode == 4
        assert "does not declare that it asks before every write and shell call" in done.stderr
        assert "--accept-advisory" in done.stderr
    for words in (("--accept-advisory",), ("--approve", "auto")):
        done = machine.run("run", "-a", f"acp:{COMMAND}", *words, "hello")
        assert (done.returncode, done.stdout) == (0, "0 before; you said hello\n"), done.stderr
    again = machine.run("run", "--resume", "last", "more")
    assert again.returncode == 0, again.stderr


def test_accepting_one_agent_does_not_accept_the_next(machine: Machine) -> None:
    done = machine.run("run", "-a", f"acp:{COMMAND}", "--accept-advisory", "hello")
    assert done.returncode == 0, done.stderr
    other = f"acp:{COMMAND} other"
    refused = machine.run("handoff", "last", "-a", other, "more")
    assert refused.returncode == 4
    assert "--accept-advisory" in refused.stderr
    done = machine.run("handoff", "last", "-a", other, "--accept-advisory", "more")
    assert done.returncode == 0, done.stderr


def test_declared_asks_must_be_tool_classes(machine: Machine) -> None:
    machine.run("config", "set", "agents.foo.asks", "write,shel")
    done = machine.run("run", "-a", "foo", "hello")
    assert done.returncode == 2
    assert "unknown class in asks: 'shel'" in done.stderr


def test_one_line_of_config_is_all_that_a_run_needs(machine: Machine) -> None:
    done = machine.run("run", "-a", "foo", "hello")
    assert (done.returncode, done.stdout) == (0, "0 before; you said hello\n"), done.stderr
    listed = machine.run("agents", "--json")
    assert "foo" in [one["name"] for one in json.loads(listed.stdout)], listed.stderr


def test_a_run_continues_its_session(machine: Machine) -> None:
    machine.events("-a", "foo", "hello")
    again = machine.events("--resume", "last", "more")
    assert _text(again) == "1 before; you said more"


@pytest.mark.parametrize("approve", ["edits", "readonly"])
def test_policy_answers_what_the_program_asks(machine: Machine, approve: str) -> None:
    events = machine.events("-a", "foo", "--approve", approve, "write a.txt")
    allowed = approve == "edits"
    assert _text(events) == ("written" if allowed else "not written (o2)")
    assert (machine.project / "a.txt").exists() is allowed
    [end] = [event for event in events if event["type"] == "tool_finished"]
    assert end["outcome"] == ("completed" if allowed else "denied")


def test_a_command_in_place_of_a_name_runs_and_can_be_resumed(machine: Machine) -> None:
    assert (
        _text(machine.events("--accept-advisory", "-a", f"acp:{COMMAND}", "hello"))
        == "0 before; you said hello"
    )
    assert _text(machine.events("--resume", "last", "more")) == "1 before; you said more"


def test_a_variable_reaches_only_the_agent_that_names_it(machine: Machine) -> None:
    assert _text(machine.events("-a", "foo", "variable MY_KEY")) == "unset"
    done = machine.run("config", "set", "agents.foo.variables", "MY_KEY")
    assert done.returncode == 0, done.stderr
    assert _text(machine.events("-a", "foo", "variable MY_KEY")) != "unset"
