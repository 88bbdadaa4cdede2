"""Installs a stand-in as a separate executable where a program is looked up."""

from __future__ import annotations

import sys
from pathlib import Path

from tests import CHECKOUT

# it is run where the agent works, which is no place to import from
START = (
    f"import sys; sys.path[0] = {str(CHECKOUT)!r};"
    " from tests.stand_ins.cursor_agent import main; sys.exit(main(sys.argv[1:]))"
)
VERSION = "2026.09.28-a1b2c3d"


def install_cursor(
    folder: Path, home: Path, *, signed_in: bool = True, version: str = VERSION, acts_as: str = ""
) -> Path:
    """`cursor-agent` in a folder for PATH, with a signed-in account in the home.

    Like the real installer: a link to a folder named by the version. It may behave like another
    version than its folder's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = home / ".local" / "share" / "cursor-agent" / "versions" / version / "cursor-agent"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        f"#!/bin/sh\nexport CURSOR_STAND_IN_VERSION={acts_as or version}\n"
        f'exec "{sys.executable}" -S -c "{START}" "$@"\n'
    )
    program.chmod(0o755)
    (folder / "cursor-agent").unlink(missing_ok=True)
    (folder / "cursor-agent").symlink_to(program)
    if signed_in:
        login = home / ".config" / "cursor" / "auth.json"
        login.parent.mkdir(parents=True, exist_ok=True)
        login.write_text("{}")
    return folder / "cursor-agent"
