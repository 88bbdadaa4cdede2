"""Client of the warden process: one warden per session, one child per program."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.agent import Word
from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.client.child_processes import (
    GONE_WITHIN,
    ChildProcess,
    FileBackedProcess,
    close_files,
    open_files,
)
from tillerman.supervision.client.message_sender import MessageSender
from tillerman.supervision.client.orphan_sweep import sweep_when_free
from tillerman.supervision.client.secret_files import variables_written, written
from tillerman.supervision.client.supervision_levels import HINTS, Level
from tillerman.supervision.exec_gate.settings import ExecRefused, GateState
from tillerman.supervision.protocol.channel import Channel
from tillerman.supervision.protocol.launch_warden import (
    NOT_ENFORCED,
    Enforcement,
    Launched,
    launch,
    open_pipes,
    spawn_message,
)
from tillerman.supervision.protocol.rendezvous import connect_to_warden
from tillerman.supervision.warden.temporary_files import TemporaryFiles

if TYPE_CHECKING:
    from tillerman.supervision.warden.mounts import Plan

_MOST_REPORTS = 100  # reports of a program that started before a watcher was set
_HELD_WITHIN = 5.0  # seconds until a harness that is just ending releases the warden
_MOUNTED_WITHIN = 2.0


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
        self._sender = MessageSender(self._channel)
        self._send = self._sender.send
        self._children: dict[int, ChildProcess | FileBackedProcess] = {}
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._cleanup: asyncio.Task[None] | None = None
        self._lingers = launched.lingers
        self._last_error = ""
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
            control = connect_to_warden(str(folder), "hold", files=(held,))
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
                warden.release()
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
        arguments = written(self.folder, argv)
        variables = variables_written(self.folder, env)
        if child := self._use_early(arguments, str(cwd), variables, enforcement, stdin=stdin):
            return await self._started(child)
        self._count += 1
        message = spawn_message(self._count, arguments, cwd, variables)
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
            arguments = written(self.folder, argv)
            variables = variables_written(self.folder, env)
        except BaseException:
            close_files(files or ())
            raise
        files = files or open_files(folder)
        self._count += 1
        message = spawn_message(self._count, arguments, cwd, variables)
        job = FileBackedProcess(self._send, self._count, name)
        job.lasting = lasting
        self._children[self._count] = job
        how = (stdin, cap, rules, dict(enforcement))
        self._send("run", *message[1:], name, lasting, *how, files=files)
        try:
            await job.started()
        except BaseException:
            if not job.gone and not self._ended.done():
                self._send("kill", job.number)
            raise
        return job

    @property
    def lost(self) -> bool:
        """True when the warden has ended or was released."""
        return self._ended.done()

    async def _started(self, child: ChildProcess) -> ChildProcess:
        try:
            await child.started()
        except BaseException:
            self._abandon(child)
            raise
        return child

    def _use_early(
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
        self._abandon(child)
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
            self._send("mounts", child.number, mounts["plan"])

    async def mount(self, plan: Plan) -> dict[str, str]:
        """Adds missing mounts in every running program. Returns path and reason of each failure."""
        if self._ended.done():
            return {}
        waiting = []
        for child in self._children.values():
            if child.running:
                waiting.append(child.mounting())
                self._send("mounts", child.number, plan)
        try:
            async with asyncio.timeout(_MOUNTED_WITHIN):
                reports = await asyncio.gather(*waiting)
        except TimeoutError:
            return {"": "a supervising process did not respond"}
        return {path: why for found in reports for path, why in found.items()}

    def _abandon(self, child: ChildProcess) -> None:
        if not child.gone and not self._ended.done():
            self._send("kill", child.number)
        child.close_pipes()

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
        if self._cleanup:
            await self._cleanup

    def release(self) -> None:
        """Releases the warden with its lasting programs; all others end.

        Do not await it afterwards.
        """
        if self._lifeline < 0 or self._ended.done():
            return
        os.close(self._lifeline)
        self._lifeline = -1
        self._loop.remove_reader(self._channel.fileno())
        self._sender.close()
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
        child = self._children[number] = ChildProcess(self._send, number, stdin, stdout, stderr)
        return child

    def _read(self) -> None:
        try:
            messages = self._channel.receive()
        except BlockingIOError:
            return
        except EOFError:
            self._end()
            return
        for message in messages:
            self._handle(message)

    def _handle(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("hello", level, notes, pid, *found):
                self.level, self.notes, self.pid = Level(level), notes, pid
                if found:
                    self._add_found(*found)
                if not self._hello.done():  # the waiting caller may have been cancelled
                    self._hello.set_result(None)
            case ("refused", level, reason) if not self._hello.done():
                self._hello.set_exception(
                    SupervisionUnavailable(
                        f"supervision level {level} is not available here: {reason}",
                        hint=HINTS.get(level, HINTS["auto"]),
                    )
                )
            case ("exec_gate", str(reason)):
                self.exec_gate = GateState(enforced=not reason, reason=reason)
                self._exec_watcher(self.exec_gate)
            case ("exec_refused", command, rule, source, reason):
                self._exec_watcher(ExecRefused(command, rule, source, reason))
            case (word, number, *rest) if child := self._children.get(number):
                if child.receive(word, rest):
                    del self._children[number]

    def _add_found(self, count: int, programs: list[Any]) -> None:
        self._count = count
        for number, name, pid, start, lasting in programs:
            job = self._children[number] = FileBackedProcess(self._send, number, name)
            job.lasting = lasting
            if pid:
                job.set_started(pid, start)
            self.running[name] = job

    def _end(self) -> None:
        """Handles the end of the warden, whether on request or because it was killed."""
        self._loop.remove_reader(self._channel.fileno())
        self._sender.close()
        self._channel.close()
        if self._process:
            self._process.wait()  # its socket closed on exit, so this hardly waits
            self._last_error = _last_line(self._process)
        greeted = self._hello.done()
        if not greeted:
            self._hello.set_exception(self._lost())
        for child in self._children.values():
            child.fail_start(self._lost())
        if greeted and self.folder.exists():
            self._cleanup = self._loop.create_task(self._sweep_ended_warden())
        self._ended.set_result(None)

    async def _sweep_ended_warden(self) -> None:
        """Waits until the keepers of a killed warden ended their trees, then sweeps the rest."""
        found = await sweep_when_free(self.folder)
        for child in self._children.values():
            child.lose(found.left if found else ())
        self._children.clear()

    def _lost(self) -> SupervisionUnavailable:
        code = self._process.returncode if self._process else "unknown"
        return SupervisionUnavailable(
            f"the warden has ended (exit {code}) {self._last_error}".strip(),
            hint="restart the session; `tillerman doctor` shows which supervision levels work",
        )


def _without_mounts(enforcement: Enforcement) -> Enforcement:
    return {name: value for name, value in enforcement.items() if name != "mounts"}


def _last_line(process: subprocess.Popen[bytes]) -> str:
    """Returns the last line of stderr: the error of a traceback."""
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    messages = (process.stderr.read() or b"").decode(errors="replace").splitlines()
    process.stderr.close()
    return messages[-1] if messages else ""
