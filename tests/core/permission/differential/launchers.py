"""How the shell is started: without enforcement, or with a policy enforced at run time."""

from __future__ import annotations

import os
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from tests.core.permission.differential import namespace

DENIED = ("rm *", "curl *", "git push*")


class Launcher:
    """Without any enforcement."""

    forks = False  # `launch` prepares the process that becomes the shell
    logs_execs = True  # by a seccomp listener of our own; a process tree can have only one
    records = False  # recorders stand in place of denied programs, and say that they ran

    def prepare(self) -> None:
        """Imports all that is needed, while the machine's file system is still mounted."""

    def begin(self) -> set[int]:
        """Starts helpers in the private root. Returns the pids that belong to no line."""
        return set()

    reports = -1  # a descriptor that becomes readable when a helper says something

    def take_reports(self) -> None:
        """Reads the helpers' reports, so that none of them blocks."""

    guards = False  # protected names are restored: what counts is how they are in the end

    def open_session(self) -> None:
        """The tree is reset, and a line is about to run in it."""

    def close_session(self) -> None:
        """All processes of the line have ended."""

    def launch(self, path: str, argv: list[str], environment: dict[str, str]) -> None:
        """Runs in the process that becomes the shell."""
        os.execve(path, argv, environment)


class Recorded(Launcher):
    """Without enforcement, and with recorders in place of denied programs: what the gate would
    see."""

    logs_execs = False
    records = True


class ExecGate(Recorded):
    """Denied commands fail at execve, by the gate that sessions use."""

    forks = True

    def prepare(self) -> None:
        from tillerman.core.permission import Rule

        package = import_module("tillerman.supervision.exec_gate")
        modules: dict[str, Any] = {
            one.name: import_module(f"{package.__name__}.{one.name}")
            for one in iter_modules(package.__path__)
        }
        self._client = modules["client"]
        self._close_all_but = import_module("tillerman.supervision.warden.keeper").close_all_but
        rules = [Rule("denied", "deny", "no", commands=DENIED)]
        self._settings: dict[str, Any] = modules["settings"].gate_settings(
            "on", rules=rules, path="/stubs:/usr/bin:/bin"
        )
        judge = modules["command_rules"].CommandRules.decoded(self._settings["policy"])
        script = b"echo $((1)) | xargs find . -exec git -C x push \\;"
        for words in ((b"rm", b"x"), (b"sh", b"-c", script)):
            judge.denial(words, "/")  # imports what judging needs

    def begin(self) -> set[int]:
        gate = self._client.GateProcess.start(self._settings, self._close_all_but)
        if isinstance(gate, str):
            raise RuntimeError(f"no gate: {gate}")
        self._gate = gate
        self.reports = gate.control.fileno()
        return {gate.pid}

    def take_reports(self) -> None:
        for kind, *values in self._gate.control.receive():
            if kind == "memory":
                self._gate.open_memory(values[0])

    def launch(self, path: str, argv: list[str], environment: dict[str, str]) -> None:
        self._gate.entry().enter(os.getpid(), [os.fsencode(word) for word in argv])
        os.execve(path, argv, environment)


class Unprotected(Launcher):
    """Without enforcement, and with a check of protected names: what the protection would see."""

    forks = True
    logs_execs = False
    guards = True


class Protected(Unprotected):
    """Protected names and denied paths are mounted and watched, as in a session."""

    def prepare(self) -> None:
        self._module = import_module("tests.core.permission.differential.protected_session")
        self._module.warm_up()

    def begin(self) -> set[int]:
        namespace.mount_tree(self._module.OURS)
        self._session = self._module.ProtectedSession()
        return {self._session.pid}

    def open_session(self) -> None:
        self._session.begin()

    def close_session(self) -> None:
        self._session.end()

    def launch(self, path: str, argv: list[str], environment: dict[str, str]) -> None:
        self._session.enter()
        os.execve(path, argv, environment)


LAUNCHERS: dict[str, type[Launcher]] = {
    "plain": Launcher,
    "recorded": Recorded,
    "exec-gate": ExecGate,
    "unprotected": Unprotected,
    "protected": Protected,
}
