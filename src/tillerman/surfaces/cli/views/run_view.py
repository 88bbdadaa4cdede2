"""Progress of a pipeline run: a table that is redrawn, lines for a pipe, or JSON."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tillerman.core.terminal_sanitizer import clean, json_safe
from tillerman.pipelines.run_state import Gate, LogLine, Run, RunSpec, StepRow, kind_of
from tillerman.surfaces.cli.views.output import emit, is_terminal, write

if TYPE_CHECKING:
    from tillerman.pipelines.run_store import RunStore

_SIGNS = {
    "running": "●",
    "waiting": "?",
    "completed": "✓",
    "failed": "✗",
    "rejected": "✗",
    "skipped": "-",
    "cancelled": "-",
    "interrupted": "!",
    "pending": "·",
}


class RunView(Protocol):
    def update(self) -> None: ...
    def close(self) -> None: ...


def run_view(store: RunStore, run: str, options: Namespace) -> RunView:
    if options.json:
        return _JsonView(store, run)
    if is_terminal(sys.stdout):
        return TableView(store, run)
    return _LineView(store, run)


def pending(spec: RunSpec, rows: list[StepRow]) -> list[str]:
    """Steps that have not started."""
    known = {row.path for row in rows}
    return [step.id for step in spec.pipeline.steps if step.id not in known]


def document(store: RunStore, run: Run) -> dict[str, Any]:
    """A run for programs."""
    rows, spec = store.steps(run.id), store.spec(run.id)
    waiting = [
        {"path": step.id, "kind": kind_of(step), "status": "pending"}
        for step in spec.pipeline.steps
        if step.id in pending(spec, rows)
    ]
    return {
        "run": run,
        "inputs": spec.inputs,
        "steps": [*rows, *waiting],
        "gates": store.gates(run.id),
    }


def step_line(row: StepRow) -> str:
    """One step for people."""
    took = (row.ended_at or time.time()) - row.started_at
    shown = f"{took:.1f} s" if took > 0 else ""  # one that was skipped or kept took none
    cost = f"${row.cost:.4f}" if row.cost else ""
    more = ": ".join(filter(None, (row.error, row.last_line if row.kind == "run" else "")))
    more = more or row.last_line
    who = row.agent or row.kind
    parts = [_SIGNS[row.status], row.path, row.status, who, shown, cost, more]
    return "  ".join(" ".join(clean(part).split()) for part in parts if part)


class _Changes:
    """What is new since the last look."""

    def __init__(self, store: RunStore, run: str) -> None:
        self._store = store
        self._run = run
        self._rows: dict[str, StepRow] = {}
        self._gates: set[str] = set()
        self._logged = 0

    def steps(self) -> list[StepRow]:
        rows = [row for row in self._store.steps(self._run) if self._rows.get(row.path) != row]
        self._rows |= {row.path: row for row in rows}
        return rows

    def gates(self) -> list[Gate]:
        found = self._store.gates(self._run, unanswered=True)
        new = [gate for gate in found if gate.path not in self._gates]
        self._gates |= {gate.path for gate in new}
        return new

    def log(self) -> list[LogLine]:
        lines = self._store.log_lines(self._run, self._logged)
        if lines:
            self._logged = lines[-1].number
        return lines


class _JsonView:
    def __init__(self, store: RunStore, run: str) -> None:
        self._changes = _Changes(store, run)
        self._store = store
        self._run = run
        self._last: Run | None = None

    def update(self) -> None:
        for line in self._changes.log():
            self._emit("log", line)
        for row in self._changes.steps():
            self._emit("step", row)
        for gate in self._changes.gates():
            self._emit("gate", gate)
        found = self._store.run(self._run)
        if found and (self._last is None or found.status != self._last.status):
            self._emit("run", found)
            self._last = found

    def close(self) -> None:
        self.update()

    def _emit(self, kind: str, value: Any) -> None:
        data = msgspec.json.encode({"type": kind, **msgspec.to_builtins(value)})
        write(sys.stdout, json_safe(data).decode() + "\n")


class _LineView:
    def __init__(self, store: RunStore, run: str) -> None:
        self._changes = _Changes(store, run)
        self._run = run
        self._shown: dict[str, str] = {}

    def update(self) -> None:
        for line in self._changes.log():
            emit(f"  {clean(line.path or self._run)}: {clean(line.text)}")
        for row in self._changes.steps():
            if self._shown.get(row.path) != row.status:
                self._shown[row.path] = row.status
                emit(step_line(row))
        for gate in self._changes.gates():
            emit(*gate_lines(self._run, gate))

    def close(self) -> None:
        self.update()


class TableView:
    def __init__(self, store: RunStore, run: str) -> None:
        self._store = store
        self._run = run
        self._spec = store.spec(run)
        self.resume()

    def resume(self) -> None:
        """Draws the table, below what is on the screen."""
        from rich.console import Console
        from rich.live import Live

        self._live: Live | None = Live(console=Console(), auto_refresh=False, transient=False)
        self._live.start()

    def pause(self) -> None:
        """Leaves the table as it is, so that lines can be written below it."""
        self.update()
        if self._live:
            self._live.stop()
        self._live = None

    def update(self) -> None:
        from rich.text import Text

        if self._live is None:
            return
        rows = self._store.steps(self._run)
        lines = [step_line(row) for row in rows]
        lines += [f"{_SIGNS['pending']}  {id}" for id in pending(self._spec, rows)]
        for gate in self._store.gates(self._run, unanswered=True):
            lines += gate_lines(self._run, gate)
        text = Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
        self._live.update(text, refresh=True)

    def close(self) -> None:
        self.pause()
        for line in self._store.log_lines(self._run):
            emit(f"  {clean(line.path or self._run)}: {clean(line.text)}")


def gate_lines(run: str, gate: Gate) -> list[str]:
    """What a person is asked, and how to answer."""
    lines = [f"waits for a person at {gate.path}: {clean(gate.message)}".rstrip(": ")]
    if gate.choices:
        lines.append(f"  attempts: {', '.join(gate.choices)}; answer with --choice")
    more = " --commit REVISION" if gate.path.endswith("MERGE") else ""
    return [
        *lines,
        f"  tillerman pipeline show {run} {gate.path}",
        f"  tillerman pipeline approve {run} {gate.path}" + more,
        f"  tillerman pipeline reject {run} {gate.path} --note WHY",
    ]
