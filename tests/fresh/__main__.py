"""`make test-fresh`: the README's two commands on a fresh minimal Debian, as an ordinary user."""

from __future__ import annotations

import argparse
import difflib
import sys
import time

from tests.fresh.machine import FreshMachine
from tests.fresh.minimal_root import CannotBuild, MinimalRoot, cannot_build
from tests.fresh.package_index import PackageIndex

COMMANDS = ("demo", "test")
WITHIN = 1800.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="test-fresh", description=__doc__)
    parser.add_argument("--suite", default="bookworm", help="the release of Debian")
    parser.add_argument("--user", default="newcomer", help="root, or any name")
    options = parser.parse_args()
    try:
        if missing := cannot_build():
            raise CannotBuild(missing)
        built = MinimalRoot(options.suite).build()
    except CannotBuild as reason:
        print(f"test-fresh: skipped: {reason}")
        return 0
    with FreshMachine.start(built, options.user, PackageIndex.of_this_machine()) as machine:
        return run(machine)


def run(machine: FreshMachine) -> int:
    before = machine.packages()
    for target in COMMANDS:
        started = time.monotonic()
        code = machine.run("make", target, within=WITHIN)
        took = time.monotonic() - started
        print(f"test-fresh: make {target} as {machine.user}: exit {code}, {took:.0f} s", flush=True)
        if code:
            return code
    if changed := list(difflib.unified_diff(before, machine.packages(), lineterm="")):
        print("test-fresh: the system's packages have changed:", *changed, sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
