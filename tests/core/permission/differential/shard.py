"""Reads and runs lines, and collects the differences."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from tests.core.permission.differential import oracle
from tests.core.permission.differential.executor import SHELLS, Executor
from tests.core.permission.differential.facts import Facts
from tests.core.permission.differential.minimise import minimal
from tests.core.permission.differential.oracle import Failure, failures
from tests.core.permission.differential.recorded_facts import RecordedFacts
from tests.core.permission.differential.syntax_tree import unexplained

_AHEAD = 16  # lines that run while others are read


class Shard:
    """`fixed`: used as the report of every line instead of the reader's. `guards`: the final state
    of protected names and denied paths is checked."""

    def __init__(
        self,
        executor: Executor | RecordedFacts,
        minimised: int,
        fixed: oracle.Judgement | None = None,
        *,
        guards: bool = False,
    ) -> None:
        self._judge = (lambda _: fixed) if fixed else oracle.judge
        self._parses = fixed is None
        self._guards = guards
        self._minimised = minimised
        self._executor = executor
        self._found: list[dict[str, Any]] = []
        self._causes: Counter[tuple[str, str]] = Counter()
        self._counts: Counter[str] = Counter()

    def run(self, lines: Iterable[tuple[int, str]], seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        done = -1
        waiting, following = iter(lines), deque[tuple[int, str]]()
        while time.monotonic() < deadline:
            if len(following) <= _AHEAD // 2:
                asked = list(islice(waiting, _AHEAD))
                self._executor.ask((shell, line) for _, line in asked for shell in SHELLS)
                following += asked
            if not following:
                break
            seed, line = following.popleft()
            self._one(seed, line)
            done = seed
        return {"last": done, "counts": dict(self._counts), "failures": self._found}

    def _one(self, seed: int, line: str) -> None:
        begin = time.perf_counter()
        decided = self._judge(line)
        self._counts["milliseconds of reading"] += round(1e3 * (time.perf_counter() - begin))
        self._counts["lines"] += 1
        self._counts["unread"] += bool(decided.reading.unread)
        self._counts["doubted"] += bool(decided.reading.doubts)
        acted = False
        for shell in SHELLS:
            facts = self._executor.run(shell, line)
            acted = acted or bool(facts.execs or facts.changed or facts.read)
            self._counts["timed out"] += facts.timed_out
            self._counts["programs"] += len(facts.execs)
            self._counts["changed paths"] += len(facts.changed)
            found = self._compared(line, shell, facts, decided)
            if found:
                self._report(seed, found, partial(self._failures, shell))
        self._counts["lines that did something"] += acted
        if self._parses and (seen := _seen_elsewhere(line, decided)):
            self._report(seed, seen, lambda text: _seen_elsewhere(text, self._judge(text)))

    def _failures(self, shell: str, line: str) -> list[Failure]:
        return self._compared(line, shell, self._executor.run(shell, line), self._judge(line))

    def _compared(
        self, line: str, shell: str, facts: Facts, decided: oracle.Judgement
    ) -> list[Failure]:
        if self._guards:
            return oracle.kept(line, shell, facts)
        return failures(line, shell, facts, decided)

    def _report(
        self, seed: int, found: list[Failure], again: Callable[[str], list[Failure]]
    ) -> None:
        self._counts["failing runs"] += 1
        main = found[0]
        self._causes[main.cause] += 1
        smallest = main.line
        if self._causes[main.cause] <= self._minimised:
            smallest = minimal(
                main.line, lambda text: any(one.cause == main.cause for one in again(text))
            )
        self._found.append(
            {
                "seed": seed,
                "shell": main.shell,
                "causes": [one.cause for one in found],
                "evidence": main.evidence,
                "minimal": smallest,
                "line": main.line,
            }
        )


def _seen_elsewhere(line: str, decided: oracle.Judgement) -> list[Failure]:
    names = unexplained(line, decided.reading)
    return [Failure("only tree-sitter sees it", name, "tree-sitter", line) for name in names]
