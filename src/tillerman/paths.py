"""Locations of tillerman's files: the XDG folders, or one folder set by TILLERMAN_HOME."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tillerman.core.errors import ConfigError

LONGEST_SOCKET = 107  # maximum bytes of a path in sockaddr_un, without the terminating NUL


class Paths(NamedTuple):
    """The base folders of tillerman, and the paths inside them."""

    config: Path  # folder of the user's config.toml
    state: Path
    cache: Path
    sockets: Path

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def store(self) -> Path:
        return self.state / "store.db"

    @property
    def spill(self) -> Path:
        return self.state / "spill"

    @property
    def leases(self) -> Path:
        return self.state / "leases"

    @property
    def spawns(self) -> Path:
        return self.state / "spawns"

    @property
    def processes(self) -> Path:
        """Output files of workspace processes: one folder per process, inside one per session."""
        return self.state / "processes"

    @property
    def quarantine(self) -> Path:
        """Quarantined changes to protected names, one folder per session."""
        return self.state / "protected" / "undone"

    @property
    def accepted(self) -> Path:
        """Accepted states of protected names."""
        return self.state / "protected" / "accepted"

    @property
    def exports(self) -> Path:
        """Files exported from workspaces, one folder per session."""
        return self.state / "exports"

    @property
    def file_locks(self) -> Path:
        """Lock files, held while a file of a workspace is replaced."""
        return self.state / "file_locks"

    @property
    def worktrees(self) -> Path:
        return self.state / "worktrees"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def hooks(self) -> Path:
        """Backups of files as they were before hooks were installed in them."""
        return self.state / "hooks"

    @property
    def cloud(self) -> Path:
        """What is known of cloud agents: webhooks that were received."""
        return self.state / "cloud"

    @property
    def trust(self) -> Path:
        return self.state / "trust"

    @property
    def remembered(self) -> Path:
        return self.state / "remembered"

    @property
    def watchers(self) -> Path:
        return self.state / "watchers"

    def cloud_wake(self, agent_id: str) -> Path:
        """A file that is touched when a webhook reports a change of this cloud agent."""
        from hashlib import sha256

        return self.cloud / f"{sha256(agent_id.encode()).hexdigest()[:32]}.wake"

    def socket(self, name: str) -> Path:
        """Returns a path that a socket can be bound to, and creates its folder for the user alone.

        The path is the same for all processes of the user. A path that is too long for a socket is
        replaced by a short hashed one in /tmp.
        """
        path = self.sockets / f"{name}.sock"
        if len(os.fsencode(path)) > LONGEST_SOCKET:
            from hashlib import sha256

            folder = Path("/tmp") / f"tillerman-{os.getuid()}"
            path = folder / f"{sha256(os.fsencode(path)).hexdigest()[:24]}.sock"
        private_folder(path.parent)
        return path


def find_paths(environment: Mapping[str, str] = os.environ) -> Paths:
    if (user := environment.get("HOME")) and not user.startswith("/"):
        # a relative HOME would give each working directory its own store and rules
        raise ConfigError(
            f"HOME is not an absolute path: {user}",
            hint="set HOME to the absolute path of your home folder",
        )
    if home := environment.get("TILLERMAN_HOME"):
        root = Path(home).expanduser().absolute()
        return Paths(root, root / "state", root / "cache", root / "sockets")
    state = _xdg(environment, "XDG_STATE_HOME", ".local/state")
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    return Paths(
        config=_xdg(environment, "XDG_CONFIG_HOME", ".config"),
        state=state,
        cache=_xdg(environment, "XDG_CACHE_HOME", ".cache"),
        sockets=Path(runtime) / "tillerman" if _is_private(runtime) else state / "sockets",
    )


def make_private(path: Path) -> None:
    """Creates the folder and its missing parents, all of them for the user alone."""
    for parent in reversed(path.parents):
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def private_folder(path: Path) -> Path:
    """Creates the folder with mode 0700; refuses a folder that belongs to another user."""
    make_private(path.parent)
    try:
        path.mkdir(mode=0o700)
        return path
    except FileExistsError:
        found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(
            f"{path} is not a folder that you own", hint="move it away, or set TILLERMAN_HOME"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def _xdg(environment: Mapping[str, str], variable: str, default: str) -> Path:
    folder = environment.get(variable, "")
    if not folder.startswith("/"):  # the XDG specification: ignore relative paths
        folder = os.path.join(environment.get("HOME") or os.path.expanduser("~"), default)  # noqa: PTH111, PTH118
    return Path(folder) / "tillerman"


def _is_private(folder: str) -> bool:
    if not folder.startswith("/"):
        return False
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    return private and found.st_uid == os.getuid()


def write_whole(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Writes the file atomically; the data is on disk when this returns."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(made, "wb") as file:
            os.fchmod(made, mode)
            file.write(data)
            file.flush()
            os.fsync(made)
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
