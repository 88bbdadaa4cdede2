"""Stores runs, their steps, gates, log and worktree slots; a step's result marks it as finished.

The engine stores how far a workflow is. The result of a step is stored here first, then the engine
continues.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tillerman.pipelines.engine_database import SCHEMA
from tillerman.pipelines.run_state import (
    ENDED,
    Answer,
    Gate,
    LogLine,
    Run,
    RunSpec,
    RunStatus,
    StepResult,
    StepRow,
    StepStatus,
)

T = TypeVar("T")
_SLOT_SPACE = 0x7112  # of advisory locks; that of leases is another
LONGEST_LINE = 500  # characters of a last line and of a log line

_META = sa.MetaData()
_RUNS = sa.Table(
    "runs",
    _META,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("pipeline", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("folder", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("error", sa.Text, nullable=False, default=""),
    sa.Column("commit", sa.Text, nullable=False, default=""),
    sa.Column("forked_from", sa.Text, nullable=False, default=""),
    sa.Column("queue", sa.Text, nullable=False, default=""),  # of the process that runs it
)
_STEPS = sa.Table(
    "steps",
    _META,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("path", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("attempt", sa.Integer, nullable=False, default=1),
    sa.Column("agent", sa.Text, nullable=False, default=""),
    sa.Column("session", sa.Text, nullable=False, default=""),
    sa.Column("cost", sa.Double),
    sa.Column("last_line", sa.Text, nullable=False, default=""),
    sa.Column("commit", sa.Text, nullable=False, default=""),
    sa.Column("error", sa.Text, nullable=False, default=""),
    sa.Column("result", sa.Text),  # the marker: this step is finished
)
_GATES = sa.Table(
    "gates",
    _META,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("path", sa.Text, primary_key=True),
    sa.Column("message", sa.Text, nullable=False, default=""),
    sa.Column("account", sa.Text, nullable=False, default=""),
    sa.Column("commit", sa.Text, nullable=False, default=""),
    sa.Column("base", sa.Text, nullable=False, default=""),
    sa.Column("choices", sa.Text, nullable=False, default="[]"),
    sa.Column("opened_at", sa.Double, nullable=False),
    sa.Column("answer", sa.Text),
)
_LOG = sa.Table(
    "log",
    _META,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("run", sa.Text, nullable=False, index=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)
_SLOTS = sa.Table(
    "slots",  # worktrees of a run, and the step that works in each
    _META,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("step", sa.Text, nullable=False, default=""),
    sa.Column("last_step", sa.Text, nullable=False, default=""),
)
_OF_RUN = (_STEPS, _GATES, _LOG, _SLOTS)


class RunStore:
    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._insert: Any = (
            postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert
        )

    def create_tables(self) -> None:
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
            _META.create_all(connection)

    def close(self) -> None:
        self._engine.dispose()

    # -- runs ------------------------------------------------------------------------------------

    def add_run(self, run: str, spec: RunSpec) -> bool:
        """Adds a run; False if there is one with this id."""
        values = {
            "id": run,
            "pipeline": spec.pipeline.name,
            "status": "running",
            "folder": spec.folder,
            "spec": _json(spec),
            "started_at": time.time(),
            "forked_from": spec.forked_from,
            **dict.fromkeys(("error", "commit", "queue"), ""),
        }
        with self._engine.begin() as connection:
            done = connection.execute(self._insert(_RUNS).values(values).on_conflict_do_nothing())
        return bool(done.rowcount)

    def set_run(
        self, run: str, status: RunStatus, *, error: str = "", commit: str = "", force: bool = False
    ) -> bool:
        """Sets the status. A run that has ended keeps its status, unless forced."""
        ended = time.time() if status in ENDED else None
        change = (
            sa.update(_RUNS)
            .where(_RUNS.c.id == run)
            .values(status=status, ended_at=ended, error=error, commit=commit)
        )
        if not force:
            change = change.where(_RUNS.c.status.not_in(ENDED))
        with self._engine.begin() as connection:
            return bool(connection.execute(change).rowcount)

    def set_queue(self, run: str, queue: str) -> None:
        self._change(_RUNS, _RUNS.c.id == run, queue=queue)

    def queue(self, run: str) -> str:
        """Returns the engine queue of the process that runs it."""
        row = self._one(sa.select(_RUNS.c.queue).where(_RUNS.c.id == run))
        return str(row.queue) if row else ""

    def run(self, run: str) -> Run | None:
        found = self.runs(id=run)
        return found[0] if found else None

    def runs(self, *, id: str = "", prefix: str = "", limit: int = 100) -> list[Run]:
        """Returns runs, the newest first."""
        cost = (
            sa.select(sa.func.sum(_STEPS.c.cost))
            .where(_STEPS.c.run == _RUNS.c.id)
            .scalar_subquery()
            .label("cost")
        )
        words = sa.select(_RUNS, cost).order_by(_RUNS.c.started_at.desc(), _RUNS.c.id).limit(limit)
        if id:
            words = words.where(_RUNS.c.id == id)
        if prefix:
            words = words.where(_RUNS.c.id.startswith(prefix, autoescape=True))
        return [_as(Run, row) for row in self._all(words)]

    def spec(self, run: str) -> RunSpec:
        row = self._one(sa.select(_RUNS.c.spec).where(_RUNS.c.id == run))
        if row is None:
            raise KeyError(run)
        return msgspec.json.decode(row.spec, type=RunSpec)

    def forget(self, run: str) -> None:
        with self._engine.begin() as connection:
            for table in _OF_RUN:
                connection.execute(sa.delete(table).where(table.c.run == run))
            connection.execute(sa.delete(_RUNS).where(_RUNS.c.id == run))

    # -- steps -----------------------------------------------------------------------------------

    def begin_step(self, run: str, path: str, kind: str) -> StepRow:
        """Records that a step starts. Returns its row; `attempt` counts the starts."""
        values = {
            "run": run,
            "path": path,
            "kind": kind,
            "status": "running",
            "started_at": time.time(),
            "attempt": 1,
            **dict.fromkeys(("agent", "session", "last_line", "commit", "error"), ""),
        }
        again = {"status": "running", "attempt": _STEPS.c.attempt + 1, "ended_at": None}
        words = self._insert(_STEPS).values(values)
        words = words.on_conflict_do_update(index_elements=["run", "path"], set_=again)
        with self._engine.begin() as connection:
            connection.execute(words)
            where = (_STEPS.c.run == run) & (_STEPS.c.path == path)
            row = connection.execute(sa.select(_STEPS).where(where)).one()
        return _as(StepRow, row)

    def change_step(self, run: str, path: str, **values: Any) -> None:
        if "last_line" in values:
            values["last_line"] = values["last_line"][:LONGEST_LINE]
        self._change(_STEPS, (_STEPS.c.run == run) & (_STEPS.c.path == path), **values)

    def end_step(
        self, run: str, path: str, status: StepStatus, result: StepResult, line: str = ""
    ) -> None:
        """Records the result, which marks the step as finished."""
        values: dict[str, Any] = {
            "status": status,
            "ended_at": time.time(),
            "result": _json(result),
            "commit": result.commit,
            "error": result.error[:LONGEST_LINE],
        }
        if line:
            values["last_line"] = line[:LONGEST_LINE]
        if result.agent:
            values["agent"] = result.agent
        if result.session:
            values["session"] = result.session
        if result.cost is not None:
            values["cost"] = result.cost
        self._change(_STEPS, (_STEPS.c.run == run) & (_STEPS.c.path == path), **values)

    def result(self, run: str, path: str) -> StepResult | None:
        """Returns the result of a finished step."""
        where = (_STEPS.c.run == run) & (_STEPS.c.path == path)
        row = self._one(sa.select(_STEPS.c.result).where(where))
        if row is None or row.result is None:
            return None
        return msgspec.json.decode(row.result, type=StepResult)

    def results(self, run: str) -> dict[str, StepResult]:
        """Returns the results of all finished steps, by path."""
        words = sa.select(_STEPS.c.path, _STEPS.c.result)
        words = words.where((_STEPS.c.run == run) & _STEPS.c.result.is_not(None))
        rows = self._all(words)
        return {row.path: msgspec.json.decode(row.result, type=StepResult) for row in rows}

    def steps(self, run: str) -> list[StepRow]:
        words = sa.select(_STEPS).where(_STEPS.c.run == run)
        words = words.order_by(_STEPS.c.started_at, _STEPS.c.path)
        return [_as(StepRow, row) for row in self._all(words)]

    def begin_group(self, run: str, path: str, kind: str) -> None:
        """Shows that a group of steps has started. Doing it again changes nothing."""
        self._add_step(run, path, kind, "running")

    def end_group(self, run: str, path: str, result: StepResult) -> None:
        status = "completed" if result.ok else "rejected" if result.rejected else "failed"
        values = {
            "status": status,
            "commit": result.commit,
            "error": result.error[:LONGEST_LINE],
            "result": _json(result),
        }
        where = (_STEPS.c.run == run) & (_STEPS.c.path == path) & _STEPS.c.ended_at.is_(None)
        self._change(_STEPS, where, ended_at=time.time(), **values)

    def skip_step(self, run: str, path: str, kind: str, status: StepStatus, error: str) -> None:
        """Shows a step that is not run. Doing it again changes nothing."""
        self._add_step(run, path, kind, status, error=error, ended_at=time.time())

    def seed_step(self, run: str, path: str, kind: str, result: StepResult) -> None:
        """Shows a step whose result comes from another run."""
        values = {"agent": result.agent, "session": result.session, "commit": result.commit}
        line = "kept from the earlier run"
        self._add_step(
            run, path, kind, "completed", ended_at=time.time(), last_line=line,
            result=_json(result), **values,
        )  # fmt: skip

    def _add_step(self, run: str, path: str, kind: str, status: str, **values: Any) -> None:
        row = {
            "run": run,
            "path": path,
            "kind": kind,
            "status": status,
            "started_at": time.time(),
            "attempt": 1,
            **dict.fromkeys(("agent", "session", "last_line", "commit", "error"), ""),
            **values,
        }
        with self._engine.begin() as connection:
            connection.execute(self._insert(_STEPS).values(row).on_conflict_do_nothing())

    def stop_steps(self, run: str, status: StepStatus) -> None:
        """Sets the status of all steps that were running or waiting."""
        live = (_STEPS.c.run == run) & _STEPS.c.status.in_(("running", "waiting"))
        self._change(_STEPS, live, status=status, ended_at=time.time())

    # -- gates -----------------------------------------------------------------------------------

    def open_gate(self, gate: Gate) -> None:
        values = msgspec.to_builtins(gate) | {"choices": _json(gate.choices)}
        values = {column.name: values.get(column.name) for column in _GATES.columns}
        values["opened_at"] = time.time()
        for name in ("message", "account", "commit", "base"):
            values[name] = values[name] or ""
        with self._engine.begin() as connection:
            connection.execute(self._insert(_GATES).values(values).on_conflict_do_nothing())

    def wait_at(self, run: str, path: str) -> None:
        """Shows that the run waits for a person."""
        self._add_step(run, path, "review", "waiting")
        where = (_RUNS.c.id == run) & (_RUNS.c.status == "running")
        self._change(_RUNS, where, status="waiting")

    def leave_gate(self, run: str, path: str, result: StepResult) -> None:
        status: StepStatus = "completed" if result.ok else "rejected"
        self.end_step(run, path, status, result)
        if not self.gates(run, unanswered=True):
            where = (_RUNS.c.id == run) & (_RUNS.c.status == "waiting")
            self._change(_RUNS, where, status="running")

    def answer_gate(self, run: str, path: str, answer: Answer) -> bool:
        """Records the first answer; False if there is one already."""
        where = (_GATES.c.run == run) & (_GATES.c.path == path) & _GATES.c.answer.is_(None)
        return self._change(_GATES, where, answer=_json(answer))

    def gates(self, run: str = "", *, unanswered: bool = False) -> list[Gate]:
        words = sa.select(_GATES).order_by(_GATES.c.opened_at)
        if run:
            words = words.where(_GATES.c.run == run)
        if unanswered:
            words = words.where(_GATES.c.answer.is_(None))
        return [_gate(row) for row in self._all(words)]

    def gate(self, run: str, path: str) -> Gate | None:
        return next((gate for gate in self.gates(run) if gate.path == path), None)

    # -- log -------------------------------------------------------------------------------------

    def log(self, run: str, path: str, text: str) -> None:
        values = {"run": run, "at": time.time(), "path": path, "text": text[:LONGEST_LINE]}
        with self._engine.begin() as connection:
            connection.execute(sa.insert(_LOG).values(values))

    def log_lines(self, run: str, since: int = 0) -> list[LogLine]:
        words = sa.select(_LOG).where((_LOG.c.run == run) & (_LOG.c.number > since))
        return [_as(LogLine, row) for row in self._all(words.order_by(_LOG.c.number))]

    # -- worktrees -------------------------------------------------------------------------------

    def take_slot(self, run: str, step: str, after: Sequence[str]) -> tuple[str, bool]:
        """Returns a worktree for a step, and whether it is that of the step's earlier attempt.

        A step gets its own again, else that of a step before it, else another free one, else a new
        one.
        """
        with self._engine.begin() as connection:
            self._lock(connection, run)
            rows = connection.execute(sa.select(_SLOTS).where(_SLOTS.c.run == run)).all()
            own = next((row.name for row in rows if row.step == step), None)
            if own is not None:
                return own, True
            free = [row for row in rows if not row.step]
            near = [row for row in free if row.last_step in after]
            name = (near or free)[0].name if free else f"w{len(rows)}"
            values = {"run": run, "name": name, "step": step, "last_step": step}
            words = self._insert(_SLOTS).values(values)
            words = words.on_conflict_do_update(
                index_elements=["run", "name"], set_={"step": step, "last_step": step}
            )
            connection.execute(words)
        return name, False

    def free_slot(self, run: str, step: str) -> None:
        self._change(_SLOTS, (_SLOTS.c.run == run) & (_SLOTS.c.step == step), step="")

    def slot_of(self, run: str, step: str) -> str:
        """Returns the worktree that a step has; empty: none."""
        where = (_SLOTS.c.run == run) & (_SLOTS.c.step == step)
        row = self._one(sa.select(_SLOTS.c.name).where(where))
        return str(row.name) if row else ""

    def slots(self, run: str) -> list[str]:
        return [row.name for row in self._all(sa.select(_SLOTS).where(_SLOTS.c.run == run))]

    def drop_slots(self, run: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_SLOTS).where(_SLOTS.c.run == run))

    # --------------------------------------------------------------------------------------------

    def _lock(self, connection: sa.Connection, run: str) -> None:
        """Until the transaction ends, no other decides on the worktrees of this run.

        SQLite would begin the transaction only at the first change, after what was read.
        """
        if self._engine.dialect.name == "postgresql":
            words = "SELECT pg_advisory_xact_lock(:space, hashtext(:run))"
            connection.execute(sa.text(words), {"space": _SLOT_SPACE, "run": run})
        else:
            connection.execute(sa.text("BEGIN IMMEDIATE"))

    def _change(self, table: sa.Table, where: sa.ColumnElement[bool], **values: Any) -> bool:
        with self._engine.begin() as connection:
            done = connection.execute(sa.update(table).where(where).values(**values))
        return bool(done.rowcount)

    def _one(self, words: sa.Select[Any]) -> Any:
        with self._engine.connect() as connection:
            return connection.execute(words).first()

    def _all(self, words: sa.Select[Any]) -> Sequence[Any]:
        with self._engine.connect() as connection:
            return connection.execute(words).all()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _as(kind: type[T], row: Any) -> T:
    return msgspec.convert(_values(row), kind)


def _gate(row: Any) -> Gate:
    values = _values(row)
    values["choices"] = msgspec.json.decode(values["choices"])
    values["answer"] = msgspec.json.decode(values["answer"]) if values["answer"] else None
    return msgspec.convert(values, Gate)


def _values(row: Any) -> dict[str, Any]:
    return {str(name): value for name, value in row._mapping.items()}
