"""A workflow is one thread of control: nothing in it goes on beside it, and a replay is exact."""

from __future__ import annotations

import ast
import asyncio
import random
from pathlib import Path

import pytest

import tillerman.pipelines
from tests.pipelines.run_desk import Desk, kill
from tillerman.pipelines.steps import CommandStep, MapStep, ParallelStep

FOLDER = Path(tillerman.pipelines.__file__).parent
FLOWS = sorted(FOLDER.glob("*_flow.py")) + [
    FOLDER / name for name in ("workflows.py", "merge_step.py", "run_end.py", "template_values.py")
]
BESIDE = {"gather", "create_task", "ensure_future", "TaskGroup", "as_completed", "wait", "shield"}
UNREPEATABLE = {"time", "monotonic", "random", "uuid4", "token_hex", "urandom", "now"}


def calls(source: str, *, leave_out: str = "") -> list[tuple[int, str]]:
    """Names of all calls with their lines, except those inside one function."""
    found = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.AsyncFunctionDef) and node.name == leave_out:
            return
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else ""
            name = function.id if isinstance(function, ast.Name) else name
            found.append((node.lineno, name))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return found


@pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.name)
def test_nothing_runs_beside_a_workflow(path: Path) -> None:
    """`work` is not a workflow: it is inside a recorded step."""
    found = calls(path.read_text(), leave_out="work")
    assert [one for one in found if one[1] in BESIDE | UNREPEATABLE] == []


def test_the_check_above_finds_such_a_call() -> None:
    assert calls("async def f():\n    await asyncio.gather(a())\n")[0] == (2, "gather")


async def test_results_of_parallel_steps_are_not_mixed_up_by_a_replay(desk: Desk) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)

    def wait() -> str:
        return f"sleep {chance.uniform(0, 0.5):.2f}"

    sides = tuple(
        CommandStep(id=f"s{number}", command=f"{wait()}; echo result-{number}")
        for number in range(4)
    )
    each = MapStep(
        id="each",
        items=tuple(f"item-{number}" for number in range(4)),
        steps=(CommandStep(id="say", command=f"{wait()}; echo got {{{{ item }}}}"),),
        width=3,
    )
    texts = " ".join(f"{{{{ steps.s{number}.output }}}}" for number in range(4))
    end = CommandStep(
        id="end", needs=("both", "each"), command=f"echo {texts} {{{{ steps.each.text }}}}"
    )
    spec = desk.spec(ParallelStep(id="both", steps=sides), each, end, git=None)
    async with desk.control() as control:
        for _ in range(3):
            owner = desk.owner("run", spec)
            await asyncio.sleep(chance.uniform(1.0, 4.0))
            kill(owner)
            if owner.stdout:
                owner.stdout.close()
        await asyncio.to_thread(desk.finish, "run", spec)
        assert control.look("run").status == "completed", seed
        result = control.store.result("run", "end")
        assert result
        words = [f"result-{number}" for number in range(4)]
        items = "\n\n".join(f"got item-{number}" for number in range(4))
        assert result.text == f"{' '.join(words)} {items}", seed
        for number in range(4):
            one = control.store.result("run", f"both/s{number}")
            assert one
            assert one.text == f"result-{number}"
