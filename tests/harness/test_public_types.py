"""The public names: importable and typed; mypy refuses wrong options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tillerman

WRONG = [
    'harness.start("mock", mode="Plan")',
    'harness.start("mock", bogus=1)',
    'harness.start("mock", timeout="x")',
    'harness.start("mock", approve="all")',
    'harness.start("mock", on_permission=lambda: None)',
    'harness.start("mock", before_prompt=wrong)',
    'harness.resume(session, mode="Plan")',
    'harness.resume(session, cwd="x")',
    'tillerman.ask("x", mode="Plan")',
    'tillerman.ask("x", max_cost="1")',
    'session.prompt("x", when_busy="later")',
    'harness.start("mock", cwd=5)',
    "harness.start(5)",
    'harness.start("mock", output=5)',
    'harness.start("mock", fork=True)',
    'harness.handoff(session, "x", cwd="x")',
    "harness.handoff(session)",
    'attached.configure(mode="Plan")',
    'anext(tillerman.query("x", bogus=1))',
    'session.ask("x", files=["x"])',
    'blocking(tillerman.sync.ask("x", mode="Plan"))',
    'blocking(tillerman.sync.query("x", bogus=1))',
    'blocking(calls.start("x", approve="all"))',
    'blocking(calls.resume("x", mode="Plan"))',
    'blocking(session.answer("r1", "allow"))',
    'blocking(tillerman.Answer("allow", remember="sesion"))',
    "blocking(session.result().txt)",
]
RIGHT = [
    'harness.start("mock", mode="plan", timeout=3, on_permission=lambda request: None)',
    "harness.start(None, servers={'py': tillerman.tool_server(wrong)}, output=int)",
    "harness.resume(session, fork=True, approve='edits')",
    "harness.handoff(attached, 'codex')",
    "harness.resume(attached)",
    "blocking(harness.attach(session))",
    "blocking(calls.start('x', output=int).ask('x').output_as(int))",
]
HEAD = """
import tillerman
def wrong(a: int) -> int: return a
async def blocking(result: object) -> None: ...
async def main(
    harness: tillerman.Harness,
    session: tillerman.Session,
    attached: tillerman.AttachedSession,
    calls: tillerman.sync.SyncHarness,
) -> None:
"""


def snippet() -> tuple[str, set[int]]:
    """A program, and the numbers of its wrong lines."""
    names = "".join(f"    assert tillerman.{name} is not None\n" for name in tillerman.__all__)
    calls = "".join(f"    await {call}\n" for call in (*RIGHT, *WRONG))
    first = f"{HEAD}{names}".count("\n") + len(RIGHT) + 1
    return f"{HEAD}{names}{calls}", set(range(first, first + len(WRONG)))


def mypy(folder: Path, code: str) -> list[str]:
    (folder / "snippet.py").write_text(code)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "snippet.py"],
        cwd=folder,
        env={"MYPYPATH": str(Path(__file__).parents[2] / "src"), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return [line for line in ran.stdout.splitlines() if "error:" in line]


@pytest.mark.timeout(300)
def test_mypy_refuses_wrong_options_and_accepts_right_ones(tmp_path: Path) -> None:
    code, wrong = snippet()
    found = mypy(tmp_path, code)
    assert {int(line.split(":")[1]) for line in found} == wrong, found


@pytest.mark.parametrize("name", tillerman.__all__)
def test_every_public_name_is_there_and_is_listed(name: str) -> None:
    assert getattr(tillerman, name) is not None
    assert name in dir(tillerman)


def test_the_synchronous_api_needs_no_import_of_its_own() -> None:
    code = "import tillerman; print(tillerman.sync.ask.__name__, 'sync' in dir(tillerman))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "ask True\n"


def test_importing_tillerman_loads_nothing_heavy() -> None:
    code = "import sys; import tillerman; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    heavy = {"asyncio", "typing", "msgspec", "apsw", "rich", "textual", "mcp", "jsonschema", "ssl"}
    assert loaded & heavy == set()
    own = {name for name in loaded if name.startswith("tillerman.")}
    assert own == {"tillerman._version"}
