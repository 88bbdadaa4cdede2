"""Every module imports all that it needs, whichever is loaded first."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import iter_modules

from tests.stand_ins.warm_python import LIBRARIES, OURS
from tillerman.surfaces import cli

# Each in a new process, where no module of ours is loaded yet.
FIRST = """
import os, sys
from importlib import import_module
libraries, modules = (words.split() for words in sys.argv[1:])
for name in libraries:
    import_module(name)
assert "tillerman" not in sys.modules
for name in modules:
    if not os.fork():
        import_module(name)
        sys.stdout.write(name + "\\n")
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


def test_each_module_of_the_command_line_can_be_imported_first() -> None:
    found = [f"tillerman.surfaces.cli.{module.name}" for module in iter_modules(cli.__path__)]
    modules = sorted({*found, *OURS})
    done = subprocess.run(
        [sys.executable, "-c", FIRST, " ".join(LIBRARIES), " ".join(modules)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == modules, done.stderr
