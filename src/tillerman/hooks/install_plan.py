"""Plans which hooks are installed in which settings file of a CLI, and reports their status."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tillerman.core.json_fields import Table
from tillerman.hooks import settings_entries as texts
from tillerman.hooks.backup_journal import BackupJournal
from tillerman.hooks.command_pattern import is_our_code
from tillerman.hooks.dialects import load
from tillerman.hooks.install import Hooks
from tillerman.hooks.jsonc_editor import Invalid, parse

TIMEOUT = 60  # seconds that the CLI waits; `tillerman hook` gives up long before
_STRAY = "hooks of tillerman for another folder; reinstall or remove them"

Scope = Literal["project", "user"]
State = Literal["installed", "changed", "absent"]


class HookStatus(Struct, frozen=True, kw_only=True):
    agent: str
    scope: Scope
    file: str
    state: State
    events: tuple[str, ...] = ()  # with a tillerman hook
    missing: tuple[str, ...] = ()  # without one, although expected
    others: Mapping[str, int] = {}  # number of other hooks, by event
    problem: str = ""
    trust: str = ""  # what the user must do before the hooks are run


def planned(
    agent: str,
    project: Path,
    scope: Scope,
    *,
    version: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Hooks:
    dialect = load(agent)
    place = dialect.PLACE
    known = dialect.known(version)
    named = project if scope == "project" else None
    commands = {one: command(agent, one, named) for one in dialect.CALLS if one in known}
    users = place.users(Path.home(), environment)
    file = project / place.project if scope == "project" else users
    if place.code:
        whole = dialect.config(commands, version, timeout=TIMEOUT)[place.file]
        return Hooks(agent, file, whole=whole, within=named)
    entries = {
        event: dialect.entry(event, line, timeout=TIMEOUT) for event, line in commands.items()
    }
    return Hooks(agent, file, entries, place.frame, place.comments, within=named)


def command(agent: str, event: str, project: Path | None) -> str:
    """The hook command, isolated from the current folder, which may hold a module of our name."""
    words = [sys.executable, _apart(), "-m", "tillerman", "hook", agent, event]
    if project:
        words += ["--project", str(project)]
    return f"{shlex.join(words)} || exit 2"


def switched_off(
    agent: str, project: Path, environment: Mapping[str, str] = os.environ
) -> list[Path]:
    """The settings files in which the user has disabled all hooks of the CLI."""
    place = load(agent).PLACE
    own = (project / place.project, place.users(Path.home(), environment))
    files = dict.fromkeys(one for file in own for one in (file, file.with_name("settings.json")))
    return [file for file in files if _turns_off(file)]


def _turns_off(file: Path) -> bool:
    try:
        plain = parse(file.read_text("utf-8-sig"), comments=True).plain
    except (OSError, UnicodeDecodeError, Invalid):
        return False
    content = plain if isinstance(plain, dict) else {}
    config = content.get("hooksConfig")
    off = isinstance(config, dict) and config.get("enabled") is False
    return off or content.get("disableAllHooks") is True


def status(hooks: Hooks, scope: Scope, journal: BackupJournal) -> HookStatus:
    """The current status, even if the hooks were installed for another version."""
    file = Path(os.path.realpath(hooks.file))
    record = journal.get(file)
    found = file.read_bytes() if file.is_file() else None
    entries = record.entries if record else hooks.entries
    hook_status = HookStatus(
        agent=hooks.agent,
        scope=scope,
        file=str(hooks.file),
        state="absent",
        trust=load(hooks.agent).PLACE.trust,
    )
    if hooks.whole is not None:
        return _of_code(hook_status, found, record.written if record else hooks.whole, bool(record))
    try:
        there = set() if found is None else _present(found, entries, hooks.comments)
        others = {} if found is None else _others(found, hooks.agent, entries, hooks.comments)
    except Invalid as error:
        return _with(hook_status, state="changed" if record else "absent", problem=str(error))
    if not record and not there:
        return _with(hook_status, others=others, problem=_stray(hooks, found))
    missing = tuple(event for event in entries if event not in there)
    return _with(
        hook_status,
        state="changed" if missing else "installed",
        events=tuple(sorted(there)),
        missing=missing,
        others=others,
    )


def _of_code(
    hook_status: HookStatus, found: bytes | None, written: bytes, is_ours: bool
) -> HookStatus:
    events = load(hook_status.agent).CALLS
    if found == written:
        return _with(hook_status, state="installed", events=events)
    if is_ours:
        return _with(hook_status, state="changed", missing=events)
    if found is None:
        return hook_status
    if is_our_code(found, hook_status.agent):
        return _with(hook_status, problem=_STRAY)
    return _with(hook_status, problem="a file that is not from tillerman is in its place")


def _stray(hooks: Hooks, found: bytes | None) -> str:
    if found is None or texts.without_ours(found, hooks.agent, comments=hooks.comments) == found:
        return ""
    return _STRAY


def _present(data: bytes, entries: Mapping[str, Table], comments: bool) -> set[str]:
    return set() if texts.is_empty(data) else texts.present(data, entries, comments=comments)


def _others(
    data: bytes, agent: str, entries: Mapping[str, Table], comments: bool
) -> dict[str, int]:
    if texts.is_empty(data):
        return {}
    left = texts.removed(data, entries, None, comments=comments)
    left = texts.without_ours(left, agent, comments=comments)
    plain = parse(left.decode("utf-8-sig"), comments=comments).plain
    hooks = plain.get("hooks") if isinstance(plain, dict) else None
    found = hooks if isinstance(hooks, dict) else {}
    return {event: len(all) for event, all in found.items() if isinstance(all, list) and all}


def _with(hook_status: HookStatus, **changes: object) -> HookStatus:
    from msgspec.structs import replace

    return replace(hook_status, **changes)


def _apart() -> str:
    """The option that isolates Python from the current folder; `-P` keeps user site-packages."""
    import site

    own = site.getusersitepackages()
    return "-P" if __file__.startswith(own + os.sep) else "-I"
