"""`tillerman pipeline run`, `resume`, `retry` and `fork`: run a pipeline in this process."""

from __future__ import annotations

import asyncio
import signal
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.core.errors import CANCELLED, UsageError
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import emit, warn

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness
    from tillerman.pipelines.engine import Engine
    from tillerman.pipelines.run_state import Run, RunSpec

STOPPED = 4  # by a person: rejected or paused
LIMIT = 5
_LOOK = 0.1  # seconds between two looks at a run
_RETRY = 0.5  # seconds between two attempts to take over


def run(options: Namespace) -> int:
    return asyncio.run(_run(options))


def resume(options: Namespace) -> int:
    return asyncio.run(_resume(options))


def retry(options: Namespace) -> int:
    return asyncio.run(_again(options, {}))


def fork(options: Namespace) -> int:
    return asyncio.run(_again(options, inputs(options.input)))


def need_extra() -> None:
    if not find_spec("dbos"):
        from tillerman.harness.extras import install_command

        raise UsageError("pipelines need more packages", hint=install_command("pipelines"))


def inputs(words: Sequence[str]) -> dict[str, str]:
    """Parses `NAME=VALUE`, and `NAME=@FILE`."""
    given = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--input {word!r} has no value", hint="--input NAME=VALUE")
        if value.startswith("@"):
            try:
                value = Path(value[1:]).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"--input {name}: {value[1:]} cannot be read: {error}",
                    hint=f"--input {name}=@FILE takes a text file in UTF-8",
                ) from None
        given[name] = value
    return given


async def _run(options: Namespace) -> int:
    need_extra()
    from tillerman.config import load
    from tillerman.pipelines.library import Library
    from tillerman.pipelines.run_git import notes_on
    from tillerman.pipelines.run_request import new_id, new_run

    cwd = Path.cwd()
    pipeline = Library(load(cwd), cwd).load(options.pipeline)
    spec = new_run(pipeline, inputs(options.input), cwd)
    if spec.repository and pipeline.workspace == "worktree":
        for note in notes_on(Path(spec.repository)):
            warn(f"each step works in a worktree: {note}")
    return await _started(options, new_id(pipeline.name), spec)


async def _again(options: Namespace, given: dict[str, str]) -> int:
    need_extra()
    from tillerman.pipelines.run_request import again, new_id
    from tillerman.surfaces.cli.commands.pipeline import controlled

    async with controlled() as engine:
        found = engine.look(options.run)
        spec = engine.store.spec(found.id)
        results = engine.store.results(found.id)
        made = again(found.id, spec, results, step=options.step, given=given)
        if found.status not in ("completed", "failed", "rejected", "killed"):
            raise UsageError(
                f"{found.id} is {found.status}", hint=f"`tillerman pipeline kill {found.id}`"
            )
    return await _started(options, new_id(spec.pipeline.name), made)


async def _started(options: Namespace, run: str, spec: RunSpec) -> int:
    async with _owner(options, Path(spec.folder)) as engine:
        if not options.json:
            emit(f"run {run}")
        await engine.start(run, spec)
        return await _watched(engine, run, options)


async def _resume(options: Namespace) -> int:
    need_extra()
    from tillerman.pipelines.run_state import ENDED
    from tillerman.surfaces.cli.commands.pipeline import controlled

    async with controlled() as engine:
        found = engine.look(options.run)
        folder = Path(engine.store.spec(found.id).folder)
    if found.status in ENDED:
        raise UsageError(
            f"{found.id} is {found.status}", hint=f"`tillerman pipeline retry {found.id}`"
        )
    async with _owner(options, folder) as engine:
        if not await engine.adopt(found.id):
            if found.status == "paused":
                await engine.control(found.id, "running")
            elif not options.json:
                emit(f"{found.id} is run by another process: this one follows it")
        return await _watched(engine, found.id, options)


@asynccontextmanager
async def _owner(options: Namespace, folder: Path) -> AsyncIterator[Engine]:
    from tillerman.pipelines.engine import Engine
    from tillerman.pipelines.engine_database import explained

    harness: Harness
    with explained():
        async with open_harness.harness(options, folder) as harness:
            engine = Engine(harness.paths)
            try:
                await engine.open(harness)
                yield engine
            finally:
                await engine.close()


async def _watched(engine: Engine, run: str, options: Namespace) -> int:
    """Shows the run until it ends; takes it over if the process that runs it dies."""
    from tillerman.surfaces.cli.views.gate_prompt import GatePrompt
    from tillerman.surfaces.cli.views.run_view import TableView, run_view

    work = asyncio.ensure_future(_to_the_end(engine, run))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, work.cancel)
    view = run_view(engine.store, run, options)
    prompt = GatePrompt(engine, run, view) if isinstance(view, TableView) else None
    try:
        while not work.done():
            view.update()
            if prompt:
                await prompt.look()
            await asyncio.wait([work], timeout=_LOOK)
        ended = await work
    except asyncio.CancelledError:
        with suppress(Exception):
            if prompt:
                prompt.close()
            view.close()
        warn(f"{run} was interrupted", f"`tillerman pipeline resume {run}` goes on with it")
        return CANCELLED
    if prompt:
        prompt.close()
    view.close()
    return _exit_code(engine, ended, options)


async def _to_the_end(engine: Engine, run: str) -> Run:
    from tillerman.pipelines.run_state import ENDED

    while True:
        if await engine.adopt(run):
            return await engine.wait(run)
        found = engine.look(run)
        if found.status in ENDED:
            return found
        await asyncio.sleep(_RETRY)


def _exit_code(engine: Engine, run: Run, options: Namespace) -> int:
    results = engine.store.results(run.id)
    if not options.json:
        text = f"{run.id} {run.status}"
        emit(f"{text}: {run.error}" if run.error else text)
        if run.status == "completed" and run.commit and not engine.store.spec(run.id).pipeline.git:
            emit(f"its files: git merge tillerman/{run.id}/RESULT")
    match run.status:
        case "completed":
            return 0
        case "killed":
            return CANCELLED
        case "rejected" | "paused":
            return STOPPED
        case _:
            return LIMIT if any(one.limit for one in results.values()) else 1
