"""Generates, reads and runs a range of lines, and prints what it found as JSON.

A process of its own: it enters namespaces, in which the policy sees the same tree as the shells.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from differential.executor import Executor
    from differential.oracle import Failure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--minimise", type=int, default=8, help="how many failures of a cause")
    parser.add_argument("--lines", type=Path, help="JSON list of lines to run instead")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent.parent))

    from differential.executor import Executor, NoNamespaces

    executor = Executor()  # before anything large is imported: it forks for each line
    try:
        executor.run("bash", "true")
        _see_the_same_tree()
    except (NoNamespaces, OSError) as error:
        print(json.dumps({"skipped": str(error)}))
        return
    if given.lines:
        lines = list(enumerate(json.loads(given.lines.read_text())))
    else:
        from differential.generator import line

        lines = [(seed, line(seed)) for seed in range(given.start, given.start + given.count)]
    print(json.dumps(Shard(executor, given.minimise).run(lines, given.seconds)))
    executor.close()


def _see_the_same_tree() -> None:
    from differential import namespace, tree

    namespace.enter_user_and_mounts()
    namespace.mount_tree(tree.BASE)
    tree.build()


class Shard:
    def __init__(self, executor: Executor, minimised: int) -> None:
        self._minimised = minimised
        self._executor = executor
        self._found: list[dict[str, Any]] = []
        self._causes: Counter[tuple[str, str]] = Counter()
        self._counts: Counter[str] = Counter()

    def run(self, lines: list[tuple[int, str]], seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        done = -1
        for seed, line in lines:
            if time.monotonic() > deadline:
                break
            self._one(seed, line)
            done = seed
        return {"last": done, "counts": dict(self._counts), "failures": self._found}

    def _one(self, seed: int, line: str) -> None:
        from differential.executor import SHELLS
        from differential.oracle import failures, judge

        begin = time.perf_counter()
        judged = judge(line)
        self._counts["milliseconds of reading"] += round(1e3 * (time.perf_counter() - begin))
        self._counts["lines"] += 1
        self._counts["unread"] += bool(judged.reading.unread)
        self._counts["doubted"] += bool(judged.reading.doubts)
        acted = False
        for shell in SHELLS:
            facts = self._executor.run(shell, line)
            acted = acted or bool(facts.execs or facts.changed or facts.read)
            self._counts["timed out"] += facts.timed_out
            self._counts["programs"] += len(facts.execs)
            self._counts["changed paths"] += len(facts.changed)
            found = failures(line, shell, facts, judged)
            if found:
                self._report(seed, shell, found)
        self._counts["lines that did something"] += acted

    def _report(self, seed: int, shell: str, found: list[Failure]) -> None:
        from differential.minimise import minimal

        self._counts["failing runs"] += 1
        main = found[0]
        self._causes[main.cause] += 1
        smallest = main.line
        if self._causes[main.cause] <= self._minimised:
            smallest = minimal(main.line, lambda text: self._fails(text, shell, main.cause))
        self._found.append({
            "seed": seed,
            "shell": shell,
            "causes": [one.cause for one in found],
            "minimal": smallest,
            "line": main.line,
        })

    def _fails(self, line: str, shell: str, cause: tuple[str, str]) -> bool:
        from differential.oracle import failures, judge

        facts = self._executor.run(shell, line)
        return any(one.cause == cause for one in failures(line, shell, facts, judge(line)))


if __name__ == "__main__":
    main()
