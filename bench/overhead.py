"""`tillerman run -a claude` against bare `claude -p`, on the same scripted turn."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tillerman.testing.model_double.script import ModelToolCall, Say, reply
from tillerman.testing.model_double.server import ModelDouble

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))
VERSION = "2.1.325"


def claude_program() -> str:
    script = Path(__file__).parents[1] / "tests/real/clis.py"
    found = subprocess.run(
        [sys.executable, script, "path", "claude", VERSION],
        check=False,
        capture_output=True,
        text=True,
    )
    if found.returncode:
        raise SystemExit(found.stderr)
    return found.stdout.strip()


def claude_environment(folder: Path, base_url: str) -> dict[str, str]:
    """No variable of this machine, and network access to loopback only."""
    return {
        "PATH": os.defpath,
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": "sk-fake",
        "ANTHROPIC_BASE_URL": base_url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }


async def _timed(argv: list[str], env: dict[str, str], cwd: Path) -> float:
    begin = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, error = await process.communicate()
    took = time.perf_counter() - begin
    if process.returncode or not out:
        raise SystemExit(f"{argv[0]} failed: {out[-2000:]!r} {error[-2000:]!r}")
    return took


async def measure(folder: Path, project: Path) -> dict[str, float]:
    program = claude_program()
    script = [
        reply(Say("Looking."), ModelToolCall("Bash", {"command": "ls", "description": "list"})),
        reply(Say("All done.")),
    ]
    async with ModelDouble(script) as double:
        env = claude_environment(folder, double.base_url) | {
            "TILLERMAN_HOME": str(folder / "tillerman"),
            "TILLERMAN_AGENTS_CLAUDE_BINARY": program,
        }
        commands = {
            "bare": [
                program, "-p", "--output-format", "stream-json", "--verbose",
                "--include-partial-messages", "--allowedTools", "Bash", "--", "go",
            ],
            "tillerman": [
                str(Path(sys.executable).with_name("tillerman")), "run", "-a", "claude",
                "--approve", "auto", "--json", "go",
            ],
            "python": [sys.executable, "-c", "print('All done.')"],
        }  # fmt: skip
        times: dict[str, list[float]] = {name: [] for name in commands}
        for round in range(ROUNDS + 1):
            for name, argv in commands.items():
                took = await _timed(argv, env, project)
                if round:
                    times[name].append(took)
    return {name: median(each) for name, each in times.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "project"
        project.mkdir()
        subprocess.run(["git", "init", "-q", project], check=True)
        took = asyncio.run(measure(Path(name), project))
    beyond = took["tillerman"] - took["python"]
    print(f"bare claude -p                 {took['bare'] * 1000:7.0f} ms")
    print(f"tillerman run -a claude           {took['tillerman'] * 1000:7.0f} ms")
    print(f"Python's own start             {took['python'] * 1000:7.0f} ms")
    print(f"over bare, beyond Python's own {beyond / took['bare']:7.2f} x   (goal 1.05)")


if __name__ == "__main__":
    main()
