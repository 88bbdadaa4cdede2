"""The temporary folder of one session: its agent may write there unasked, and it goes with it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def open_scratch(environment: Mapping[str, str], session: str) -> Path | None:
    """A folder that is the user's alone; None where none can be made."""
    path = Path(environment.get("TMPDIR") or "/tmp") / f"bridle-{session}"
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        found = path.lstat()
        private = stat.S_IMODE(found.st_mode) == 0o700 and found.st_uid == os.getuid()
        return path if stat.S_ISDIR(found.st_mode) and private else None
    except OSError:
        return None
    return path


def with_scratch(environment: Mapping[str, str], scratch: Path | None) -> Mapping[str, str]:
    return {**environment, "TMPDIR": str(scratch)} if scratch else environment


def remove_scratch(scratch: Path) -> None:
    import shutil  # not on the way to an agent's start

    shutil.rmtree(scratch, ignore_errors=True)
