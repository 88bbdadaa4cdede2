"""`bridle login` and `bridle logout`: an agent's own command, on the user's own terminal."""

from __future__ import annotations

import asyncio
import shlex
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence

from bridle.core.errors import AgentError
from bridle.management import DESKTOP, Management
from bridle.surfaces.cli import opened
from bridle.surfaces.cli.agents import signed_in
from bridle.surfaces.cli.output import say, write
from bridle.surfaces.exits import CANCELLED, NOT_READY


def login(options: Namespace) -> int:
    return asyncio.run(_login(options))


def logout(options: Namespace) -> int:
    return asyncio.run(_logout(options))


async def _login(options: Namespace) -> int:
    name = options.agent
    management, _ = opened.management(options)
    _run(management, name, management.login(name))
    report = await management.report(name)
    if report.account and not report.account.signed_in:
        raise _Still(name, f"{name} is still not signed in", hint=report.account.hint)
    who = signed_in(report)
    say(f"{name} is signed in {who}".rstrip() if report.account else f"{name}: done")
    return 0


async def _logout(options: Namespace) -> int:
    name = options.agent
    management, _ = opened.management(options)
    _run(management, name, management.logout(name))
    report = await management.report(name)
    if report.account and report.account.signed_in:
        hint = "unset the variable" if report.account.method == "variable" else ""
        raise AgentError(name, f"{name} is still signed in {signed_in(report)}", hint=hint)
    say(f"{name} is signed out")
    return 0


class _Still(AgentError):
    exit_code = NOT_READY


def _run(management: Management, agent: str, words: Sequence[str]) -> None:
    """What is typed there is between the user and the agent."""
    driver = management.agent(agent)
    shown = shlex.join([driver.info.binary or words[0], *words[1:]])
    write(sys.stderr, f"running `{shown}`; it may open your browser\n")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the agent
    try:
        code = subprocess.run(
            words,
            env=management.environment(driver, DESKTOP),
            check=False,
            preexec_fn=_interruptible,
        ).returncode
    except OSError as error:
        raise AgentError(agent, f"{words[0]} cannot be run: {error.strerror}") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if code in (-signal.SIGINT, CANCELLED):
        raise KeyboardInterrupt
    if code < 0:
        raise AgentError(agent, f"`{shown}` was ended by signal {-code}")
    if code:
        raise AgentError(agent, f"`{shown}` ended with {code}", hint=driver.info.sign_in)


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
