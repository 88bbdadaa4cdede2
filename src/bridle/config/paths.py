"""Where bridle keeps things: the user's config, its state, its sockets."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOCKET_PATH_LIMIT = 107  # bytes that the kernel takes in an address


@dataclass(frozen=True)
class Paths:
    config: Path
    state: Path
    cache: Path
    runtime: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Paths:
        """XDG's folders; `BRIDLE_HOME` puts everything into one."""
        if home := environment.get("BRIDLE_HOME"):
            base = Path(home).absolute()
            return cls(base / "config", base / "state", base / "cache", base / "run")
        user = Path(environment.get("HOME") or Path.home())
        state = _folder(environment, "XDG_STATE_HOME", user / ".local/state")
        runtime = environment.get("XDG_RUNTIME_DIR")
        return cls(
            config=_folder(environment, "XDG_CONFIG_HOME", user / ".config"),
            state=state,
            cache=_folder(environment, "XDG_CACHE_HOME", user / ".cache"),
            runtime=Path(runtime) / "bridle" if runtime else state / "run",
        )

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def store(self) -> Path:
        return self.state / "store.db"

    @property
    def leases(self) -> Path:
        return self.state / "leases"

    @property
    def spill(self) -> Path:
        return self.state / "spill"

    @property
    def spawns(self) -> Path:
        return self.state / "spawns"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    def socket(self, session: str) -> Path:
        path = self.runtime / f"{session}.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
            return path
        short = hashlib.sha256(os.fsencode(self.runtime)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"bridle-{os.getuid()}-{short}" / f"{session}.sock"


def _folder(environment: Mapping[str, str], name: str, default: Path) -> Path:
    given = environment.get(name, "")
    return (Path(given) if given.startswith("/") else default) / "bridle"
