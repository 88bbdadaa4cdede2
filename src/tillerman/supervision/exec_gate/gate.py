"""The exec gate process: answers the execve calls of a session's programs one by one.

Forked from the warden. If it dies, the kernel fails every later execve of the programs with ENOSYS;
while it is stopped, they wait. Before the rules are loaded, only a program's own first exec is
answered.
"""

# ruff: noqa: PTH115, SIM105  # pathlib and contextlib would cost every start some milliseconds

from __future__ import annotations

import errno
import os
import select
import sys

from tillerman.supervision.exec_gate import seccomp
from tillerman.supervision.exec_gate.availability import only_ancestors_may_read, refusal
from tillerman.supervision.exec_gate.entry import checksum
from tillerman.supervision.exec_gate.exec_call import open_memory, read_call
from tillerman.supervision.linux import syscalls
from tillerman.supervision.protocol.channel import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from tillerman.supervision.exec_gate.command_rules import CommandRules
    from tillerman.supervision.exec_gate.denied_files import DeniedFiles
    from tillerman.supervision.exec_gate.exec_call import ExecCall
    from tillerman.supervision.exec_gate.readings import Reading
    from tillerman.supervision.exec_gate.seccomp import SeccompNotification

_IDLE = 30  # milliseconds without a call before the rules are loaded: a start needs the CPU cores
_SHOWN = 500  # characters of a refused command in the report
_MOST_STARTS = 8  # execs that a process may need until it is the program itself


class Watched:
    """One program whose execve calls are checked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._count = 0
        self._whole = 0
        self._rest = 0
        self._left = 0

    def expect(self, count: int, whole: int, rest: int) -> None:
        """Expects the process to become the program.

        `count` is the number of arguments after the name, `whole` the checksum of the whole argv,
        `rest` the checksum of the arguments.
        """
        self._count = count
        self._whole = whole
        self._rest = rest
        self._left = _MOST_STARTS

    def starts(self, pid: int, argv: list[bytes]) -> bool:
        """Returns whether this exec starts the program itself; such an exec is not checked.

        It is started by the keeper, or by the `env` or shell script before it, with all its
        arguments.
        """
        if pid != self.pid or not self._left:
            return False
        self._left -= 1
        if checksum(argv) == self._whole:
            return True
        behind = argv[len(argv) - self._count :]
        if 0 < self._count < len(argv) and checksum(behind) == self._rest:
            return True
        self._left = 0
        return False


class ExecGate:
    """The server of the gate. `control` connects to the warden, `registrations` to new programs."""

    def __init__(self, control: Channel, registrations: Any, settings: dict[str, Any]) -> None:
        self._control = control
        self._registrations = registrations
        self._policy: bytes = settings["policy"]
        self._modules: list[str] = settings["modules"]
        self._path: bytes = settings["path"]
        self._by_warden: bool = settings["memory_by_warden"] or only_ancestors_may_read()
        self._waiting: list[tuple[Any, ...]] = []  # messages received before an expected answer
        self._watched: dict[int, Watched] = {}  # by listener
        self._rules: CommandRules | None = None
        self._files: DeniedFiles | None = None
        self._reported: tuple[Any, ...] = ()
        self._ready = select.poll()

    def serve(self) -> None:
        """Serves until the warden ends."""
        self._ready.register(self._control.fileno(), select.POLLIN)
        self._ready.register(self._registrations.fileno(), select.POLLIN)
        while True:
            events = self._ready.poll(None if self._rules or not self._watched else _IDLE)
            if not events:
                self._load()
            for number, event in events:
                if number == self._control.fileno():
                    self._waiting += self._control.receive()
                elif number == self._registrations.fileno():
                    self._register()
                elif event & select.POLLIN:
                    self._answer(number)
                else:  # no process is left that could call
                    self._ready.unregister(number)
                    del self._watched[number]
                    os.close(number)
            while self._waiting:
                self._handle(self._waiting.pop(0))

    def _handle(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("policy", bytes(policy)) if policy != self._policy:
                self._policy = policy
                if self._rules:
                    self._load()

    def _register(self) -> None:
        channel = Channel(self._registrations)
        for word, pid, *rest in channel.receive():
            if word == "watch":
                listener = channel.pop_files(1)[0]
                self._watched[listener] = Watched(pid)
                self._ready.register(listener, select.POLLIN)
            else:
                for watched in self._watched.values():
                    if watched.pid == pid:
                        watched.expect(*rest)

    def _load(self) -> CommandRules:
        """Loads the rules lazily: the policy code takes a while to import."""
        sys.path[:] = self._modules
        from tillerman.supervision.exec_gate.command_rules import CommandRules
        from tillerman.supervision.exec_gate.denied_files import DeniedFiles

        rules = CommandRules.decoded(self._policy)
        if self._rules is None or rules.programs != self._rules.programs:
            self._files = DeniedFiles(rules.programs, self._path)
        self._rules = rules
        return rules

    # -- calls -----------------------------------------------------------------------------------

    def _answer(self, listener: int) -> None:
        call = seccomp.receive(listener)
        if call is None:
            return
        try:
            code = self._decide(listener, call)
        except Exception as error:  # any error: an unchecked program must not run
            self._report(call.pid, "", f"{type(error).__name__}: {error}")
            code = errno.EPERM
        seccomp.respond(listener, call.id, code)

    def _decide(self, listener: int, notification: SeccompNotification) -> int:
        """Returns 0, or the errno that the call fails with."""
        watched = self._watched[listener]
        try:
            call = self._read(notification)
        except OSError as error:
            if not seccomp.is_waiting(listener, notification.id):
                return errno.EPERM
            if error.errno in (errno.EFAULT, errno.EIO, errno.ENAMETOOLONG):
                return errno.EFAULT if error.errno == errno.EIO else error.errno
            reason = f"its memory cannot be read: {error.strerror}"
            self._report(notification.pid, "", reason)
            return errno.EPERM
        if not seccomp.is_waiting(listener, notification.id):
            return errno.EPERM
        if watched.starts(notification.pid, call.argv):
            return 0
        rules = self._rules or self._load()
        if not rules.denies:
            return 0
        return self._apply_rules(listener, notification, call, rules)

    def _read(self, notification: SeccompNotification) -> ExecCall:
        pid = notification.pid
        memory = self._memory_by_warden(pid) if self._by_warden else open_memory(pid)
        try:
            return read_call(notification, memory)
        finally:
            os.close(memory)

    def _memory_by_warden(self, pid: int) -> int:
        """Gets the memory file from the warden, an ancestor of the caller, which may read it."""
        self._control.send("memory", pid)
        while True:
            for message in self._control.receive():
                match message:
                    case ("memory", 0):
                        return self._control.pop_files(1)[0]
                    case ("memory", int(code)):
                        raise OSError(code, os.strerror(code))
                self._waiting.append(message)

    def _apply_rules(
        self, listener: int, notification: SeccompNotification, call: ExecCall, rules: CommandRules
    ) -> int:
        from tillerman.supervision.exec_gate.caller_files import CallerFiles, UnreadableCaller
        from tillerman.supervision.exec_gate.readings import Readings, Unnamed

        assert self._files
        files = CallerFiles(call.pid)
        shown = _shown(call.argv or [call.path])
        try:
            readings = Readings(call, files, self._files).read()
            directory = os.readlink(f"/proc/{call.pid}/cwd")
        except OSError as error:
            return error.errno or errno.EPERM
        except (Unnamed, UnreadableCaller) as error:
            self._report(call.pid, shown, str(error))
            return errno.EPERM
        finally:
            files.close()
        if not seccomp.is_waiting(listener, notification.id):
            return errno.EPERM
        for reading in readings:
            rule = rules.denial(reading.words, directory, cut=call.cut)
            if rule is not None:
                text = _shown(_short(reading))
                self._report(call.pid, text, rule.note, rule.name, rule.source)
                return errno.EPERM
        return 0

    def _report(
        self, pid: int, command: str, reason: str, rule: str = "", source: str = ""
    ) -> None:
        """Reports a refusal once, although the caller tries every folder of its PATH."""
        report = (pid, command or f"process {pid}", rule, source, reason)
        if report == self._reported:
            return
        self._reported = report
        try:
            self._control.send("refused", *report[1:])
        except OSError:
            pass  # the warden has ended, which ends this process next


def run(control: Channel, registrations: Any, settings: dict[str, Any]) -> NoReturn:
    """Main function of the process forked by the warden. Tries the filter on itself first."""
    code = 0
    try:
        syscalls.die_with_parent()
        syscalls.name_process("tillerman-gate")
        syscalls.hide_memory()
        reason = refusal(no_new_privileges=settings["no_new_privileges"])
        control.send("ready", reason or "")
        if reason is None:
            ExecGate(control, registrations, settings).serve()
    except EOFError:  # the warden has ended
        pass
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode(errors="replace"))
        code = 70
    os._exit(code)


def _short(reading: Reading) -> list[bytes]:
    return [reading.name.rsplit(b"/", 1)[-1], *reading.arguments]


def _shown(words: list[bytes]) -> str:
    text = " ".join(os.fsdecode(word) for word in words[:100])
    return text.encode(errors="replace").decode()[:_SHOWN]
