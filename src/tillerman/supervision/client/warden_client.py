"""Client of the warden process: one warden per session, one child per program."""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.agent import Word
from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.client.child_processes import (
    GONE_WITHIN,
    ChildProcess,
    FileBackedProcess,
    close_files,
    exit_of,
    open_files,
)
from tillerman.supervision.client.orphan_sweep import SweepResult, sweep, sweep_one
from tillerman.supervision.client.secret_files import variables_written, written
from tillerman.supervision.exec_gate.settings import ExecRefused, GateState, not_enforced
from tillerman.supervision.protocol.channel import Channel, frame, rights
from tillerman.supervision.protocol.launch_warden import (
    NOT_ENFORCED,
    Enforcement,
    Launched,
    command,
    launch,
    open_pipes,
    spawn_message,
)
from tillerman.supervision.protocol.rendezvous import knock
from tillerman.supervision.warden.temporary_files import TemporaryFiles

if TYPE_CHECKING:
    from tillerman.supervision.warden.mounts import Plan

__all__ = [
    "ChildProcess",
    "FileBackedProcess",
    "Launched",
    "Level",
    "SweepResult",
    "WardenClient",
    "launch",
    "probe",
    "sweep",
]

_MOST_REPORTS = 100  # reports of a program that started before a watcher was set
_HELD_WITHIN = 5.0  # seconds until a harness that is just ending releases the warden
_MOUNTED_WITHIN = 2.0


class Level(StrEnum):
    NAMESPACE = "namespace"
    CGROUP = "cgroup"
    SUBREAPER = "subreaper"
    GROUP = "group"


class WardenClient:
    """The process that is the parent of a session's programs. Start it with `start`."""

    def __init__(self, launched: Launched) -> None:
        self.level = Level.GROUP
        self.notes: tuple[str, ...] = ()
        self.pid = launched.process.pid if launched.process else 0
        self.running: dict[str, FileBackedProcess] = {}  # programs found on rejoin, by name
        self.exec_gate = GateState()
        self._exec_reports: deque[GateState | ExecRefused] = deque(maxlen=_MOST_REPORTS)
        self._exec_watcher: Callable[[GateState | ExecRefused], None] = self._exec_reports.append
        self._process = launched.process
        self._lifeline = launched.lifeline
        self.folder = launched.folder  # accessible only to the user; removed with the warden
        self.places = TemporaryFiles(str(launched.folder))
        self._channel = Channel(launched.control)
        self._unsent: deque[tuple[bytes, Sequence[int]]] = deque()
        self._children: dict[int, ChildProcess | FileBackedProcess] = {}
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._mourning: asyncio.Task[None] | None = None
        self._lingers = launched.lingers
        self._last_words = ""
        self._early = launched.early
        if self._early:
            self._count = 1
            self._early_child = self._add_child(1, *self._early.pipes)

    @classmethod
    async def start(
        cls, *, level: str = "auto", records: Path, marker: str, linger: float = 0.0
    ) -> WardenClient:
        """Starts a warden.

        An unavailable `level` is refused, never lowered, unless it is `auto`.
        """
        return await cls.attach(launch(level=level, records=records, marker=marker, linger=linger))

    @classmethod
    async def rejoin(cls, folder: Path) -> WardenClient | None:
        """Reconnects to a lingering warden and its running programs; None when it has ended."""
        held, lifeline = os.pipe()
        try:
            control = knock(str(folder), "hold", files=(held,))
        except OSError:
            os.close(lifeline)
            return None
        finally:
            os.close(held)
        launched = Launched(None, control, lifeline, folder, lingers=True)
        try:
            async with asyncio.timeout(_HELD_WITHIN):
                return await cls.attach(launched)
        except TimeoutError:
            raise SupervisionUnavailable(
                f"another process controls the warden in {folder}",
                hint="stop that process, or use the session there",
            ) from None
        except SupervisionUnavailable:
            return None  # the warden was just ending

    @classmethod
    async def attach(cls, launched: Launched) -> WardenClient:
        """Takes over a warden that `launch` started earlier."""
        warden = cls(launched)
        launched.control.setblocking(False)
        warden._loop.add_reader(launched.control.fileno(), warden._read)
        try:
            await warden._hello
        except BaseException:
            if launched.process:
                await warden.close()
            else:
                warden.let_go()
            raise
        return warden

    async def spawn(
        self,
        argv: Sequence[Word],
        *,
        cwd: Path | str,
        env: Mapping[str, Word],
        stdin: bool = True,
        enforcement: Enforcement = NOT_ENFORCED,
    ) -> ChildProcess:
        """Runs a program with exactly `env` and the marker. Raises the OSError of exec or chdir.

        Raises `SupervisionUnavailable` when an enforcement is required that is not available here.
        """
        if self._ended.done():
            raise self._lost()
        words = written(self.folder, argv)
        variables = variables_written(self.folder, env)
        if child := self._take_early(words, str(cwd), variables, enforcement, stdin=stdin):
            return await self._started(child)
        self._count += 1
        message = spawn_message(self._count, words, cwd, variables)
        child, theirs = self._open_child(self._count, stdin=stdin)
        self._send(*message, dict(enforcement), files=theirs)
        return await self._started(child)

    async def run(
        self,
        argv: Sequence[Word],
        *,
        cwd: Path | str,
        env: Mapping[str, Word],
        name: str,
        folder: Path,
        cap: int,
        files: tuple[int, int, int] | None = None,
        stdin: bytes | bool | None = None,
        lasting: bool = False,
        rules: Any = None,
        enforcement: Enforcement = NOT_ENFORCED,
    ) -> FileBackedProcess:
        """Runs a program that writes to `folder`: `stdout`, `stderr` and the exit file.

        `files`: those of `open_files`, if they are already open; the warden owns them from now on.
        A `lasting` program may outlive its harness for as long as its warden lingers. `rules`
        confine it (see `isolation`). `stdin` is nothing, these bytes, or True: input comes from
        `FileBackedProcess.write`.
        """
        try:
            if self._ended.done():
                raise self._lost()
            words = written(self.folder, argv)
            variables = variables_written(self.folder, env)
        except BaseException:
            close_files(files or ())
            raise
        files = files or open_files(folder)
        self._count += 1
        message = spawn_message(self._count, words, cwd, variables)
        job = FileBackedProcess(self, self._count, name)
        job.lasting = lasting
        self._children[self._count] = job
        how = (stdin, cap, rules, dict(enforcement))
        self._send("run", *message[1:], name, lasting, *how, files=files)
        try:
            await job.started()
        except BaseException:
            if not job._gone.done() and not self._ended.done():
                self._send("kill", job._number)
            raise
        return job

    @property
    def lost(self) -> bool:
        """True when the warden has ended or was released."""
        return self._ended.done()

    async def _started(self, child: ChildProcess) -> ChildProcess:
        try:
            await child._started
        except BaseException:
            self._forget(child)
            raise
        return child

    def _take_early(
        self,
        argv: list[str],
        cwd: str,
        env: dict[str, str],
        enforcement: Enforcement,
        *,
        stdin: bool,
    ) -> ChildProcess | None:
        """Returns the program requested at launch, if it is this one."""
        early, self._early = self._early, None
        if early is None:
            return None
        child = self._early_child  # it may have ended already
        if (
            stdin
            and (early.argv, early.cwd, early.env) == (argv, cwd, env)
            and self._agree(_without_mounts(early.enforcement), _without_mounts(enforcement))
        ):
            self._mount_more(child, early.enforcement, enforcement)
            return child
        self._forget(child)
        return None

    def _agree(self, early: Enforcement, enforcement: Enforcement) -> bool:
        """Sends rules that became known after the launch to the gate of the running program."""
        if early == enforcement:
            return True
        if "exec" not in early or "exec" not in enforcement:
            return False
        policy = enforcement["exec"]["policy"]
        if {**early, "exec": {**early["exec"], "policy": policy}} != enforcement:
            return False
        self.update_exec_policy(policy)
        return True

    def watch_execs(self, watcher: Callable[[GateState | ExecRefused], None]) -> None:
        """Sets the callback for gate states and refused execs; replays those received so far."""
        self._exec_watcher = watcher
        while self._exec_reports:
            watcher(self._exec_reports.popleft())

    def update_exec_policy(self, policy: bytes) -> None:
        """Sends new rules to the gate, if there is one."""
        if not self._ended.done():
            self._send("exec_policy", policy)

    def _mount_more(self, child: ChildProcess, early: Enforcement, wanted: Enforcement) -> None:
        """Mounts what was not yet known when the program was requested."""
        if (mounts := wanted.get("mounts")) and mounts != early.get("mounts"):
            child.mounting()
            self._send("mounts", child._number, mounts["plan"])

    async def mount(self, plan: Plan) -> dict[str, str]:
        """Adds missing mounts in every running program. Returns path and reason of each failure."""
        if self._ended.done():
            return {}
        waiting = []
        for child in self._children.values():
            if child._started.done() and not child._gone.done():
                waiting.append(child.mounting())
                self._send("mounts", child._number, plan)
        try:
            async with asyncio.timeout(_MOUNTED_WITHIN):
                reports = await asyncio.gather(*waiting)
        except TimeoutError:
            return {"": "a supervising process did not respond"}
        return {path: why for found in reports for path, why in found.items()}

    def _forget(self, child: ChildProcess) -> None:
        if not child._gone.done() and not self._ended.done():
            self._send("kill", child._number)
        child._close_pipes()

    async def close(self) -> None:
        """Ends every process tree, then the warden."""
        if self._lifeline >= 0:
            if self._lingers and not self._ended.done():
                self._send("end")
            os.close(self._lifeline)
            self._lifeline = -1
            if not self._lingers and not self._ended.done():
                self._channel.socket.shutdown(socket.SHUT_WR)
        try:
            async with asyncio.timeout(GONE_WITHIN):
                await asyncio.shield(self._ended)
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            await self._ended
        if self._mourning:
            await self._mourning

    def let_go(self) -> None:
        """Releases the warden with its lasting programs; all others end.

        Do not await it afterwards.
        """
        if self._lifeline < 0 or self._ended.done():
            return
        os.close(self._lifeline)
        self._lifeline = -1
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._drop_unsent()
        self._channel.close()
        if self._process and self._process.stderr:
            self._process.stderr.close()
        self._ended.set_result(None)

    def _open_child(self, number: int, *, stdin: bool) -> tuple[ChildProcess, tuple[int, int, int]]:
        """Returns the child with our pipe ends, and the pipe ends for the child."""
        ours, theirs = open_pipes()
        if stdin:
            return self._add_child(number, *ours), theirs
        os.close(ours[0])
        os.close(theirs[0])
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._add_child(number, None, *ours[1:]), (nothing, *theirs[1:])

    def _add_child(self, number: int, stdin: int | None, stdout: int, stderr: int) -> ChildProcess:
        child = self._children[number] = ChildProcess(self, number, stdin, stdout, stderr)
        return child

    def _send(self, *message: Any, files: Sequence[int] = ()) -> None:
        """Queues a message with files; the warden owns the files from now on."""
        self._unsent.append((frame(message), files))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                data, files = self._unsent[0]
                sent = self._channel.socket.sendmsg([data], rights(files))
                for number in files:
                    os.close(number)
                if sent == len(data):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = (data[sent:], ())
        except BlockingIOError:
            self._loop.add_writer(self._channel.fileno(), self._flush)
        except OSError:
            self._drop_unsent()  # the warden has ended, which `_read` is about to notice
        else:
            self._loop.remove_writer(self._channel.fileno())

    def _drop_unsent(self) -> None:
        for _, files in self._unsent:
            for number in files:
                os.close(number)
        self._unsent.clear()

    def _read(self) -> None:
        try:
            messages = self._channel.receive()
        except BlockingIOError:
            return
        except EOFError:
            self._end()
            return
        for message in messages:
            self._take(message)

    def _take(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("hello", level, notes, pid, *found):
                self.level, self.notes, self.pid = Level(level), notes, pid
                if found:
                    self._find(*found)
                if not self._hello.done():  # the waiting caller may have been cancelled
                    self._hello.set_result(None)
            case ("refused", level, reason) if not self._hello.done():
                self._hello.set_exception(
                    SupervisionUnavailable(
                        f"supervision level {level} is not available here: {reason}",
                        hint=_HINTS.get(level, _HINTS["auto"]),
                    )
                )
            case ("exec_gate", str(reason)):
                self.exec_gate = GateState(enforced=not reason, reason=reason)
                self._exec_watcher(self.exec_gate)
            case ("exec_refused", command, rule, source, reason):
                self._exec_watcher(ExecRefused(command, rule, source, reason))
            case (word, number, *rest) if child := self._children.get(number):
                self._take_news(child, word, rest)

    def _find(self, count: int, programs: list[Any]) -> None:
        self._count = count
        for number, name, pid, start, lasting in programs:
            job = self._children[number] = FileBackedProcess(self, number, name)
            job.lasting = lasting
            if pid:
                job.pid = pid
                job._started.set_result((pid, start))
            self.running[name] = job

    def _take_news(
        self, child: ChildProcess | FileBackedProcess, word: str, rest: list[Any]
    ) -> None:
        match word, rest:
            case "started", [pid, start]:
                if not child._started.done():
                    child.pid = pid
                    child._started.set_result((pid, start))
            case "failed", [number, text, name]:
                name = os.fsdecode(name) if name is not None else None
                self._give_up(child, OSError(number, text, name))
            case "unable", [text]:
                self._give_up(child, _not_started(text))
            case "unenforced", [text]:
                self._give_up(child, not_enforced(text))
            case "mounted", [failed]:
                child.mounted(failed)
            case "exited", [status]:
                child._exit.set_result(exit_of(status))
            case _ if isinstance(child, FileBackedProcess) and child._take(word, rest):
                pass
            case "gone", [left]:
                self._give_up(child, _not_started("it was killed before it started"))
                child._gone.set_result(tuple(left))

    def _give_up(self, child: ChildProcess | FileBackedProcess, error: Exception) -> None:
        """Stops tracking this child; if it has not started by now, it never will."""
        del self._children[child._number]
        child._stop_mounting()
        if not child._started.done():
            child._started.set_exception(error)

    def _end(self) -> None:
        """Handles the end of the warden, whether on request or because it was killed."""
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._drop_unsent()
        self._channel.close()
        if self._process:
            self._process.wait()  # its socket closed on exit, so this hardly waits
            self._last_words = _last_line(self._process)
        greeted = self._hello.done()
        if not greeted:
            self._hello.set_exception(self._lost())
        for child in self._children.values():
            child._stop_mounting()
            if not child._started.done():
                child._started.set_exception(self._lost())
                child._started.exception()  # marks it as retrieved: no caller may be waiting for it
        if greeted and self.folder.exists():
            self._mourning = self._loop.create_task(self._mourn())
        self._ended.set_result(None)

    async def _mourn(self) -> None:
        """Waits until the keepers of a killed warden ended their trees, then sweeps the rest."""
        found = await swept(self.folder)
        for child in self._children.values():
            child._lose()
            child._gone.set_result(found.left if found else ())
        self._children.clear()

    def _lost(self) -> SupervisionUnavailable:
        code = self._process.returncode if self._process else "unknown"
        return SupervisionUnavailable(
            f"the warden has ended (exit {code}) {self._last_words}".strip(),
            hint="restart the session; `tillerman doctor` shows which supervision levels work",
        )


def _without_mounts(enforcement: Enforcement) -> Enforcement:
    return {name: value for name, value in enforcement.items() if name != "mounts"}


def _last_line(process: subprocess.Popen[bytes]) -> str:
    """Returns the last line of stderr: the error of a traceback."""
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    said = (process.stderr.read() or b"").decode(errors="replace").splitlines()
    process.stderr.close()
    return said[-1] if said else ""


def _not_started(reason: str) -> SupervisionUnavailable:
    return SupervisionUnavailable(
        f"the program could not be started: {reason}",
        hint="`tillerman doctor` shows which supervision levels work",
    )


async def swept(folder: Path) -> SweepResult | None:
    """Sweeps a dead warden once its keepers have ended their trees; returns the result."""
    deadline = asyncio.get_running_loop().time() + GONE_WITHIN
    while folder.exists() and asyncio.get_running_loop().time() < deadline:
        if found := await asyncio.to_thread(sweep_one, folder):
            return found
        await asyncio.sleep(0.01)  # a keeper is still working
    return None


async def probe() -> dict[Level, str | None]:
    """Returns each level with the reason it is unavailable here; None when it works."""
    found = await asyncio.to_thread(
        subprocess.run, command("warden.levels"), stdout=subprocess.PIPE, env={}, check=True
    )
    return {Level(level): reason or None for level, reason in marshal.loads(found.stdout)}


_HINTS = {
    "auto": "`tillerman doctor` shows the requirements of each level",
    "namespace": "run as root, allow user namespaces (sysctl user.max_user_namespaces),"
    ' or set supervision = "auto"',
    "cgroup": "start inside a delegated group (systemd-run --user --scope -p Delegate=yes),"
    ' or set supervision = "auto"',
    "subreaper": 'only available on Linux; set supervision = "auto"',
}
