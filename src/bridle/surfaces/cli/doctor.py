"""`bridle doctor`: looks at everything a session depends on, and says how to mend it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bridle.core.errors import BridleError
from bridle.core.terminal import clean
from bridle.surfaces.cli import phrases
from bridle.surfaces.cli.output import Style, colored, say, say_json

if TYPE_CHECKING:
    from bridle.app import Harness
    from bridle.config import Paths

CHECKED_BY_ITSELF = 256 * 10**6  # bytes of a store that is read as a whole without being asked to


@dataclass(frozen=True)
class Finding:
    about: str
    level: Literal["ok", "note", "bad"]
    text: str
    mend: str = ""


def doctor(options: Namespace) -> int:
    findings = asyncio.run(_findings(options))
    if options.json:
        say_json(findings)
    else:
        _print(findings, Style(colored(options, sys.stdout)))
    return 1 if any(finding.level == "bad" for finding in findings) else 0


async def _findings(options: Namespace) -> list[Finding]:
    from bridle.config import find_paths

    paths = find_paths()
    found = [*_program()]
    found += [finding async for finding in _agents()]
    found += [finding async for finding in _supervision()]
    found += await asyncio.to_thread(lambda: list(_store(paths, options.full)))
    found += _config(paths)
    return found


def _program() -> Iterator[Finding]:
    from bridle import __version__

    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("program", "ok", f"bridle {__version__}, Python {version}, {sys.platform}")
    if git := shutil.which("git"):
        yield Finding("program", "ok", f"git at {git}")
    else:
        yield Finding(
            "program", "note", "no git: changed files are found slowly, and there are no worktrees",
            "install git",
        )  # fmt: skip


async def _agents() -> AsyncIterator[Finding]:
    import bridle
    from bridle.surfaces.cli.agents import about_all

    try:
        async with bridle.open() as harness:
            abouts = await about_all(harness)
            environments = {one.name: _environment(harness, one.name) for one in abouts}
    except BridleError as error:
        yield Finding("agents", "bad", error.message, error.hint)
        return
    for one in abouts:
        text = f"{one.name}: {one.state}"
        if one.installed and one.installed.path:
            text += f" at {one.installed.path}"
        mend = ""
        if one.installed and one.installed.path is None:
            mend = one.install
        elif one.account and one.account.signed_in:
            text += f", signed in{_how(one.account.method, one.account.who)}"
        elif one.account:
            mend = one.account.hint
        yield Finding("agents", "ok" if one.ready else "note", text, mend)
    for name, variables in environments.items():
        yield Finding("environment", "ok", f"{name} gets: {' '.join(variables)}")


def _environment(harness: Harness, name: str) -> list[str]:
    """Names alone: what is in them is nobody's business."""
    from bridle.supervision.environment import child_environment

    try:
        variables = harness.agent(name).info.variables
    except Exception:  # told as a finding about the agent
        return []
    passed = harness.config.env.passed
    return sorted(child_environment(os.environ, variables, passed).variables)


async def _supervision() -> AsyncIterator[Finding]:
    from bridle.supervision.tree import probe

    try:
        levels = await probe()
    except (OSError, ValueError, BridleError) as error:
        yield Finding("supervision", "bad", f"could not be tried out: {error}")
        return
    chosen = next((level for level, reason in levels.items() if reason is None), None)
    for level, reason in levels.items():
        if reason is None:
            used = " (auto takes this one)" if level == chosen else ""
            yield Finding("supervision", "ok", f"{level}{used}")
        else:
            yield Finding("supervision", "note", f"{level}: {reason}")


def _store(paths: Paths, full: bool) -> Iterator[Finding]:
    import apsw

    from bridle.store.database import Database

    yield Finding("store", "ok", f"SQLite {apsw.sqlite_lib_version()}")
    if not paths.store.exists():
        yield Finding("store", "ok", f"{paths.store}: not there yet")
        return
    size = paths.store.stat().st_size
    try:
        database = Database.open(paths.store, read_only=True)
    except BridleError as error:
        yield Finding("store", "bad", error.message, error.hint)
        return
    try:
        sessions = database.query("SELECT count(*) FROM sessions")[0][0]
        text = f"{paths.store}: {phrases.size(size)}, {sessions} sessions"
        if not full and size > CHECKED_BY_ITSELF:
            yield Finding("store", "ok", f"{text}, not read as a whole (--full does)")
        elif fault := database.check():
            yield Finding(
                "store", "bad", f"{text}, damaged: {fault}", "the next start saves the rest"
            )
        else:
            yield Finding("store", "ok", f"{text}, whole")
    except BridleError as error:
        yield Finding("store", "bad", error.message, error.hint)
    finally:
        database.close()
    free = shutil.disk_usage(paths.store.parent).free
    yield Finding("store", "ok" if free > 10**9 else "note", f"{phrases.size(free)} free beside it")


def _config(paths: Paths) -> Iterator[Finding]:
    from bridle.config import load
    from bridle.config.edit import files

    try:
        for file in files(paths, Path.cwd()):
            state = f", {file.trust}" if file.trust else ""
            there = "" if file.exists else ", not there"
            untrusted = file.trust in ("untrusted", "changed")
            mend = "read it, then: bridle trust" if untrusted else ""
            text = f"{file.path} ({file.layer}{state}{there})"
            yield Finding("config", "note" if untrusted else "ok", text, mend)
        for held in load(Path.cwd(), paths=paths).withheld:
            yield Finding(
                "config", "note", f"{held.key} does not count: {held.why}", "bridle trust"
            )
    except BridleError as error:
        yield Finding("config", "bad", error.message, error.hint)


def _how(method: str | None, who: str | None) -> str:
    return (f" by {method}" if method else "") + (f" as {who}" if who else "")


def _print(findings: list[Finding], style: Style) -> None:
    marks = {"ok": style("green", "✓"), "note": style("yellow", "!"), "bad": style("red", "✗")}
    last = ""
    for finding in findings:
        if finding.about != last:
            say(*([""] if last else []), style("bold", finding.about.capitalize()))
            last = finding.about
        say(f"  {marks[finding.level]} {_flat(finding.text)}")
        if finding.mend:
            say(f"    {style('dim', 'to mend it:')} {_flat(finding.mend)}")


def _flat(text: str) -> str:
    return " ".join(clean(text).split())
