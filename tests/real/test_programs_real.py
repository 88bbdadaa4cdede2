"""Programs on the Python API, with real agents: the examples, and Python tools."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.running import EXAMPLES, ExampleFolder
from tests.harness.test_public_types import snippet
from tests.real.desk import KEY
from tests.real.stages import Actor
from tillerman.testing.model_double.script import ModelRequest, Say, Step, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("claude", "codex", "gemini"),
    pytest.mark.newest,
    pytest.mark.timeout(180),
]

TOOLS = """
import asyncio, sys
import tillerman

async def double(number: int) -> str:
    "Doubles a number."
    return f"twice is {2 * number}"

def shout(words: list[str]) -> str:
    "Joins words in capitals."
    return " ".join(words).upper()

async def main():
    servers = {"py": tillerman.tool_server(double), "other": tillerman.tool_server(shout)}
    async with tillerman.open() as harness:
        async with await harness.start(sys.argv[1], approve="auto", servers=servers) as session:
            result = await session.ask("@@tools@@ go")
            for call in result.check().calls:
                print(call.tool, call.outcome)
            print(result.text)

asyncio.run(main())
"""


def environment(actor: Actor, double: ModelDouble, folder: ExampleFolder) -> dict[str, str]:
    actor.prepare(double.base_url)
    home = folder.home.parent / "tillerman"
    home.mkdir(exist_ok=True)
    model = f'model = "{actor.model}"\n' if actor.model else ""
    config = f'accept_advisory = true\n[agents.{actor.agent}]\nbinary = "{actor.program}"\n{model}'
    if actor.agent == "gemini":
        config += "trust = true\n"  # it loads no servers in a folder that it does not trust
    (home / "config.toml").write_text(config)
    return {
        **actor.environment(double.base_url, **{actor.key: KEY}),
        "TILLERMAN_HOME": str(home),
    }


@pytest.mark.parametrize("name", ["stream", "answer_in_code", "twenty_sessions"])
async def test_an_example_runs_with_it(
    actor: Actor, double: ModelDouble, tmp_path: Path, name: str
) -> None:
    folder = ExampleFolder(tmp_path)
    variables = environment(actor, double, folder)
    double.scenarios["hello"] = [reply(Say("Hello from the model."))]
    more = ["2"] if name == "twenty_sessions" else []
    ran = await asyncio.to_thread(
        folder.run, name, actor.agent, "@@hello@@ go", *more, environment=variables, timeout=150
    )
    assert (ran.code, ran.errors) == (0, "")
    assert ran.output.count("Hello from the model.") == (2 if more else 1)


async def test_it_calls_python_functions_of_two_servers(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    folder = ExampleFolder(tmp_path)
    variables = environment(actor, double, folder)
    calls = [("py", "double", {"number": 21}), ("other", "shout", {"words": ["well", "done"]})]

    def step(request: ModelRequest) -> Step:
        body = str(request.body)
        for (server, tool, given), result in zip(calls, ("twice is 42", "WELL DONE"), strict=True):
            if result not in body:
                return reply(actor.stage.mcp(server, tool, given))
        return reply(Say("Both answered."))

    double.scenarios["tools"] = step
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", TOOLS, actor.agent],
        cwd=folder.project, env=variables, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    *ended, text = ran.stdout.splitlines()
    # Codex begins a turn while its servers start, and its first calls may fail
    assert [line for line in ended if "failed" not in line] == ["MCP completed"] * 2
    assert text == "Both answered."


@pytest.mark.skipif(not shutil.which("npx"), reason="pyright is a Node program")
def test_pyright_accepts_the_examples() -> None:
    ran = pyright(EXAMPLES)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.skipif(not shutil.which("npx"), reason="pyright is a Node program")
def test_pyright_refuses_wrong_options_and_accepts_right_ones(tmp_path: Path) -> None:
    code, wrong = snippet()
    (tmp_path / "snippet.py").write_text(code)
    ran = pyright(tmp_path / "snippet.py")
    found = re.findall(r"snippet\.py:(\d+):\d+ - error", ran.stdout)
    assert {int(number) for number in found} == wrong, ran.stdout


def pyright(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["npx", "--yes", "pyright@1.1.414", "--pythonpath", sys.executable, str(path)],
        cwd=EXAMPLES.parent,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        capture_output=True,
        text=True,
        timeout=170,
    )
