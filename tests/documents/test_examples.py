"""Every code block of the documents runs, or is only parsed for a stated reason."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.documents.machine import Machine
from tests.documents.pages import Block, blocks
from tests.documents.test_side_by_side import PAGE  # whose programs are run there
from tillerman.config import find_paths, load
from tillerman.pipelines.library import Library
from tillerman.surfaces.cli.parsing.argparse_errors import parse
from tillerman.surfaces.cli.parsing.examples import EXAMPLES
from tillerman.surfaces.cli.parsing.parser import build

KNOWN = {"sh", "python", "toml", "yaml", "json", "markdown", "text", "console"}
# examples of --help that need what this machine does not have
PARSED_ONLY = {
    "tillerman handoff": "needs two agents: test_handoff_by_hand",
    "tillerman tui": "needs a terminal: tests/surfaces/tui",
    "tillerman serve": "needs a service: tests/surfaces/server",
    "tillerman serve link": "needs a service: tests/surfaces/server/test_tokens.py",
    "tillerman attach": "needs a session that runs: tests/surfaces/server/test_service.py",
    "tillerman requests answer": "needs an open request: test_requests_elsewhere",
    "tillerman mcp add": "needs an agent that stores servers: tests/real",
    "tillerman repo": "needs a remote: test_repo",
    "tillerman cloud": "needs the cloud: tests/surfaces/cli/test_cloud.py",
    "tillerman cloud launch": "needs the cloud: tests/surfaces/cli/test_cloud.py",
    "tillerman cloud artifacts": "needs the cloud: tests/surfaces/cli/test_cloud.py",
    "tillerman cloud listen": "runs until it is stopped: tests/surfaces/cli/test_cloud.py",
    "tillerman logs": "needs a command that ran: test_processes",
}
TEST = "def test_"
_WORD = re.compile(r"(?:^|[|(&;]\s*|\$\()\s*(?:\w+=\S+ )*(tillerman(?: [^|)\n]*)?)", re.MULTILINE)


def named(found: list[Block]) -> list[object]:
    return [pytest.param(block, id=block.id) for block in found]


def test_every_block_is_of_a_language_that_is_tested() -> None:
    assert {block.id for block in blocks() if block.language not in KNOWN} == set()
    # run by tests/core/permission/test_document.py
    assert {block.page for block in blocks("console")} == {"docs/policy.md"}


def test_only_blocks_with_a_reason_are_not_run() -> None:
    parsed = [block for block in blocks() if block.reason is not None]
    assert all(block.language == "sh" and len(block.reason or "") > 10 for block in parsed)


@pytest.mark.parametrize("block", named([one for one in blocks("python") if one.page != PAGE]))
def test_a_python_block_runs_unchanged(block: Block, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    program = project / "test_block.py"
    program.write_text(block.text)
    pytest_run = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    ran = subprocess.run(
        [sys.executable, *(pytest_run if TEST in block.text else []), str(program)],
        cwd=project,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "TILLERMAN_HOME": str(tmp_path / "b"),
        },
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip()


@pytest.mark.parametrize("block", named([one for one in blocks("sh") if one.reason is None]))
def test_a_command_block_runs_unchanged(block: Block, tmp_path: Path) -> None:
    for program in ("jq", "curl"):
        if f"{program} " in block.text and not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    ran = Machine(tmp_path).bash(block.text)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("block", named([one for one in blocks("sh") if one.reason is not None]))
def test_the_commands_of_a_block_that_is_not_run_are_ours(block: Block) -> None:
    for words in commands(block.text):
        assert parse(build(), words) is not None


def commands(text: str) -> list[list[str]]:
    """The words of each `tillerman` command, without comments and redirections."""
    found = [shlex.split(line, comments=True)[1:] for line in _WORD.findall(text)]
    return [[word for word in words if not word.startswith((">", "<", "2>"))] for words in found]


@pytest.mark.parametrize("block", named(blocks("toml")))
def test_a_toml_block_is_config(block: Block, tmp_path: Path) -> None:
    read = tomllib.loads(block.text)
    if "cases" in read:
        return  # run by tests/core/permission/test_document.py
    paths = find_paths({"HOME": str(tmp_path), "TILLERMAN_HOME": str(tmp_path)})
    paths.config_file.write_text(block.text)
    assert load(tmp_path, paths=paths, environment={}) is not None


@pytest.mark.parametrize("block", named(blocks("yaml")))
def test_a_yaml_block_is_a_pipeline(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "block.yaml"
    file.write_text(block.text)
    paths = find_paths({"HOME": str(tmp_path), "TILLERMAN_HOME": str(tmp_path)})
    config = load(tmp_path, paths=paths, environment={})
    assert Library(config, tmp_path).load(str(file)).steps


@pytest.mark.parametrize("block", named(blocks("json")))
def test_a_json_block_is_json(block: Block) -> None:
    assert json.loads(block.text)


def help_examples(parsed_only: bool) -> list[object]:
    return [
        pytest.param(lines, id=command)
        for command, lines in EXAMPLES.items()
        if (command in PARSED_ONLY) is parsed_only
    ]


@pytest.mark.parametrize("lines", help_examples(parsed_only=False))
def test_the_examples_of_a_help_text_run(lines: tuple[str, ...], tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.project / ".tillerman").mkdir()
    (machine.project / ".tillerman/config.toml").write_text('approve = "readonly"\n')
    assert machine.bash('tillerman run -a mock "Write a greeting"').returncode == 0
    assert machine.bash("tillerman init && tillerman trust --yes").returncode == 0
    for line in lines:
        ran = machine.bash(line)
        assert ran.returncode == 0, (line, ran.stderr)


@pytest.mark.parametrize("lines", help_examples(parsed_only=True))
def test_the_examples_of_a_help_text_are_commands(lines: tuple[str, ...]) -> None:
    for line in lines:
        assert [parse(build(), words) for words in commands(line)] != []


def test_the_public_names_equal_all() -> None:
    import tillerman

    assert sorted(tillerman.__all__) == sorted(tillerman._HOMES)
    for name in tillerman.__all__:
        assert getattr(tillerman, name) is not None
