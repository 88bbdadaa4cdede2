"""Runs a range of generated lines and prints the findings as JSON: python -m
tests.core.permission.differential.

It is a separate process because it enters namespaces, in which the policy sees the same tree as the
shells.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.core.permission.differential import machine_folders, namespace, tree
from tests.core.permission.differential.executor import SHELLS, Executor, NoNamespaces
from tests.core.permission.differential.launchers import LAUNCHERS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--minimise", type=int, default=8, help="how many failures of a cause")
    parser.add_argument("--blind", action="store_true", help="as if the reader said nothing")
    parser.add_argument("--launcher", choices=[*LAUNCHERS], default="plain")
    parser.add_argument("--each", action="store_true", help="every construct by itself instead")
    parser.add_argument("--facts", type=Path, help="keep what shells do in this file, or take it")
    parser.add_argument("--record", action="store_true", help="run the lines, and judge none")
    parser.add_argument("--lines", type=Path, help="a JSON list of lines to run instead")
    given = parser.parse_args()
    launcher = LAUNCHERS[given.launcher]()
    executor = Executor(launcher)  # before anything large is imported: it forks for each line
    try:
        executor.run("bash", "true")
        namespace.enter_user_and_mounts()
        namespace.mount_tree(tree.BASE)
        tree.build()
    except (NoNamespaces, OSError) as error:
        print(json.dumps({"skipped": f"no private namespaces: {error}"}))
        return

    from tests.core.permission.differential import oracle
    from tests.core.permission.differential.generator import each_construct, line
    from tests.core.permission.differential.recorded_facts import RecordedFacts
    from tests.core.permission.differential.shard import Shard

    if given.each:
        lines = list(enumerate(each_construct()))
    elif given.lines:
        lines = list(enumerate(json.loads(given.lines.read_text())))
    else:
        seeds = range(given.start, given.start + given.count)
        lines = [(seed, line(seed)) for seed in seeds]
    machine_folders.hide([given.facts] if given.facts else [])
    recorded = RecordedFacts(executor, given.facts) if given.facts else None
    if recorded and given.record:
        for _, text in lines:
            for shell in SHELLS:
                recorded.run(shell, text)
        recorded.save()
        print(json.dumps({"recorded": len(lines)}))
        executor.close()
        return
    fixed = oracle.BLIND if given.blind else None
    if given.launcher != "plain":
        fixed = oracle.ENFORCED
    shard = Shard(recorded or executor, given.minimise, fixed, guards=launcher.guards)
    print(json.dumps(shard.run(lines, given.seconds)))
    if recorded:
        recorded.save()
    executor.close()


if __name__ == "__main__":
    main()
