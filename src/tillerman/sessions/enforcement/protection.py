"""Protects names and denied paths of one session, from its first program to its last.

Where the supervision level has a mount namespace, existing names are mounted read-only in every
program, and files that rules deny to be read are hidden. At every level all protected names are
watched, and restored when they change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import SupervisionUnavailable
from tillerman.core.events import Enforced, Notice, PermissionRequested
from tillerman.sessions.enforcement.early_mounts import mounts
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.protection.git.folders import outer_git_folders
from tillerman.workspace.protection.mount_plan import (
    CREATED,
    Mountable,
    mountable,
    skipped,
    with_hidden,
)
from tillerman.workspace.protection.restore.accepted import ABSENT, Accepted, digest
from tillerman.workspace.protection.watcher import Hold, Undone, Watcher

if TYPE_CHECKING:
    from tillerman.core.permission import DecisionContext, Policy, Rule
    from tillerman.paths import Paths
    from tillerman.sessions.run_settings import RunSettings
    from tillerman.supervision.client.warden_client import WardenClient
    from tillerman.workspace.protection.denied_paths import DeniedPaths
    from tillerman.workspace.protection.protected_state import State

_MOST_NAMED = 20  # paths in one report


class Protection:
    """Mounts, watches and restores protected names.

    `policy` and `context` are the session's; `remembered` are remembered rules. `early`: states
    recorded before an already running program was started, by folder.
    """

    def __init__(
        self,
        session: str,
        cwd: Path,
        run_settings: RunSettings,
        paths: Paths,
        policy: Policy,
        context: DecisionContext,
        *,
        remembered: Callable[[], Sequence[Rule]],
        saved: Path | None = None,
        early: Mapping[str, State] = MappingProxyType({}),
    ) -> None:
        self._cwd = cwd
        self._run_settings = run_settings
        self._policy, self._context, self._remembered = policy, context, remembered
        self._notify: Callable[[Notice], None] | None = None
        self._notices: list[Notice] = []  # before a listener is registered
        self._level = ""
        self._wardens: list[WardenClient] = []
        self._plans: tuple[Mountable, ...] = ()
        self._failed: dict[str, str] = {}
        self._denied: DeniedPaths | None = None
        quarantine = paths.quarantine / session
        known = paths.accepted
        self._accepted = Accepted(known, cwd)
        self._skipped = skipped(str(cwd))
        self._main = Watcher(
            cwd,
            quarantine,
            skipped=self._skipped,
            allowed=self._is_allowed,
            report=self._report,
            accepted=known,
            remount=self.remount,
            noticed=self._may_be_denied if self._denials else None,
            saved=saved,
            early=early.get(str(cwd)),
        )
        self._watchers = [self._main]
        for outer in outer_git_folders(str(cwd)):
            self._watchers.append(
                Watcher(
                    Path(outer),
                    quarantine,
                    role="git",
                    report=self._report,
                    accepted=known,
                    remount=self.remount,
                    early=early.get(outer),
                )
            )
        self._holds: list[Hold] = []

    # -- mounts ------------------------------------------------------------------------------------

    def attach(self, warden: WardenClient) -> None:
        """Adds a warden; refuses a level that cannot do what the config requires."""
        self._level = str(warden.level)
        self._wardens = [one for one in self._wardens if not one.lost] + [warden]
        wanted = self._run_settings.enforcement
        if self._has_mounts:
            return
        reason = f"supervision level {self._level} has no mount namespace"
        hint = 'run as root, or with supervision = "namespace"'
        if wanted.protected == "mounts":
            raise SupervisionUnavailable(
                f"protected names cannot be mounted read-only: {reason}",
                hint=f'{hint}; or set enforcement.protected = "auto"',
            )
        if wanted.paths == "on" and self._denials:
            raise SupervisionUnavailable(
                f"denied paths cannot be hidden: {reason}",
                hint=f'{hint}; or set enforcement.paths = "auto"',
            )

    def enforcement(self) -> dict[str, Any]:
        """Enforcement for a program that starts now."""
        self._plan()
        wanted = self._run_settings.enforcement
        if wanted.protected == "watch" and not self._hides:
            return {}
        return mounts(self._plans, self._run_settings)

    def mountable(self) -> list[Path]:
        """Names of the workspace that a sandbox has to mount read-only itself."""
        self._plan()
        return [
            Path(plan.folder, path)
            for plan in self._plans
            if plan.folder == str(self._cwd)
            for path in plan.readonly
        ]

    def started(self, failed: dict[str, str]) -> None:
        """Records failed mounts; those names are watched like the rest."""
        self._failed |= failed
        self._set_mounted()

    async def remount(self) -> None:
        """Remounts after a mounted name was replaced from outside, or a new file must be hidden."""
        await asyncio.to_thread(self._plan)
        for warden in self._wardens:
            if not warden.lost:
                self.started(await warden.mount([plan.tree for plan in self._plans]))

    def _plan(self) -> None:
        plans: tuple[Mountable, ...] = ()
        if self._run_settings.enforcement.protected != "watch":
            plans = mountable(str(self._cwd), allowed=self._may_be_allowed, own=self._skipped)
            plans = tuple(self._without_new(plan) for plan in plans)
        if self._hides:
            from tillerman.workspace.protection.denied_paths import find_denied

            self._denied = find_denied(self._cwd, self._denials, self._is_denied)
            plans = with_hidden(plans or (Mountable(str(self._cwd)),), self._denied.hidden)
        self._plans = plans
        self._set_mounted()

    def _without_new(self, plan: Mountable) -> Mountable:
        """Excludes a name that a program just created and that is about to be undone, so that
        another program's start does not treat it as part of the workspace."""
        if plan.folder != str(self._cwd):
            return plan
        return plan._replace(readonly=tuple(filter(self._main.knows, plan.readonly)))

    def _set_mounted(self) -> None:
        for watcher in self._watchers:
            watcher.mounted = frozenset(
                path[len(str(watcher.root)) + 1 :]
                for path in self._readonly()
                if path.startswith(f"{watcher.root}/")
            )

    def _readonly(self) -> list[str]:
        if not self._has_mounts:
            return []
        paths = [f"{plan.folder}/{path}" for plan in self._plans for path in plan.readonly]
        return [path for path in paths if path not in self._failed]

    @property
    def _has_mounts(self) -> bool:
        return self._level == "namespace"

    # -- watching ----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Starts watching. Call before the agent's first program starts."""
        self._holds = [await one.begin(collects=False) for one in self._watchers]

    def listen(self, notify: Callable[[Notice], None]) -> None:
        self._notify = notify
        for notice in self._notices:
            notify(notice)
        self._notices.clear()

    def resume(self) -> None:
        """Continues from the saved state, for programs that an earlier harness started."""
        self._main.resume()

    async def hold(self) -> Hold:
        """Starts a hold before another program starts; the hold reports that program's changes."""
        return await self._main.begin()

    async def settle(self) -> None:
        """Accepts the state at the end of a turn: new names are protected from now on."""
        for watcher in self._watchers:
            await watcher.restore_changes()

    async def close(self) -> None:
        """Stops watching. Call after the last program has ended."""
        for hold in self._holds:
            await hold.end()
        for watcher in self._watchers:
            await watcher.close()

    def expect(self, path: Path, content: bytes | None) -> None:
        """Announces that the harness itself will write or remove this file."""
        try:
            inner = path.relative_to(self._cwd)
        except ValueError:
            return
        state = ABSENT if content is None else digest("file", content)
        self._accepted.add(str(inner), state)
        if inner.parent != Path():
            whole = (
                ABSENT if content is None else digest("folder", f"{inner.name}\0{state}".encode())
            )
            for one in (digest("folder", b""), whole):
                self._accepted.add(str(inner.parent), one)

    def _report(self, found: Sequence[Undone]) -> None:
        for one in found:
            level = "warning" if one.restored or not one.why.startswith("it instructs") else "info"
            notice = Notice(level=level, kind="files", text=one.text)  # type: ignore[arg-type]
            if self._notify:
                self._notify(notice)
            else:
                self._notices.append(notice)

    # -- rules -------------------------------------------------------------------------------------

    @property
    def _hides(self) -> bool:
        return self._run_settings.enforcement.paths != "off" and bool(self._denials)

    @property
    def _denials(self) -> list[Rule]:
        rules = (*self._run_settings.rules, *self._run_settings.tightening)
        if not any(rule.verdict == "deny" and rule.paths for rule in rules):
            return []
        from tillerman.workspace.protection.denied_paths import reads_denied

        return reads_denied(rules)

    def _is_allowed(self, path: str) -> bool:
        """Whether a rule allows writing the path, or an agent needs it to start."""
        if path in CREATED:
            return True
        rules = (*self._remembered(), *self._run_settings.rules)
        if not any(rule.verdict == "allow" for rule in rules):
            return False
        return self._decides("Write", f"{self._cwd}/{path}", "allow")

    def _may_be_allowed(self, path: str) -> bool:
        """The same for anything inside the path, since a mount would forbid all of it."""
        rules = (*self._remembered(), *self._run_settings.rules)
        patterns = [one for rule in rules if rule.verdict == "allow" for one in rule.paths]
        if not patterns and not any(rule.verdict == "allow" for rule in rules):
            return False
        named = any(path.casefold() in one.casefold() for one in patterns)
        return named or self._is_allowed(path) or self._is_allowed(f"{path}/x")

    def _is_denied(self, path: str) -> bool:
        return self._decides("Read", path, "deny")

    def _may_be_denied(self, name: str) -> bool:
        from tillerman.workspace.protection.denied_paths import may_be_denied

        return may_be_denied(name, [path for rule in self._denials for path in rule.paths])

    def _decides(self, tool: str, path: str, verdict: str) -> bool:
        request = PermissionRequested(request_id="", tool=tool, title="", input={"path": path})
        policy = self._policy.remembering(self._remembered())
        return policy.decide(request, self._context).verdict == verdict

    # -- reports -----------------------------------------------------------------------------------

    def states(self) -> tuple[Enforced, ...]:
        """How far protected names and denied paths are enforced in the session."""
        found = []
        prefix = f"{self._cwd}/"
        if mounted := [path.removeprefix(prefix) for path in self._readonly()]:
            named = tuple(map(shown, mounted[:_MOST_NAMED]))
            found.append(Enforced("protected names", "enforced", "mounted read-only", named))
        found.append(Enforced("protected names", "restored", self._why_restored()))
        if self._skipped:
            why = "the workspace contains the home folder, where agents store their state"
            found.append(
                Enforced(
                    "protected names",
                    "advisory",
                    why,
                    tuple(map(shown, sorted(self._skipped)[:_MOST_NAMED])),
                )
            )
        return (*found, *self._denied_states())

    def _why_restored(self) -> str:
        if self._run_settings.enforcement.protected == "watch":
            return 'watched: enforcement.protected is "watch"'
        if not self._has_mounts:
            return f"watched: supervision level {self._level} has no mount namespace"
        return "watched: all other names (absent, tracked by git, or in subfolders)"

    def _denied_states(self) -> list[Enforced]:
        patterns = tuple(one for rule in self._denials for one in rule.paths)[:_MOST_NAMED]
        if not patterns:
            return []
        if self._run_settings.enforcement.paths == "off":
            return [Enforced("denied paths", "advisory", 'enforcement.paths is "off"', patterns)]
        if not self._has_mounts:
            why = f"supervision level {self._level} has no mount namespace"
            return [Enforced("denied paths", "advisory", why, patterns)]
        denied = self._denied
        found = []
        prefix = f"{self._cwd}/"
        if denied and denied.hidden:
            named = tuple(shown(one.removeprefix(prefix)) for one in denied.hidden[:_MOST_NAMED])
            found.append(Enforced("denied paths", "enforced", "hidden", named))
        reasons: dict[str, list[str]] = {}
        for path, why in denied.advisory if denied else ():
            reasons.setdefault(why, []).append(path)
        return found + [
            Enforced("denied paths", "advisory", why, tuple(map(shown, paths[:_MOST_NAMED])))
            for why, paths in reasons.items()
        ]
