"""How the shell is started: as it is, or with what enforces a policy at run time."""

from __future__ import annotations

import os
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from tests.policy.differential import namespace

DENIED = ("rm *", "curl *", "git push*")


class Launcher:
    """Without any enforcement."""

    logs_execs = True  # by a seccomp listener of our own; a process tree can have only one
    records = False  # recorders stand in place of denied programs, and say that they ran

    def prepare(self) -> None:
        """Import all that is needed: the machine's file system is still there."""

    def begin(self) -> set[int]:
        """Start what helps, in the private root. The pids that are no part of any line."""
        return set()

    reports = -1  # a descriptor that becomes readable when a helper says something

    def take_reports(self) -> None:
        """Read what helpers say: one that nobody reads from would stop."""

    guards = False  # protected names are restored: what counts is how they are in the end

    def open_session(self) -> None:
        """The tree is as it should be, and a line is about to run in it."""

    def close_session(self) -> None:
        """All processes of the line are gone."""

    def launch(self, path: str, argv: list[str], environment: dict[str, str]) -> None:
        """In the process that becomes the shell."""
        os.execve(path, argv, environment)


class Recorded(Launcher):
    """Without enforcement, and with recorders in place of denied programs: what the gate faces."""

    logs_execs = False
    records = True


class ExecGate(Recorded):
    """Denied commands are refused at execve, by the gate that sessions use."""

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
    """Without enforcement, and with a look at protected names: what the protection faces."""

    logs_execs = False
    guards = True


class Protected(Unprotected):
    """Protected names and denied paths are mounted and watched, as in a session."""

    def prepare(self) -> None:
        self._module = import_module("tests.policy.differential.protected_session")
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
