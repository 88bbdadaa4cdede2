"""Debug log file of `--debug`, with secrets redacted."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable


class _Discreet(logging.Formatter):
    """Redacts secrets from log records, including those quoted in exceptions."""

    def __init__(self, given: Iterable[str]) -> None:
        from tillerman.supervision.environment import asked_for, secrets_of
        from tillerman.supervision.secrets import Secrets

        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets = Secrets()
        for name, value in secrets_of({**os.environ, **asked_for(given)[1]}):
            self._secrets.register(name, value)

    def format(self, record: logging.LogRecord) -> str:
        return self._secrets.redact_text(super().format(record))


def start(given: Iterable[str] = ()) -> None:
    """Starts logging. `given` are the `--env` arguments, whose values may be secrets."""
    from tillerman.paths import find_paths, make_private

    folder = find_paths().logs
    make_private(folder)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(_Discreet(given))
    path.chmod(0o600)
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    logging.getLogger("tillerman").debug("tillerman %s", " ".join(sys.argv[1:2]))
    sys.stderr.write(f"log: {path}\n")
