"""The log file of `--debug`: what the program itself does, for a person who looks for a fault."""

from __future__ import annotations

import logging
import os
import sys
import time


def start() -> None:
    from bridle.config.paths import find_paths

    folder = find_paths().logs
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    path.chmod(0o600)
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    logging.getLogger("bridle").debug("bridle %s", " ".join(sys.argv[1:2]))
    sys.stderr.write(f"log: {path}\n")
