"""Real editors' clients at `tillerman acp`: the protocol's TypeScript SDK and `acpx`."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.real.claude_desk import KEY, no_process_left
from tests.real.clis import Cli, CliError, pinned
from tests.real.real_claude import RealClaude
from tillerman.testing.model_double.script import ModelToolCall, ReplyHold, Say, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

SCRIPT = Path(__file__).with_name("acp_client.mjs")
MAX_WAIT = 90.0
RESTS = 5.0  # seconds until the process that acpx leaves behind has ended, with `--ttl 1`
TILLERMAN = (sys.executable, "-m", "tillerman", "acp")
WRITE = {"write": "made.txt", "text": "made\n"}
Step = dict[str, Any]

_NEWEST = pinned("claude")[:1]
newest_claude = pytest.mark.parametrize(
    "claude", _NEWEST, indirect=True, ids=[cli.version for cli in _NEWEST]
)


class Machine(NamedTuple):
    project: Path
    environment: Mapping[str, str]


@pytest.fixture
def machine(tmp_path: Path, project: Path) -> Machine:
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "TILLERMAN_HOME": str(tmp_path / "tillerman"),
        "TILLERMAN_MOCK_STATE": str(tmp_path / "mock"),
    }
    return Machine(project, environment)


def cli(name: str) -> tuple[Cli, Path]:
    [found] = pinned(name)
    try:
        return found, found.path()
    except CliError as missing:
        pytest.fail(str(missing), pytrace=False)


async def start(words: list[str], machine: Machine, path: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *words,
        cwd=machine.project,
        env={**machine.environment, "PATH": path},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=64 * 1024 * 1024,
    )


async def run(
    words: list[str], machine: Machine, path: str, input: str = ""
) -> tuple[int, str, str]:
    process = await start(words, machine, path)
    async with asyncio.timeout(MAX_WAIT):
        out, err = await process.communicate(input.encode())
    return process.returncode or 0, out.decode(), err.decode()


async def sdk(machine: Machine, agent: str, *steps: Step, words: tuple[str, ...] = ()) -> list[Any]:
    """Plays the steps with the SDK's client; one result with its updates for each."""
    package, program = cli("acp-sdk")
    command = ["node", str(SCRIPT), str(program), *TILLERMAN, "-a", agent, *words]
    plan = [{"op": "initialize"}, {"op": "new"}, *steps]
    code, out, err = await run(command, machine, package.search_path(), json.dumps(plan))
    assert code == 0, err
    _, new, *found = json.loads(out)
    assert "result" in new, new
    return [new, *found]


def said(played: Any, kind: str = "agent_message_chunk") -> str:
    chunks = [one for one in played["updates"] if one["sessionUpdate"] == kind]
    return "".join(one["content"]["text"] for one in chunks)


def of(played: Any, kind: str) -> list[Any]:
    return [one for one in played["updates"] if one["sessionUpdate"] == kind]


def prompt(*steps: Any, **more: Any) -> Step:
    return {"op": "prompt", "text": json.dumps(steps), **more}


async def test_the_sdks_client_drives_the_mock(machine: Machine) -> None:
    hang = json.dumps([{"say": "now"}, {"hang": True}])
    new, streamed, denied, allowed, cancelled, mode, model, after, loaded = await sdk(
        machine,
        "mock",
        prompt({"think": "so"}, {"say": "one two three"}),
        prompt(WRITE, {"say": "{answer}"}, permit="reject_once"),
        prompt(WRITE, {"say": "{answer}"}, permit="allow_once"),
        {"op": "cancelled", "text": hang, "at": "agent_message_chunk"},
        {"op": "mode", "value": "plan"},
        {"op": "option", "id": "model", "value": "mock-deep"},
        prompt({"say": "{mode} {model}"}),
        {"op": "load"},
    )
    assert {one["id"] for one in new["result"]["configOptions"]} >= {"agent", "model", "mode"}
    assert streamed["result"]["stopReason"] == "end_turn"
    assert (said(streamed), len(of(streamed, "agent_message_chunk")) > 1) == ("one two three", True)
    assert said(streamed, "agent_thought_chunk") == "so"
    assert of(denied, "tool_call_update")[-1]["status"] == "failed"
    assert of(allowed, "tool_call_update")[-1]["status"] == "completed"
    assert (machine.project / "made.txt").read_text() == "made\n"
    assert cancelled["result"]["stopReason"] == "cancelled"
    assert mode["result"] == {}
    assert "mock-deep" in json.dumps(model["result"])
    assert said(after) == "plan mock-deep"
    assert "one two three" in said(loaded)
    assert len(of(loaded, "user_message_chunk")) == 5


@newest_claude
async def test_the_sdks_client_drives_claude(
    claude: RealClaude, double: ModelDouble, tmp_path: Path
) -> None:
    environment = claude.environment(
        double.base_url,
        ANTHROPIC_API_KEY=KEY,
        TILLERMAN_HOME=str(tmp_path / "tillerman"),
        TILLERMAN_AGENTS_CLAUDE_BINARY=str(claude.program),
    )
    machine = Machine(claude.project, environment)
    made = str(claude.project / "made.txt")
    call = ModelToolCall("Write", {"file_path": made, "content": "made\n"})
    double.scenarios["stream"] = [reply(Say("one two three four", chunks=4))]
    double.scenarios["deny"] = [reply(call), reply(Say("Then not."))]
    double.scenarios["allow"] = [reply(call), reply(Say("Written."))]
    double.scenarios["hang"] = [reply(Say("It begins", chunks=1), ReplyHold("never"))]
    double.scenarios["after"] = [reply(Say("Still here."))]
    _, streamed, denied, allowed, cancelled, mode, model, after, loaded = await sdk(
        machine,
        "claude",
        {"op": "prompt", "text": "@@stream@@"},
        {"op": "prompt", "text": "@@deny@@", "permit": "reject_once"},
        {"op": "prompt", "text": "@@allow@@", "permit": "allow_once"},
        {"op": "cancelled", "text": "@@hang@@", "at": "agent_message_chunk"},
        {"op": "mode", "value": "plan"},
        {"op": "option", "id": "model", "value": "claude-haiku-4-5"},
        {"op": "prompt", "text": "@@after@@"},
        {"op": "load"},
    )
    assert (said(streamed), streamed["result"]["stopReason"]) == ("one two three four", "end_turn")
    assert of(denied, "tool_call_update")[-1]["status"] == "failed"
    assert said(denied).endswith("Then not.")
    [begun] = of(allowed, "tool_call")
    assert (begun["kind"], begun["locations"]) == ("edit", [{"path": made}])
    assert of(allowed, "tool_call_update")[-1]["status"] == "completed"
    assert Path(made).read_text() == "made\n"
    assert cancelled["result"]["stopReason"] == "cancelled"
    assert mode["result"] == {}
    assert "error" not in model, model
    assert said(after) == "Still here."
    assert "one two three four" in said(loaded)
    await no_process_left(claude)


class Acpx:
    def __init__(self, machine: Machine, agent: str) -> None:
        self._machine = machine
        self._package, self._program = cli("acpx")
        self._agent = " ".join([*TILLERMAN, "-a", agent])

    async def start(self, *words: str) -> Process:
        return await start(self._line(words), self._machine, self._package.search_path())

    async def __call__(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        path = self._package.search_path()
        code, out, err = await run(self._line(words), self._machine, path)
        assert code in codes, out + err
        return out

    def _line(self, words: tuple[str, ...]) -> list[str]:
        folder = str(self._machine.project)
        return [str(self._program), "--agent", self._agent, "--cwd", folder, *words]


async def test_acpx_runs_single_prompts_of_the_mock(machine: Machine) -> None:
    acpx = Acpx(machine, "mock")
    steps = json.dumps([{"say": "one two"}, WRITE, {"say": " {answer}"}])
    denied = await acpx("--deny-all", "--format", "quiet", "exec", steps, codes=(0, 5))
    assert not (machine.project / "made.txt").exists()
    allowed = await acpx("--approve-all", "--format", "quiet", "exec", steps)
    assert (machine.project / "made.txt").read_text() == "made\n"
    assert ("one two" in denied, allowed.strip()) == (True, "one two allow")


async def test_acpx_keeps_a_session_with_the_mock(machine: Machine) -> None:
    acpx = Acpx(machine, "mock")
    await acpx("sessions", "new")
    quiet = ("--approve-all", "--format", "quiet", "--ttl", "1")
    assert "the bird is a heron" in await acpx(*quiet, json.dumps([{"say": "the bird is a heron"}]))
    await asyncio.sleep(RESTS)  # its process ends, and the next one loads the session
    assert "the bird is a heron" in await acpx(*quiet, json.dumps([{"say": "then {before}"}]))
    await asyncio.sleep(RESTS)
    await acpx("set-mode", "plan")
    await acpx("set", "model", "mock-deep")
    quiet = (*quiet[:-1], "60")
    assert "plan mock-deep" in await acpx(*quiet, json.dumps([{"say": "{mode} {model}"}]))
    hang = json.dumps([{"say": "now"}, {"hang": True}])
    turn = await acpx.start("--approve-all", "--format", "json", "--ttl", "60", hang)
    assert turn.stdout
    async with asyncio.timeout(MAX_WAIT):
        async for line in turn.stdout:
            if b'"text":"now"' in line:
                break
        await acpx("cancel")
        assert b'"stopReason":"cancelled"' in await turn.stdout.read()
        await turn.wait()
    await acpx("sessions", "close")


@newest_claude
async def test_acpx_runs_a_prompt_of_claude(
    claude: RealClaude, double: ModelDouble, tmp_path: Path
) -> None:
    environment = claude.environment(
        double.base_url,
        ANTHROPIC_API_KEY=KEY,
        TILLERMAN_HOME=str(tmp_path / "tillerman"),
        TILLERMAN_AGENTS_CLAUDE_BINARY=str(claude.program),
    )
    acpx = Acpx(Machine(claude.project, environment), "claude")
    made = claude.project / "made.txt"
    call = ModelToolCall("Write", {"file_path": str(made), "content": "made\n"})
    double.scenarios["write"] = [reply(call), reply(Say("Written."))]
    denied = await acpx("--deny-all", "--format", "quiet", "exec", "@@write@@", codes=(0, 5))
    assert not made.exists(), denied
    double.scenarios["write"] = [reply(call), reply(Say("Written."))]
    assert "Written." in await acpx("--approve-all", "--format", "quiet", "exec", "@@write@@")
    assert made.read_text() == "made\n"
    await no_process_left(claude)
