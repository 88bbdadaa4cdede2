"""Protected names and denied paths enforced as in a session, for lines that run one by one.

The enforcing code is the product's own: the plan of mounts, the mounts, the dropped capabilities,
and the watcher that restores. Only the processes are the test's: one that watches, and the shell of
each line, which mounts the plan before it runs.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import posixpath
import socket
import traceback
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from tests.core.permission.differential import namespace, tree
from tillerman.core.events import Notice
from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.paths import Paths
from tillerman.sessions.enforcement.protection import Protection
from tillerman.sessions.run_settings import RunSettings
from tillerman.supervision.warden import mounts
from tillerman.workspace.files.policy_lookup import DiskFiles

OURS = "/log"  # a tmpfs apart from the tree: the state of the session
_DENIED = Rule("secret", "deny", "no", paths=(".env",))

# A session's watcher takes its first look a moment after it began: most lines are over by then, and
# checked in the end. Some wait for it.
_WATCHED_EVERY, _UNTIL_WATCHED = 8, 0.45

Plan = list[Any]


class ProtectedSession:
    """The watching process: it is notified when a session starts and ends."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            try:
                os.environ["HOME"] = tree.HOME
                namespace.leave_no_atime(tree.BASE)
                asyncio.run(_serve(theirs))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        theirs.close()
        self._socket = ours
        self._plan: Plan = []

    def begin(self) -> None:
        self._plan = self._ask(b"begin")

    def end(self) -> list[str]:
        """Returns its report."""
        return self._ask(b"end")

    def enter(self) -> None:
        """Runs in the process that becomes a program of the session, as a keeper prepares it."""
        namespace.enter_mounts()
        if failed := mounts.Mounts().apply(self._plan):
            raise OSError(f"not mounted: {failed}")
        os.chdir(os.getcwd())
        mounts.drop_capabilities()

    def _ask(self, request: bytes) -> Any:
        self._socket.send(request)
        answer = self._socket.recv(1 << 20)
        if not answer:
            raise RuntimeError("the process that watches has ended")
        return marshal.loads(answer)


async def _serve(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    protection: Protection | None = None
    notices: list[Notice] = []
    sessions = 0
    while request := await loop.sock_recv(connection, 64):
        if request == b"begin":
            notices = []
            protection = _protection()
            protection.listen(notices.append)
            await protection.begin()
            answer: Any = protection.enforcement()["mounts"]["plan"]
            sessions += 1
            if sessions % _WATCHED_EVERY == 0:
                await asyncio.sleep(_UNTIL_WATCHED)
        else:
            assert protection is not None
            await protection.close()
            answer = [notice.text for notice in notices]
        await loop.sock_sendall(connection, marshal.dumps(answer))
    os._exit(0)


def _protection(
    workspace: str = tree.WORKSPACE, home: str = tree.HOME, ours: str = OURS
) -> Protection:
    context = DecisionContext(
        PurePosixPath(workspace),
        home=PurePosixPath(home),
        resolve=posixpath.realpath,
        files=DiskFiles(),
    )
    paths = Paths(*(Path(ours, name) for name in ("config", "state", "cache", "sockets")))
    protection = Protection(
        *("session", Path(workspace), RunSettings(approve="auto", rules=(_DENIED,)), paths),
        *(Policy.preset("auto", rules=[_DENIED]), context),
        remembered=lambda: (),
    )
    warden: Any = SimpleNamespace(level="namespace", lost=False, mount=_mounted_at_start)
    protection.attach(warden)
    return protection


async def _mounted_at_start(plan: Plan) -> dict[str, str]:
    """Nothing outside replaces a mounted name here, so no mount has to be repeated."""
    return {}


def warm_up() -> None:
    """Runs a session with all features once, because the private root has no modules to import."""
    asyncio.run(_one_session())


async def _one_session() -> None:
    with TemporaryDirectory() as folder:
        workspace = Path(folder, "ws")
        (workspace / ".git" / "hooks").mkdir(parents=True)
        files = {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/config": "[core]\n",
            ".env": "x",
            ".mcp.json": "x",
        }
        for name, text in files.items():
            (workspace / name).write_text(text)
        protection = _protection(str(workspace), folder, folder)
        await protection.begin()
        protection.enforcement()
        await asyncio.sleep(0.5)
        (workspace / ".env").unlink()
        (workspace / ".mcp.json").write_text("y")
        (workspace / ".git/config").write_text("[alias]\nx = !y\n")
        (workspace / ".git/hooks/pre-commit").write_text("x")
        (workspace / "new" / ".git").mkdir(parents=True)
        await asyncio.sleep(0.5)
        await protection.close()
