"""`tillerman pipeline list`, `show`, `logs`, and the control of runs in other processes."""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tillerman.core.errors import UsageError
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.cli.commands.pipeline_run import need_extra
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, width
from tillerman.surfaces.rendering.ansi_style import Style

if TYPE_CHECKING:
    from tillerman.pipelines.engine import Engine
    from tillerman.pipelines.run_state import Gate, Run

HEAD = ("RUN", "STATUS", "BEGAN", "COST", "FOLDER")
_LOOK = 0.2  # seconds between two looks at a run


@asynccontextmanager
async def controlled() -> AsyncIterator[Engine]:
    """Opens the engine to control runs, not to run them."""
    need_extra()
    from tillerman.config import find_paths
    from tillerman.pipelines.engine import Engine
    from tillerman.pipelines.engine_database import explained

    engine = Engine(find_paths())
    with explained():
        try:
            await engine.open()
            yield engine
        finally:
            await engine.close()


def list_runs(options: Namespace) -> int:
    return asyncio.run(_list(options))


def show(options: Namespace) -> int:
    return asyncio.run(_show(options))


def logs(options: Namespace) -> int:
    return asyncio.run(_logs(options))


def approve(options: Namespace) -> int:
    return asyncio.run(_answer(options, "approve"))


def reject(options: Namespace) -> int:
    return asyncio.run(_answer(options, "reject"))


def pause(options: Namespace) -> int:
    return asyncio.run(_control(options, "paused"))


def kill(options: Namespace) -> int:
    return asyncio.run(_control(options, "killed"))


def delete(options: Namespace) -> int:
    return asyncio.run(_delete(options))


async def _list(options: Namespace) -> int:
    async with controlled() as engine:
        runs = [engine.look(one.id) for one in engine.store.runs(limit=options.limit)]
    if options.json:
        emit_json(runs)
    elif not runs:
        emit("no runs: `tillerman pipeline run NAME` starts one")
    else:
        style = Style(colored(options, sys.stdout))
        emit(table([_cells(run) for run in runs], HEAD, style, width()))
    return 0


def _cells(run: Run) -> tuple[str, ...]:
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_at))
    cost = f"${run.cost:.4f}" if run.cost else ""
    return (run.id, _status(run), began, cost, run.folder)


def _status(run: Run) -> str:
    from tillerman.pipelines.run_state import ENDED

    if run.status in ENDED or run.status == "paused" or run.alive:
        return run.status
    return f"{run.status}, no process"


async def _show(options: Namespace) -> int:
    from tillerman.surfaces.cli.views import run_view

    async with controlled() as engine:
        run = engine.look(options.run)
        if options.step:
            return await _show_step(engine, run, options)
        if options.json:
            emit_json(run_view.document(engine.store, run))
            return 0
        emit(f"{run.id}  {_status(run)}" + (f"  {clean(run.error)}" if run.error else ""))
        rows = engine.store.steps(run.id)
        emit(*(run_view.step_line(row) for row in rows))
        emit(*(f"·  {id}" for id in run_view.pending(engine.store.spec(run.id), rows)))
        for gate in engine.store.gates(run.id, unanswered=True):
            emit(*run_view.gate_lines(run.id, gate))
        if run.commit:
            emit(f"commit {run.commit}")
    return 0


async def _show_step(engine: Engine, run: Run, options: Namespace) -> int:
    """Shows one step: what it said, and what it changed."""
    gate = engine.store.gate(run.id, options.step)
    result = engine.store.result(run.id, options.step)
    if gate is None and result is None:
        raise UsageError(
            f"{run.id} has no result of {options.step!r}",
            hint=f"`tillerman pipeline show {run.id}` lists its steps",
        )
    diff = (await engine.diff(run.id, options.step)).decode("utf-8", "replace")
    if options.json:
        emit_json({"gate": gate, "result": result, "diff": diff})
        return 0
    if gate is not None:
        emit(clean(gate.message), clean(gate.account))
    elif result is not None:
        emit(clean(result.text), *([clean(result.error)] if result.error else []))
    if diff:
        emit(clean(diff))
    return 0


async def _logs(options: Namespace) -> int:
    from tillerman.pipelines.run_state import ENDED
    from tillerman.surfaces.cli.views.run_view import run_view

    async with controlled() as engine:
        run = engine.look(options.run)
        if options.step:
            if all(row.path != options.step for row in engine.store.steps(run.id)):
                raise UsageError(
                    f"{run.id} has no step {options.step!r}",
                    hint=f"`tillerman pipeline show {run.id}` lists those that have started",
                )
            emit(clean(engine.output(run.id, options.step)).rstrip("\n"))
            return 0
        view = run_view(engine.store, run.id, options)
        view.update()
        while options.follow and run.status not in ENDED:
            await asyncio.sleep(_LOOK)
            run = engine.look(run.id)
            view.update()
        view.close()
    return 0


async def _answer(options: Namespace, decision: Literal["approve", "reject"]) -> int:
    from tillerman.pipelines.run_state import Answer

    async with controlled() as engine:
        run = engine.look(options.run)
        gate = _gate(engine, run, options.step)
        answer = Answer(decision, text=_text(options))
        if decision == "approve":
            answer = msgspec.structs.replace(
                answer, commit=options.commit or "", choice=options.choice or ""
            )
        if not await engine.answer(run.id, gate.path, answer):
            raise UsageError(
                f"{gate.path} of {run.id} was answered before",
                hint=f"`tillerman pipeline show {run.id}` shows how it goes on",
            )
        alive = engine.look(run.id).alive
    done = "approved" if decision == "approve" else "rejected"
    emit(f"{done} {gate.path} of {run.id}")
    if not alive:
        emit(f"no process runs it: `tillerman pipeline resume {run.id}`")
    return 0


def _text(options: Namespace) -> str:
    if options.file is None:
        return str(options.note or "")
    try:
        if str(options.file) == "-":
            return sys.stdin.read()
        return Path(options.file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "--file takes a text file in UTF-8, or - for standard input"
        raise UsageError(f"{options.file} cannot be read: {error}", hint=hint) from None


def _gate(engine: Engine, run: Run, step: str | None) -> Gate:
    waiting = engine.store.gates(run.id, unanswered=True)
    if step is not None:
        waiting = [gate for gate in engine.store.gates(run.id) if gate.path == step]
    if not waiting:
        what = f"gate {step!r}" if step else "open gate"
        raise UsageError(
            f"{run.id} has no {what}", hint=f"`tillerman pipeline show {run.id}` lists its gates"
        )
    if len(waiting) > 1:
        paths = ", ".join(gate.path for gate in waiting)
        raise UsageError(f"{run.id} waits at several gates", hint=f"name one of {paths}")
    return waiting[0]


async def _control(options: Namespace, to: Literal["paused", "killed"]) -> int:
    async with controlled() as engine:
        run = engine.look(options.run)
        await engine.control(run.id, to)
    emit(f"{to} {run.id}")
    return 0


async def _delete(options: Namespace) -> int:
    async with controlled() as engine:
        runs = [engine.look(run).id for run in options.runs]
        await engine.forget(runs)
    emit(*(f"deleted {run}" for run in dict.fromkeys(runs)))
    return 0
