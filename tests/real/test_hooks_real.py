"""`tillerman hooks install` in CLIs that users run themselves, set to allow everything.

Only what tillerman's hook allows runs: its config allows writes, denies one command, rewrites one,
and leaves another for approval, which nobody gives.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.stages import Actor
from tillerman.hooks.backup_journal import BackupJournal
from tillerman.hooks.dialects import load
from tillerman.hooks.install import install, remove
from tillerman.hooks.install_plan import planned
from tillerman.testing.model_double.script import ModelToolCall, Say, reply
from tillerman.testing.model_double.server import ModelDouble, api_of

AGENTS = ("claude", "codex", "copilot", "gemini", "opencode", "qwen")
pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(400),
    pytest.mark.agents(*AGENTS),
    pytest.mark.newest,
]

CONFIG = """\
approve = "edits"

[[rules]]
name = "no-touch"
command = "touch *"
deny = "nobody touches this"

[[rules]]
command = "install-it"
rewrite = "cp allow.txt rewrite.txt"
"""
FREE = {
    "claude": ("-p", "--permission-mode=acceptEdits", "--allowedTools=Bash", "--"),
    "codex": (
        *("exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check"),
        *("-s", "workspace-write", "--"),
    ),
    "copilot": ("--allow-all-tools", "-p"),
    "gemini": ("--approval-mode=yolo", "-m", "gemini-2.5-flash", "-p"),
    "opencode": ("run",),
    "qwen": ("--approval-mode=yolo", "-p"),
}
# The files in its home that make the project trusted.
TRUST: dict[str, tuple[str, Callable[[str], object]]] = {
    "copilot": (".copilot/config.json", lambda project: {"trusted_folders": [project]}),
    "gemini": (".gemini/trustedFolders.json", lambda project: {project: "TRUST_FOLDER"}),
}


async def play(actor: Actor, double: ModelDouble, *calls: ModelToolCall) -> dict[str, str]:
    """Runs the CLI by itself; returns the result of each call that the model got."""
    name = f"play{len(double.scenarios)}"
    double.scenarios[name] = [*(reply(call) for call in calls), reply(Say("Done."))]
    process = await asyncio.create_subprocess_exec(
        actor.program,
        *FREE[actor.agent],
        f"@@{name}@@ go",
        env=actor.environment(double.base_url, npm_config_fetch_retries="0"),  # of OpenCode's own
        cwd=actor.project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await asyncio.wait_for(process.wait(), 180)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    last = double.turns[-1]
    assert last.scenario == name
    return api_of(last).tool_results(last.body)


def configure(actor: Actor, double: ModelDouble) -> None:
    actor.prepare(double.base_url)
    config = actor.home / ".config/tillerman/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG)
    if actor.agent in TRUST:
        name, says = TRUST[actor.agent]
        (actor.home / name).parent.mkdir(parents=True, exist_ok=True)
        (actor.home / name).write_text(json.dumps(says(str(actor.project))))


async def test_only_calls_the_hook_allows_run(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    configure(actor, double)
    stage, names = actor.stage, ("allow", "deny", "rewrite", "ask")
    made = {name: actor.project / f"{name}.txt" for name in names}
    calls = (
        stage.write(made["allow"], "x\n", id="c_allow"),
        stage.shell(f"touch {made['deny']}", id="c_deny"),
        stage.shell("install-it", id="c_rewrite"),
        stage.shell(f'python3 -c \'open("{made["ask"]}", "w")\'', id="c_ask"),
    )
    journal = BackupJournal(tmp_path / "state")
    hooks = planned(actor.agent, actor.project, "project", version=actor.version)
    install(hooks, journal)

    received = await play(actor, double, *calls)

    assert {name: file.exists() for name, file in made.items()} == {
        "allow": True,
        "deny": False,
        "rewrite": bool(load(actor.agent).CHANGES_INPUT),
        "ask": False,
    }, received
    assert "nobody touches this" in received["c_deny"]

    assert remove(hooks.file, journal) == ("edited" if actor.agent == "qwen" else "restored")
    left = hooks.file.read_text() if hooks.file.exists() else "{}"
    assert json.loads(left).keys() <= {"$version"}  # which Qwen put in meanwhile
    await play(actor, double, calls[1], calls[3])
    assert (made["deny"].exists(), made["ask"].exists()) == (True, True)


async def test_nothing_runs_when_the_hook_fails(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    configure(actor, double)
    journal = BackupJournal(tmp_path / "state")
    hooks = planned(actor.agent, actor.project, "project", version=actor.version)
    install(hooks, journal)
    text = hooks.file.read_text()
    assert sys.executable in text
    hooks.file.write_text(text.replace(sys.executable, os.fspath(tmp_path / "gone")))
    wrote, ran = actor.project / "wrote.txt", actor.project / "ran.txt"

    await play(
        actor,
        double,
        actor.stage.write(wrote, "x\n", id="c_write"),
        actor.stage.shell(f"echo x > {ran}", id="c_shell"),
    )

    assert (wrote.exists(), ran.exists()) == (False, False)
